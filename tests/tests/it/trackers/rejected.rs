//! Items of messages that are rejected, and of tasks that were settled before.

use std::sync::Arc;

use groupage_aws::entry::mapping::TASKS;
use groupage_core::domain::tracker::{State, Which};
use groupage_core::steps::register::{Asked, Rations, Register, Report};
use groupage_lab::prelude::*;

const ROUTES: &str =
    parcels_route!["when: type == 'parcel'", "batch: { max_items: 10, wait_ms: 2000, express: false }"];

/// The same stack after a push that takes the route away.
const OTHER_ROUTES: &str = r#"
version: 1
routes:
  - name: letters
    when: "type == 'letter'"
    target: truck
    batch: { max_items: 10, wait_ms: 2000 }
    downstream: { http: { url: "http://downstream.invalid/load" } }
"#;

/// With a sealed tracker `t` of this many items.
async fn tracking(items: u64) -> Memory {
    let memory = Memory::new(1);
    let id = track(memory.tracking(), "t", items).await;
    memory.tracking().seal(&id).await.unwrap().unwrap();
    memory
}

async fn items(memory: &Memory, which: Which) -> Vec<String> {
    let tracker = memory.store.trackers().remove(0);
    let items = memory.tracking().items(&tracker, which, None, 100).await.unwrap().items;
    items.into_iter().map(|item| item.to_string()).collect()
}

fn rejected(memory: &Memory) -> usize {
    memory.queues.messages(&Destination::Rejected).len()
}

async fn register(
    store: &impl Store,
    queues: &(impl Outbox + Inbox),
    env: &TestEnv,
    routes: &str,
    bodies: &[String],
) -> Report {
    let routes = Routes::parse(routes).unwrap();
    let deadline = env.now().plus_ms(TASKS.budget_ms());
    Register { store, queues, env, routes: &routes, deadline, rations: &Rations::default(), asked: &Asked::default() }
        .run(records(bodies))
        .await
}

