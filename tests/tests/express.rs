//! The express path: which tasks take it, and what becomes of those whose batch does not come to be.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use groupage_tests::clock::TestEnv;
use groupage_tests::downstream::Scripted;
use groupage_tests::process::{Fault, Plan, Side};
use groupage_tests::records::{first, records};
use groupage_tests::scenario::{parcel, parcels};
use groupage_tests::world::{Setting, VISIBILITY_MS, World};
use shared::domain::batch::{self, Assumes, Batch, Claim, Member};
use shared::domain::id::{BatchId, Fence, Round, SessionId, Shard, Target, TaskId};
use shared::domain::outcome::Results;
use shared::domain::rest::{Rest, Stage};
use shared::domain::task::{Candidate, Status, Task};
use shared::domain::task_message::{self, MAX_MESSAGE_BYTES};
use shared::domain::time::Timestamp;
use shared::memory::MemoryStore;
use shared::ports::{self, Batches, Destination, Env, Inbox, Outbox, Outgoing, Tasks};
use shared::routes::Routes;
use shared::steps::register::{Record, Register, Report};
use shared::steps::revive::revive;
use tokio::time::Instant;

const ROUTES: &str = r#"
version: 1
routes:
  - name: parcels
    target: truck
    batch: { max_items: 10, wait_ms: 2000 }
    downstream: { http: { url: "http://downstream.invalid/load" } }
    notify: { failure: default, success: default }
"#;

/// They have waited for others for long.
const WAITED: Stage = Stage::Left(Timestamp(0));

fn world() -> World {
    World::new(Setting::default(), ROUTES, Scripted::accepting())
}

/// A world in which messages for the same step come together.
fn mixing() -> World {
    World::new(Setting { mixes: true, ..Setting::default() }, ROUTES, Scripted::accepting())
}

fn sent(world: &World, to: &Destination) -> usize {
    world.queues.now().messages(to).len()
}

fn all_settled(world: &World, tasks: usize) {
    let all = world.tables().tasks();
    assert_eq!(all.len(), tasks);
    assert!(all.iter().all(|task| matches!(task.status, Status::Succeeded { .. })), "{all:?}");
    assert!(world.keys_by_item().values().all(|keys| *keys == 1), "a task in two calls");
}

