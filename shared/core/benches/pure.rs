//! The code that runs for every task, without any port: what of a task's processor time is ours.
//!
//! `cargo bench -p groupage-core`
#![allow(clippy::unwrap_used, reason = "benchmarks")]

use divan::Bencher;
use divan::counter::ItemsCount;
use groupage_core::domain::Traits;
use groupage_core::domain::batch::Limits;
use groupage_core::domain::drain::Drain;
use groupage_core::domain::message::{Elect, Election};
use groupage_core::domain::task_message::{self, TaskMessage};
use groupage_core::domain::tracker::{Mark, Node, NodeId};
use groupage_core::domain::{BatchId, Candidate, Copies, Round, RouteName, Target, TaskId, Timestamp, WorkflowId};
use groupage_core::routes::{Item, Routes};
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

const ROUTES: &str = r#"
version: 1
routes:
  - name: others
    when: "type == 'letter'"
    target: street
    downstream: { http: { url: "http://127.0.0.1:9/" } }
  - name: parcels
    when: "type == 'parcel'"
    target: truck
    downstream: { http: { url: "http://127.0.0.1:9/" } }
  - name: templated
    target: truck
    downstream:
      http:
        url: "http://127.0.0.1:9/"
        body: "{% for item in items %}{{ item.payload | tojson }}\n{% endfor %}"
"#;

/// A full batch.
const ITEMS: usize = 100;

fn body(number: usize) -> String {
    format!(
        r#"{{"id":"order-{number:08}","payload":{{"type":"parcel","truck":"t7","kg":{number},"to":{{"street":"Long Lane 7","city":"Hull"}}}}}}"#
    )
}

fn message() -> TaskMessage {
    task_message::parse(&body(7), "m").unwrap()
}

fn candidates(count: usize) -> Vec<Candidate> {
    (0..count)
        .map(|n| Candidate {
            id: TaskId::new(format!("order-{n:08}")),
            round: Round(0),
            bytes: 200,
            traits: Traits::default(),
        })
        .collect()
}

#[divan::bench]
fn a_message_is_parsed(bencher: Bencher) {
    let body = body(7);
    bencher.counter(ItemsCount::new(1_u32)).bench(|| task_message::parse(&body, "m"));
}

#[divan::bench]
fn a_message_is_digested(bencher: Bencher) {
    let message = message();
    bencher.counter(ItemsCount::new(1_u32)).bench(|| message.digest());
}

#[divan::bench]
fn a_payload_finds_its_route_and_target(bencher: Bencher) {
    let (routes, message) = (Routes::parse(ROUTES).unwrap(), message());
    bencher.counter(ItemsCount::new(1_u32)).bench(|| routes.assign(&message.payload).map(|assigned| assigned.target));
}

#[divan::bench]
fn an_election_is_written(bencher: Bencher) {
    let routes = Routes::parse(ROUTES).unwrap();
    let target = routes.assign(&message().payload).unwrap().target;
    let workflow = WorkflowId::new("0123456789abcdef0123456789abcdef");
    let election = Elect::Waiting(Election {
        workflow,
        target,
        tasks: candidates(ITEMS),
        since: Timestamp(0),
        attempt: 0,
        signalled: None,
        copies: Copies::NONE,
    });
    bencher.counter(ItemsCount::new(ITEMS)).bench(|| serde_json::to_string(&election));
}

#[divan::bench]
fn an_election_is_read(bencher: Bencher) {
    let routes = Routes::parse(ROUTES).unwrap();
    let target = routes.assign(&message().payload).unwrap().target;
    let workflow = WorkflowId::new("0123456789abcdef0123456789abcdef");
    let (tasks, since, copies) = (candidates(ITEMS), Timestamp(0), Copies::NONE);
    let election = Election { workflow, target, tasks, since, attempt: 0, signalled: None, copies };
    let text = serde_json::to_string(&Elect::Waiting(election)).unwrap();
    bencher.counter(ItemsCount::new(ITEMS)).bench(|| serde_json::from_str::<Elect>(&text));
}

#[divan::bench]
fn a_leader_takes_a_batch_from_a_page_of_the_index(bencher: Bencher) {
    let limits = Limits { max_items: ITEMS, ..Limits::default() };
    let target = Target::of(&RouteName::new("parcels"), "t7");
    bencher.counter(ItemsCount::new(ITEMS)).with_inputs(|| candidates(2 * ITEMS)).bench_values(|page| {
        let mut drain: Drain<()> = Drain::new([], [target.clone()], false);
        drain.add_page(&target, page, None);
        drain.take(&limits.room())
    });
}

#[divan::bench(args = ["parcels", "templated"])]
fn a_call_is_written(bencher: Bencher, route: &str) {
    let routes = Routes::parse(ROUTES).unwrap();
    let target = routes.assign(&message().payload).unwrap().target;
    let route = routes.iter().find(|other| other.name.as_str() == route).unwrap();
    let bodies: Vec<TaskMessage> = (0..ITEMS).map(|n| task_message::parse(&body(n), "m").unwrap()).collect();
    let payloads: Vec<&RawValue> =
        bodies.iter().map(|message| serde_json::from_str(&message.payload).unwrap()).collect();
    let items: Vec<Item<'_>> =
        bodies.iter().zip(payloads).map(|(message, payload)| Item { id: message.id.as_str(), payload }).collect();
    let key = BatchId::new("b");
    bencher.counter(ItemsCount::new(ITEMS)).bench(|| route.body(&key, &target, &items));
}

#[divan::bench]
fn a_batch_of_items_is_acked(bencher: Bencher) {
    let marks: Vec<Mark> = (0..100).map(|n| Mark { bit: n * 7, failures: 0 }).collect();
    let node = Node::empty(NodeId { level: 0, index: 0 });
    bencher.counter(ItemsCount::new(ITEMS)).bench(|| {
        let change = node.marking(&marks).unwrap();
        node.clone().changed(&change)
    });
}