fn parcel(id: &str, n: usize, item: &str) -> String {
    format!(r#"{{"id":"{id}","item":"{item}","payload":{{"type":"parcel","truck":"t1","n":{n}}}}}"#)
}

#[tokio::test(start_paused = true)]
async fn the_item_of_a_message_that_is_never_registered_fails() {
    let memory = tracking(3).await;
    let bodies = [
        r#"{"item":"t:0:0","payload":{"type":"letter"}}"#.to_owned(),
        r#"{"item":"t:0:1"}"#.to_owned(),
        parcel("p", 1, "t:0:2"),
    ];
    assert_eq!(memory.register(ROUTES, &bodies).await.rejected, 2);
    assert_eq!(items(&memory, Which::Failed).await, ["t:0:0", "t:0:1"]);
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:2"]);
}

/// SQS may bring a message again after a push, when no route wants it any more.
#[tokio::test(start_paused = true)]
async fn a_second_copy_that_is_rejected_fails_no_item_of_a_task() {
    let memory = tracking(1).await;
    let body = [parcel("p", 1, "t:0:0")];
    assert_eq!(memory.register(ROUTES, &body).await.registered, 1);
    assert_eq!(memory.register(OTHER_ROUTES, &body).await.rejected, 1);
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:0"], "the task is under way");
}

#[tokio::test(start_paused = true)]
async fn a_second_copy_that_is_rejected_fails_no_item_of_a_task_on_a_list() {
    let memory = tracking(1).await;
    let body = [parcel("p", 1, "t:0:0").replace("\"item\"", "\"list\":\"l\",\"item\"")];
    assert_eq!(memory.register(ROUTES, &body).await.listed, 1);
    assert_eq!(memory.register(OTHER_ROUTES, &body).await.rejected, 1);
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:0"], "the task waits");
}

/// Another message of the same id is refused; the item is acked by the task that waits, and not by the refusal.
#[tokio::test(start_paused = true)]
async fn a_conflicting_message_fails_its_own_item_and_not_that_of_a_task_on_a_list() {
    let memory = tracking(2).await;
    let listed = |n, item| parcel("p", n, item).replace("\"item\"", "\"list\":\"l\",\"item\"");
    assert_eq!(memory.register(ROUTES, &[listed(1, "t:0:0")]).await.listed, 1);
    let conflicts = [listed(2, "t:0:0"), listed(1, "t:0:1")];
    assert_eq!(memory.register(ROUTES, &conflicts).await.rejected, 2);
    assert_eq!(items(&memory, Which::Failed).await, ["t:0:1"]);
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:0"], "the task waits");
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_message_fails_its_own_item_and_not_that_of_the_task() {
    let memory = tracking(2).await;
    assert_eq!(memory.register(ROUTES, &[parcel("p", 1, "t:0:0")]).await.registered, 1);
    let conflicts = [parcel("p", 2, "t:0:0"), parcel("p", 1, "t:0:1")];
    assert_eq!(memory.register(ROUTES, &conflicts).await.rejected, 2);
    assert_eq!(items(&memory, Which::Failed).await, ["t:0:1"]);
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:0"]);
}

/// The process that settled it may have died before the ack; or the tracker is a younger one of the same id.
#[tokio::test(start_paused = true)]
async fn a_repeat_of_a_settled_task_acks_its_item() {
    let memory = tracking(2).await;
    let bodies = [parcel("p", 1, "t:0:0"), parcel("q", 1, "t:0:1")];
    assert_eq!(memory.register(ROUTES, &bodies).await.registered, 2);
    settle(&memory, "p", Settlement::Succeeded).await;
    let (target, reason) = (Target::new("parcels:t"), Reason::new("too_heavy"));
    let failure = Failure { target, reason, attempts: 1, answer: None, keep_ms: 0 };
    settle(&memory, "q", Settlement::Failed(failure)).await;
    assert_eq!(items(&memory, Which::Missing).await, ["t:0:0", "t:0:1"], "nobody has acked them");
    assert_eq!(memory.register(ROUTES, &bodies).await.repeated, 2);
    assert_eq!(items(&memory, Which::Failed).await, ["t:0:1"]);
    let tracker = memory.store.trackers().remove(0);
    assert!(matches!(tracker.state, State::Ended(_)), "{tracker:?}");
}

async fn settle(memory: &Memory, id: &str, settlement: Settlement) {
    let found = memory.store.read(&[TaskId::new(id)], Freshness::Latest).await;
    let (task, batch) = (found.unwrap().remove(0), BatchId::new("b"));
    memory.store.join(&task.id, task.round, &batch).await.unwrap();
    let member = Member { id: task.id, round: task.round };
    memory.store.settle(&member, &batch, &settlement, memory.env.now()).await.unwrap();
}

/// When a message is among the rejected ones, its item has failed, whatever went wrong on the way.
#[tokio::test(start_paused = true)]
async fn a_message_is_rejected_when_its_item_has_failed() {
    let bodies = [parcel("p", 1, "t:0:0").replace("parcel", "letter")];
    for call in 0.. {
        let memory = tracking(1).await;
        let fate = Arc::new(Fate::new(Plan::At(call, Side::Before, Fault::Error), memory.env.clone(), false));
        let process = Process::new("register-task", memory.env.clone(), Arc::clone(&fate), 0);
        let (store, outbox) = (Faulty::new(&memory.store, &process), Faulty::new(&memory.queues, &process));
        let report = register(&store, &outbox, &memory.env, ROUTES, &bodies).await;
        assert!(rejected(&memory) == 0 || items(&memory, Which::Failed).await == ["t:0:0"], "call {call}");
        if report.failed.is_empty() {
            assert_eq!(rejected(&memory), 1);
        } else {
            memory.register(ROUTES, &bodies).await;
            assert_eq!((rejected(&memory), items(&memory, Which::Failed).await.len()), (1, 1), "call {call}");
        }
        if fate.faults().is_empty() {
            assert!(call > 3, "every call had its turn");
            return;
        }
    }
}

/// The tracker's table does not answer; the event's good records are driven on all the same.
#[tokio::test(start_paused = true)]
async fn no_tracker_keeps_good_records_waiting() {
    let bodies = [parcel("p", 1, "t:0:0").replace("parcel", "letter"), parcel("q", 1, "t:0:1")];
    let memory = tracking(2).await;
    let fate = Arc::new(Fate::new(Plan::Nothing, memory.env.clone(), false));
    let process = Process::new("register-task", memory.env.clone(), Arc::clone(&fate), 0);
    let (store, outbox) = (Faulty::new(&memory.store, &process), Faulty::new(&memory.queues, &process));
    register(&store, &outbox, &memory.env, ROUTES, &bodies).await;
    let calls: Vec<&str> = fate.points().into_iter().map(|point| point.call).collect();
    let at = |call: &str| calls.iter().position(|made| *made == call).unwrap();
    assert!(at("send") < at("look"), "{calls:?}");
}