#[tokio::test(start_paused = true)]
async fn full_batches_are_frozen_at_once_and_the_rest_goes_where_others_are() {
    let world = world();
    let report = world.register(&parcels(50, 2)).await;
    assert_eq!((report.registered, report.batches, report.members, report.gathered), (40, 4, 40, 10));
    assert_eq!((sent(&world, &Destination::Handle), sent(&world, &Destination::Elect)), (4, 0));
    let group = |truck: &str| Destination::Gather(Target::new(format!("parcels:{truck}")));
    assert_eq!((sent(&world, &group("t0")), sent(&world, &group("t1"))), (1, 1));
    assert_eq!(world.tables().tasks().len(), 40, "the rest is put when it is known in which batch");
    world.run_to_rest().await.unwrap();
    all_settled(&world, 50);
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert_eq!(sizes.iter().filter(|size| **size == 10).count(), 4, "{sizes:?}");
    // Four express batches, and one of five for each Target.
    assert_eq!(sizes.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_rests_of_several_events_fill_batches_together_without_an_election() {
    let world = mixing();
    for event in parcels(60, 1).chunks(12) {
        world.register(event).await;
    }
    world.run_while(|| world.tables().tasks().len() < 60).await.unwrap();
    assert_eq!(world.tables().waiting(&target(), None, 99).await.unwrap().candidates, [], "a task is in the index");
    world.run_to_rest().await.unwrap();
    all_settled(&world, 60);
    assert!(world.downstream.ledger().iter().all(|seen| seen.items.len() == 10), "a batch is not full");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_come_one_by_one_fill_batches_together() {
    let world = mixing();
    for body in parcels(20, 1) {
        assert_eq!(world.register(&[body]).await.gathered, 1);
    }
    world.run_to_rest().await.unwrap();
    all_settled(&world, 20);
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert_eq!(sizes, [10, 10]);
    assert_eq!(sent(&world, &Destination::Elect), 0);
}

#[tokio::test(start_paused = true)]
async fn rests_of_a_target_with_shards_gather_in_that_of_their_event() {
    let routes = ROUTES.replace("    target: truck\n", "    target: truck\n    shards: 4\n");
    let setting = Setting { mixes: true, ..Setting::default() };
    let world = World::new(setting, &routes, Scripted::accepting());
    for event in parcels(100, 1).chunks(5) {
        assert_eq!(world.register(event).await.gathered, 5);
    }
    world.run_to_rest().await.unwrap();
    all_settled(&world, 100);
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert!(sizes.iter().filter(|size| **size == 10).count() >= 8, "{sizes:?}");
    let batches = world.tables().batches().into_iter().filter(|batch| batch.members.len() == 10);
    assert!(batches.map(|batch| batch.target.shard()).collect::<BTreeSet<Shard>>().len() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_rest_gathers_for_as_long_as_its_batch_may_wait_and_is_elected_then() {
    for (wait_ms, gathers_ms) in [(1_000, 1_000), (2_000, 2_000), (60_000, 5_000)] {
        let routes = ROUTES.replace("wait_ms: 2000", &format!("wait_ms: {wait_ms}"));
        let world = World::new(Setting::default(), &routes, Scripted::accepting());
        let begun = world.env.now();
        world.register(&parcels(5, 1)).await;
        world.run_while(|| world.tables().tasks().len() < 5).await.unwrap();
        let gathered_ms = world.env.now().since(begun);
        assert!((gathers_ms - 500..gathers_ms + 500).contains(&gathered_ms), "{wait_ms}: {gathered_ms} ms");
        assert_eq!(sent(&world, &Destination::Elect), 1);
        world.run_to_rest().await.unwrap();
        all_settled(&world, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_rest_gathers_for_counts_as_waited() {
    for wait_ms in [1_000, 3_000, 20_000] {
        let routes = ROUTES.replace("wait_ms: 2000", &format!("wait_ms: {wait_ms}"));
        let world = World::new(Setting::default(), &routes, Scripted::accepting());
        let begun = Instant::now();
        world.register(&parcels(5, 1)).await;
        world.run_to_rest().await.unwrap();
        let calls: Vec<u128> = world.downstream.ledger().iter().map(|seen| (seen.at - begun).as_millis()).collect();
        assert!(calls.len() == 1 && (wait_ms..wait_ms + 1_000).contains(&calls[0]), "{wait_ms}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rests_of_a_quiet_target_with_shards_still_meet_at_their_leader() {
    let routes = ROUTES.replace("    target: truck\n", "    target: truck\n    shards: 4\n");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    for n in 0..3 {
        let left = Stage::Left(Timestamp(world.env.now().0 - 2_000));
        let report = world.register(&[Rest::body(&[parcel(n, 0)], left, Shard(n as u8))]).await;
        assert_eq!((report.registered, report.gathered), (1, 0));
        if n == 0 {
            // Home's leader is there before the others.
            for step in [Destination::Elect, Destination::Group] {
                let delivery = world.queues.now().receive_from(&step, VISIBILITY_MS).unwrap();
                assert!(world.deliver(&delivery).await.unwrap());
                world.queues.now().delete(&delivery.receipt);
            }
        }
    }
    world.run_to_rest().await.unwrap();
    all_settled(&world, 3);
    assert_eq!(world.downstream.ledger().len(), 1, "a call of all");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_gathered_has_waited_for_longer_than_it_was_registered() {
    let world = world();
    let now = world.env.now();
    let left = Timestamp(now.0 - 2_000);
    // Clocks differ: what has not come yet has not waited.
    for (n, left, waits_since) in [(0, left, left), (1, now.plus_ms(60_000), now)] {
        let body = Rest::body(&[parcel(n, n)], Stage::Left(left), Shard::HOME);
        world.register_records(vec![Record { received: 6, ..first("m", &body) }]).await;
        let task = world.tables().tasks().into_iter().find(|task| task.id == TaskId::new(format!("p{n}"))).unwrap();
        assert_eq!((task.created_at, task.waits_since), (now, waits_since));
    }
}

/// Registers messages that came before.
async fn register_again(world: &World, bodies: &[String]) -> Report {
    world.register_records(records(bodies).into_iter().map(|record| Record { received: 2, ..record }).collect()).await
}

#[tokio::test(start_paused = true)]
async fn who_came_before_does_not_gather_but_may_fill_a_batch() {
    let world = world();
    let report = register_again(&world, &parcels(13, 1)).await;
    assert_eq!((report.registered, report.members, report.gathered), (13, 10, 0));
}

/// Rests of two tasks each, of so many Targets, which their events have just left.
fn rests(world: &World, count: usize, trucks: usize) -> Vec<String> {
    let stage = Stage::Left(world.env.now());
    let rest = |n: usize| [2 * n, 2 * n + 1].map(|id| parcel(id, n % trucks));
    (0..count).map(|n| Rest::body(&rest(n), stage, Shard::HOME)).collect()
}

#[tokio::test(start_paused = true)]
async fn rests_that_fill_no_batch_stay_in_their_messages() {
    let world = world();
    for (count, trucks) in [(1, 1), (4, 1), (10, 10)] {
        let report = world.register(&rests(&world, count, trucks)).await;
        let ids: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        assert_eq!((report.kept().collect::<Vec<_>>(), &report.held), (ids.iter().map(String::as_str).collect(), &ids));
        assert_eq!((report.registered, report.failed.len(), report.gathered), (0, 0, 0));
        assert!(world.tables().tasks().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_rests_goes_on_in_one_message_of_the_same_age() {
    let routes = ROUTES.replace("max_items: 10", "max_items: 9");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let bodies = rests(&world, 6, 1);
    let since = world.env.now();
    world.env.sleep(300).await;
    let report = world.register(&bodies).await;
    assert_eq!((report.registered, report.batches, report.kept().count()), (9, 1, 0));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    let rest = Rest::parse(&message.body).unwrap();
    assert_eq!((rest.tasks().count(), rest.stage()), (3, Stage::Left(since)));
}

#[tokio::test(start_paused = true)]
async fn what_gathers_and_is_rejected_then_is_rejected_as_it_came() {
    let world = world();
    let spaced = |n: usize| format!(r#"{{ "id": "a",  "payload": {{"truck": "t0", "n": {n}}} }}"#);
    let report = world.register(&[spaced(0), r#"{"payload": {"truck": "t0"}}"#.to_owned()]).await;
    assert_eq!((report.gathered, report.registered), (2, 0));
    world.run_to_rest().await.unwrap();
    assert_eq!(world.register(&[spaced(1)]).await.gathered, 1);
    world.run_to_rest().await.unwrap();
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert_eq!(rejected.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), [spaced(1)]);
    let ids: BTreeSet<String> = world.tables().tasks().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(ids, ["a", "m1"].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn ten_rests_of_one_target_that_came_together_make_way_for_those_behind_them() {
    let routes = ROUTES.replace("max_items: 10", "max_items: 40");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let report = world.register(&rests(&world, 10, 1)).await;
    assert_eq!((report.registered, report.kept().count()), (0, 0));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    assert_eq!(Rest::parse(&message.body).unwrap().tasks().count(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_came_alone_is_sent_on_with_rests_and_never_left_to_their_messages() {
    let world = world();
    let stage = Stage::Left(world.env.now());
    let rest =
        |ids: std::ops::Range<usize>| Rest::body(&ids.map(|n| parcel(n, 0)).collect::<Vec<_>>(), stage, Shard::HOME);
    // Ten fill a batch; one of the second rest is left, and as many as that rest has are left in all.
    let report = world.register(&[rest(0..9), rest(9..11), parcel(11, 0)]).await;
    assert_eq!((report.registered, report.kept().count(), report.gathered), (10, 0, 1));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    assert_eq!(Rest::parse(&message.body).unwrap().tasks().count(), 2);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 12);
}

#[tokio::test(start_paused = true)]
async fn ten_rests_too_large_for_fewer_messages_and_too_few_for_a_batch_do_not_go_round() {
    let routes = ROUTES.replace("max_items: 10", "max_items: 1000, max_bytes: 5000000");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let stage = Stage::Left(world.env.now());
    let large = |n: usize| format!(r#"{{"id":"p{n}","payload":{{"truck":"t0","x":"{}"}}}}"#, "x".repeat(150_000));
    let rests: Vec<String> = (0..10).map(|n| Rest::body(&[large(n)], stage, Shard::HOME)).collect();
    let report = world.register(&rests[..9]).await;
    assert_eq!((report.held.len(), report.registered), (9, 0));
    let report = world.register(&rests).await;
    assert_eq!((report.held.len(), report.registered), (0, 10));
    assert_eq!((sent(&world, &Destination::Gather(target())), sent(&world, &Destination::Elect)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_was_received_often_is_not_held_again() {
    let world = world();
    let [body] = &rests(&world, 1, 1)[..] else { panic!("one") };
    for (received, held) in [(5, 1), (6, 0)] {
        let report = world.register_records(vec![Record { received, ..first("m", body) }]).await;
        assert_eq!((report.held.len(), report.registered), (held, 2 * (1 - held)), "{received}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_cannot_be_held_is_elected() {
    let world = world();
    let report = world.register_by(Plan::At(0, Side::Before, Fault::Error), &rests(&world, 2, 1)).await;
    assert_eq!((report.registered, report.not_gathered.len(), report.kept().count()), (4, 1, 0));
    assert_eq!(sent(&world, &Destination::Elect), 1);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 4);
}

#[tokio::test(start_paused = true)]
async fn a_rest_does_not_wait_where_batches_do_not() {
    let routes = ROUTES.replace("wait_ms: 2000", "wait_ms: 999");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let report = world.register(&parcels(15, 1)).await;
    assert_eq!((report.registered, report.gathered, sent(&world, &Destination::Elect)), (15, 0, 1));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 15);
}

#[tokio::test(start_paused = true)]
async fn a_rest_goes_in_as_many_messages_as_hold_it_and_what_is_too_large_for_any_is_elected() {
    let world = world();
    let large =
        |n: usize, bytes: usize| format!(r#"{{"id":"p{n}","payload":{{"truck":"t0","x":"{}"}}}}"#, "x".repeat(bytes));
    let bodies = [large(0, 255_900), large(1, 150_000), large(2, 150_000), parcel(3, 0)];
    assert!(bodies.iter().all(|body| body.len() <= MAX_MESSAGE_BYTES));
    let report = world.register(&bodies).await;
    assert_eq!((report.registered, report.gathered, report.failed.len()), (1, 3, 0));
    let messages = world.queues.now().messages(&Destination::Gather(target()));
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().all(|message| message.body.len() <= MAX_MESSAGE_BYTES));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 4);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_holds_a_rest_is_done_when_each_of_its_tasks_is() {
    let world = world();
    let good = parcel(0, 1);
    let bad = [r#"{"id":"p1"}"#, r#"{"payload":{"truck":"t0"}}"#];
    let body = Rest::body(&[&good, bad[0], bad[1], &good].map(str::to_owned), WAITED, Shard::HOME);
    let report = world.register(&[body]).await;
    assert_eq!((report.registered, report.rejected, report.repeated, report.failed.len()), (1, 2, 1, 0));
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert_eq!(rejected.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), bad);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 1);
}

/// Registers a rest of these tasks that is at this stage, and its `call`th call to a port fails.
async fn failing(world: &World, bodies: &[String], stage: Stage, call: usize) -> Report {
    let body = Rest::body(bodies, stage, Shard::HOME);
    world.register_by(Plan::At(call, Side::Before, Fault::Error), &[body]).await
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_in_a_rest_goes_back_alone_and_its_neighbours_go_on() {
    for call in 0..3 {
        let world = world();
        let report = failing(&world, &parcels(3, 1), WAITED, call).await;
        assert_eq!((report.registered, report.sent_back.len(), report.failed.len()), (2, 1, 0), "put {call}");
        assert_eq!((world.tables().tasks().len(), sent(&world, &Destination::Elect)), (2, 1));
        let back = world.queues.now().messages(&Destination::Tasks);
        let [message] = &back[..] else { panic!("{back:?}") };
        let rest = Rest::parse(&message.body).unwrap();
        assert_eq!(rest.stage(), Stage::Failed);
        assert!(rest.tasks().eq([parcel(call, 0)].iter().map(String::as_str)), "{message:?}");
        world.run_to_rest().await.unwrap();
        all_settled(&world, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_keep_its_group_though_nobody_came_with_it() {
    let world = world();
    let report = failing(&world, &parcels(1, 1), WAITED, 0).await;
    assert_eq!((report.sent_back.len(), report.failed.len()), (1, 0));
    assert_eq!(sent(&world, &Destination::Tasks), 1);
}

/// Queues that nobody reaches.
struct Unreachable;

impl Outbox for Unreachable {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<ports::Result<()>> {
        let lost = |_| Err(ports::Error::Unavailable { what: "sending", why: "a test".to_owned() });
        messages.iter().map(lost).collect()
    }
}

impl Inbox for Unreachable {
    async fn postpone(&self, _: &Destination, receipts: Vec<String>, _: u64) -> Vec<ports::Result<()>> {
        let lost = |_| Err(ports::Error::Unavailable { what: "postponing", why: "a test".to_owned() });
        receipts.iter().map(lost).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_whose_tasks_cannot_be_sent_back_comes_again() {
    let routes = Routes::parse(ROUTES).unwrap();
    let record = first("m", &Rest::body(&parcels(3, 1), WAITED, Shard::HOME));
    let (store, env) = (MemoryStore::new(), TestEnv::new(1));
    let report = Register { store: &store, queues: &Unreachable, env: &env, routes: &routes }.run(vec![record]).await;
    assert_eq!(report.failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m"]);
    assert_eq!((report.registered, report.sent_back.len()), (3, 0), "put, but nobody was asked to lead them");
}

#[tokio::test(start_paused = true)]
async fn what_failed_takes_nobody_with_it_who_could_gather() {
    let world = world();
    let mut event = parcels(5, 1);
    event[0] = Rest::body(&event[..1], Stage::Failed, Shard::HOME);
    let report = world.register(&event).await;
    assert_eq!((report.registered, report.gathered), (1, 4));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 5);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_again_is_counted_by_its_queue() {
    let world = world();
    let report = failing(&world, &parcels(1, 1), Stage::Failed, 0).await;
    assert_eq!(report.failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m0"]);
    assert_eq!((report.sent_back.len(), sent(&world, &Destination::Tasks)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_its_bytes_too() {
    let routes = ROUTES.replace("max_items: 10", "max_items: 10, max_bytes: 60");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    // Three payloads of 20 bytes fill a batch, if another follows.
    let report = world.register(&parcels(7, 1)).await;
    assert_eq!((report.batches, report.members), (2, 6));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 7);
}

#[tokio::test(start_paused = true)]
async fn a_route_may_do_without() {
    let routes = ROUTES.replace("wait_ms: 2000", "wait_ms: 2000, express: false");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!(report.batches, 0);
    assert_eq!((sent(&world, &Destination::Handle), sent(&world, &Destination::Elect)), (0, 1));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 20);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_keep_an_order_never_take_it() {
    let routes = ROUTES.replace("target: truck", "target: truck\n    ordered_by: truck");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!(report.batches, 0);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 20);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_pulled_waits_for_a_worker_at_once() {
    let routes = ROUTES.replace(r#"{ http: { url: "http://downstream.invalid/load" } }"#, "pull");
    let setting = Setting { workers: Some(("parcels", 2)), sweeps: true, ..Setting::default() };
    let world = World::new(setting, &routes, Scripted::accepting());
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!((report.batches, sent(&world, &Destination::Handle)), (2, 0));
    assert!(world.tables().batches().iter().all(|batch| batch.pulled && batch.due <= world.env.now()));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 20);
}

#[tokio::test(start_paused = true)]
async fn repeats_among_the_new_stay_where_they_are() {
    let world = world();
    for alone in parcels(3, 1) {
        register_again(&world, &[alone]).await;
    }
    let report = world.register(&parcels(10, 1)).await;
    assert_eq!((report.registered, report.repeated, report.batches, report.members), (7, 3, 1, 7));
    let again = world.register(&parcels(10, 1)).await;
    assert_eq!((again.repeated, again.batches), (10, 0), "a batch of repeats");
    world.run_to_rest().await.unwrap();
    all_settled(&world, 10);
}

#[tokio::test(start_paused = true)]
async fn another_task_under_a_used_id_is_no_member() {
    let world = world();
    register_again(&world, &[parcel(0, 1)]).await;
    let report = world.register(&parcels(10, 1)).await;
    assert_eq!((report.rejected, report.members), (1, 9));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 10);
}

fn target() -> Target {
    Target::new("parcels:t0")
}

/// Tasks as an express writer left them: they name a batch.
async fn left(world: &World, count: usize, batch: &BatchId) -> Vec<String> {
    let bodies = parcels(count, 1);
    for body in &bodies {
        let message = task_message::parse(body, "m").unwrap();
        let digest = message.digest();
        let task = Task::new(message.id, target(), message.payload, digest, world.env.now());
        world.tables().register(&task.batched_in(batch.clone())).await.unwrap();
    }
    bodies
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_never_came_is_voided_once_however_many_tasks_name_it() {
    let world = world();
    let bodies = left(&world, 30, &BatchId::express("dead")).await;
    let report = world.register(&bodies).await;
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!((report.repeated, report.batches), (30, 0));
    let batches = world.tables().batches();
    assert_eq!(batches.iter().map(|batch| batch.status.clone()).collect::<Vec<_>>(), [batch::Status::Void]);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 30);
}

/// The states in which a task may find the batch that it names, without the task or with it.
fn states(id: &BatchId, member: &Candidate) -> Vec<(&'static str, Option<Batch>, &'static str)> {
    let now = Timestamp(0);
    let other = Candidate { id: TaskId::new("other"), round: Round(0), bytes: 1 };
    let claim = Claim { session: SessionId::new("#handlers-1/s") };
    let states = |who: &Candidate| {
        let frozen = Batch::express(id.clone(), target(), std::slice::from_ref(who), now);
        let claimed = frozen.claimed(claim.clone());
        [
            frozen.clone(),
            claimed.clone(),
            claimed.paused(now),
            claimed.settled(Results::new(), now),
            claimed.settled(Results::new(), now).followed_up(),
        ]
    };
    let open = Batch::open(id.clone(), target(), Fence(1), std::slice::from_ref(member), now, 0);
    let mut all = vec![
        ("absent", None, "waits"),
        ("void", Some(Batch::void(id.clone(), target(), now)), "waits"),
        ("open", Some(open.clone()), "finish"),
        ("closing", Some(open.closing()), "finish"),
        ("empty", Some(open.frozen(Vec::new())), "nothing"),
    ];
    all.extend(states(&other).map(|batch| ("final, without the task", Some(batch), "waits")));
    // A member of another round is none.
    all.extend(
        states(member)
            .map(|batch| Batch { members: vec![Member { id: member.id.clone(), round: Round(7) }], ..batch })
            .map(|batch| ("final, with an earlier or later round of the task", Some(batch), "waits")),
    );
    all.extend(states(member).map(|batch| ("final, with the task", Some(batch), "handle")));
    all
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_batch_does_not_have_it_goes_back_to_waiting_whatever_has_become_of_the_batch() {
    let id = BatchId::express("b");
    let member = Candidate { id: TaskId::new("p0"), round: Round(0), bytes: 20 };
    for (what, batch, then) in states(&id, &member) {
        let world = world();
        let bodies = left(&world, 1, &id).await;
        let state = batch.as_ref().map_or("absent", |batch| batch.status.word());
        if let Some(batch) = &batch {
            world.tables().store(batch, Assumes::Absent).await.unwrap();
        }
        let report = register_again(&world, &bodies).await;
        assert!(report.failed.is_empty());
        let [task] = &world.tables().tasks()[..] else { panic!("one task") };
        let messages = [Destination::Elect, Destination::Group, Destination::Handle].map(|to| sent(&world, &to));
        let came = match (&task.status, task.round, messages) {
            (Status::Created { .. }, Round(1), [1, 0, 0]) => "waits",
            (Status::Batched { .. }, Round(0), [0, 1, 0]) => "finish",
            (Status::Batched { .. }, Round(0), [0, 0, 1]) => "handle",
            (Status::Batched { .. }, Round(0), [0, 0, 0]) => "nothing",
            other => panic!("{what} ({state}): {other:?}"),
        };
        assert_eq!(came, then, "{what} ({state})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_the_tasks_that_a_batch_does_not_have() {
    let world = world();
    let id = BatchId::express("b");
    left(&world, 2, &id).await;
    let known = Candidate { id: TaskId::new("p0"), round: Round(0), bytes: 20 };
    let batch = Batch::express(id, target(), &[known], world.env.now());
    world.tables().store(&batch, Assumes::Absent).await.unwrap();
    let report = revive(world.tables(), &world.queues, &world.env, &world.routes).await.unwrap();
    assert_eq!((report.batches, report.waiting), (1, 1));
    world.run_to_rest().await.unwrap();
    all_settled(&world, 2);
}

/// Its message is what drives such a task on, so a dead-letter queue that holds the message holds the task.
#[tokio::test(start_paused = true)]
async fn a_task_whose_batch_never_came_waits_for_its_message_to_be_redriven() {
    let setting = Setting { sweeps: true, ..Setting::default() };
    let world = World::new(setting, ROUTES, Scripted::accepting());
    let bodies = left(&world, 10, &BatchId::express("dead")).await;
    let an_hour = world.env.now().plus_ms(3_600_000);
    world.run_while(|| world.env.now() < an_hour).await.unwrap();
    assert!(world.tables().tasks().iter().all(|task| !task.status.is_settled()), "sweep has found them");
    world.send(&bodies);
    world.run_to_rest().await.unwrap();
    all_settled(&world, 10);
}

#[tokio::test(start_paused = true)]
async fn members_come_in_the_order_of_their_records() {
    let world = world();
    world.register(&parcels(20, 1)).await;
    let batches: BTreeMap<String, Vec<String>> = world
        .tables()
        .batches()
        .into_iter()
        .map(|batch| {
            let ids: Vec<String> = batch.members.iter().map(|member| member.id.to_string()).collect();
            (ids[0].clone(), ids)
        })
        .collect();
    let ids = |from: usize| (from..from + 10).map(|n| format!("p{n}")).collect::<Vec<_>>();
    assert_eq!(batches.into_values().collect::<Vec<_>>(), [ids(0), ids(10)]);
}
