//! The protocol end to end on ports in memory: what must hold for every task, batch and call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::HashSet;

use groupage_tests::faulty::{Faulty, Plan};
use groupage_tests::lag::Lagging;
use groupage_tests::world::{Scripted, TestEnv, VISIBILITY_MS, World, ok};
use shared::domain::batch;
use shared::domain::gate::{Admission, Gate, Limits, Scope};
use shared::domain::id::{BatchId, Target};
use shared::domain::task::Status;
use shared::memory::{Delivery, MemoryStore};
use shared::ports::{Answer, Destination, Gates, Locks, NoAnswer, Tasks};
use shared::routes::{NotificationQueue, Routes};
use shared::steps::revive::revive;

const ROUTES: &str = r#"
version: 1
routes:
  - name: parcels
    when: "type == 'parcel'"
    target: truck
    batch: { max_items: 10, wait_ms: 2000 }
    downstream: { http: { url: "http://downstream.invalid/load" } }
    retry: { attempts: 3, base_ms: 1000, cap_ms: 8000 }
    notify: { failure: default, success: default }
"#;

type Laggy = World<Faulty<Lagging<MemoryStore, TestEnv>>>;

fn world(downstream: Scripted, lag_ms: u64, seed: u64) -> Laggy {
    faulty_world(downstream, lag_ms, seed, Plan::random(seed, 0.0))
}

fn faulty_world(downstream: Scripted, lag_ms: u64, seed: u64, faults: Plan) -> Laggy {
    let env = TestEnv::new(seed);
    let store = Lagging::new(MemoryStore::new(), env.clone(), lag_ms, seed);
    let store = Faulty::new(store, faults.clone());
    World::new(store, env, Routes::parse(ROUTES).unwrap(), downstream, faults)
}

fn parcel(n: usize, truck: usize) -> String {
    format!(r#"{{"id":"p{n}","payload":{{"type":"parcel","truck":"t{truck}","n":{n}}}}}"#)
}

fn parcels(count: usize, trucks: usize) -> Vec<String> {
    (0..count).map(|n| parcel(n, n % trucks)).collect()
}

async fn send(world: &Laggy, parcels: &[String], per_event: usize) {
    for event in parcels.chunks(per_event) {
        assert!(world.register(event).await.failed.is_empty());
    }
}

/// Every task settled, in one batch of its own Target; every key with one set of members.
fn check(world: &Laggy, tasks: usize) {
    let all = world.store.inner.inner().tasks();
    assert_eq!(all.len(), tasks);
    assert!(all.iter().all(|task| task.status.is_settled()), "an unsettled task: {all:?}");
    for calls in world.calls_by_key().values() {
        let sets: HashSet<_> = calls.iter().map(|seen| seen.items.clone()).collect();
        assert_eq!(sets.len(), 1, "members changed under one key");
    }
    let open = world.store.inner.inner().batches().into_iter().filter(|batch| !batch.status.is_final()).count();
    assert_eq!(open, 0, "a batch is not at rest");
}

#[tokio::test]
async fn many_tasks_become_few_full_calls() {
    let world = world(Scripted::accepting(), 0, 1);
    send(&world, &parcels(200, 4), 50).await;
    world.run_to_rest(10_000).await.unwrap();
    check(&world, 200);
    let calls = world.downstream.ledger();
    assert_eq!(calls.len(), 20, "50 tasks for each of 4 trucks in calls of 10");
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

#[tokio::test]
async fn a_lagging_index_loses_nothing_and_hardly_any_fill() {
    for seed in 0..20 {
        let world = world(Scripted::accepting(), 2_000, seed);
        send(&world, &parcels(300, 3), 60).await;
        world.run_to_rest(100_000).await.unwrap();
        check(&world, 300);
        assert!(world.keys_by_item().values().all(|keys| *keys == 1));
        let calls = world.downstream.ledger().len();
        assert!((30..=36).contains(&calls), "seed {seed}: {calls} calls for 30 full batches");
    }
}

#[tokio::test]
async fn a_single_task_is_called_when_its_window_is_over() {
    let world = world(Scripted::accepting(), 0, 1);
    send(&world, &parcels(1, 1), 1).await;
    world.run_to_rest(100).await.unwrap();
    check(&world, 1);
}

#[tokio::test]
async fn a_failed_call_is_repeated_with_the_same_members_and_key() {
    let script = |_: &_, before| match before {
        0 => Ok(Answer { status: 503, retry_after_ms: Some(3_000), body: Vec::new() }),
        1 => Err(NoAnswer::Timeout),
        _ => Ok(ok("")),
    };
    let world = world(Scripted::new(Box::new(script)), 0, 7);
    send(&world, &parcels(10, 1), 10).await;
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 10);
    assert_eq!(world.downstream.ledger().len(), 3);
    assert!(world.store.inner.inner().tasks().iter().all(|task| matches!(task.status, Status::Succeeded { .. })));
}

#[tokio::test]
async fn attempts_used_up_end_in_failed_tasks_and_one_notice_each() {
    let world = world(Scripted::new(Box::new(|_, _| Ok(Answer { status: 500, ..Answer::default() }))), 0, 7);
    send(&world, &parcels(10, 1), 10).await;
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 10);
    assert_eq!(world.downstream.ledger().len(), 3);
    let notices = world.queues.inner.messages(&Destination::Notification(NotificationQueue::Default));
    assert_eq!(notices.len(), 10);
    assert!(notices.iter().all(|notice| notice.body.contains("http_500") && notice.body.contains("failed.v1")));
}

#[tokio::test]
async fn a_refused_member_fails_alone() {
    let script = |seen: &groupage_tests::world::Seen, _| {
        let results: Vec<_> = seen
            .items
            .iter()
            .map(|id| match id.as_str() {
                "p3" => serde_json::json!({ "id": id, "status": "failed", "reason": "too_heavy" }),
                _ => serde_json::json!({ "id": id, "status": "succeeded" }),
            })
            .collect();
        Ok(ok(&serde_json::json!({ "results": results }).to_string()))
    };
    let world = world(Scripted::new(Box::new(script)), 0, 7);
    send(&world, &parcels(10, 1), 10).await;
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 10);
    let failed: Vec<_> = world
        .store
        .inner
        .inner()
        .tasks()
        .into_iter()
        .filter(|task| matches!(&task.status, Status::Failed { reason, .. } if reason.as_str() == "too_heavy"))
        .map(|task| task.id.to_string())
        .collect();
    assert_eq!(failed, ["p3"]);
}

#[tokio::test]
async fn a_member_that_fails_for_now_goes_round_again_in_another_batch() {
    let script = |seen: &groupage_tests::world::Seen, _| {
        let failures: Vec<_> = seen
            .items
            .iter()
            .filter(|id| seen.items.len() > 1 && *id == "p3")
            .map(|id| serde_json::json!({ "itemIdentifier": id }))
            .collect();
        Ok(ok(&serde_json::json!({ "batchItemFailures": failures }).to_string()))
    };
    let world = world(Scripted::new(Box::new(script)), 500, 7);
    send(&world, &parcels(10, 1), 10).await;
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 10);
    assert_eq!(world.keys_by_item()["p3"], 2);
    let p3 = world.store.inner.inner().tasks().into_iter().find(|task| task.id.as_str() == "p3").unwrap();
    assert_eq!((p3.round.0, p3.attempts), (1, 1));
    assert!(matches!(p3.status, Status::Succeeded { .. }));
}

#[tokio::test]
async fn sending_everything_twice_changes_nothing() {
    let world = world(Scripted::accepting(), 1_000, 3);
    send(&world, &parcels(60, 2), 20).await;
    send(&world, &parcels(60, 2), 20).await;
    world.run_to_rest(10_000).await.unwrap();
    send(&world, &parcels(60, 2), 20).await;
    world.run_to_rest(10_000).await.unwrap();
    check(&world, 60);
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

#[tokio::test]
async fn bad_messages_are_rejected_with_a_reason_and_their_neighbours_go_on() {
    let world = world(Scripted::accepting(), 0, 3);
    let mut bodies = parcels(5, 1);
    bodies.extend(
        [
            "{",
            "[]",
            r#"{"payload":{"type":"letter"}}"#,
            r#"{"payload":{"type":"parcel","truck":7}}"#,
            r#"{"payload":{"type":"parcel","truck":"t1"},"x":1}"#,
            r#"{"id":"p1","payload":{"type":"parcel","truck":"another"}}"#,
        ]
        .map(str::to_owned),
    );
    let report = world.register(&bodies).await;
    assert_eq!((report.registered, report.rejected), (5, 6));
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 5);
    let mut reasons: Vec<String> = world
        .queues
        .inner
        .messages(&Destination::Rejected)
        .into_iter()
        .flat_map(|message| message.attributes)
        .filter(|(name, _)| *name == "Reason")
        .map(|(_, reason)| reason)
        .collect();
    reasons.sort();
    assert_eq!(reasons, ["bad_target", "id_conflict", "no_route", "not_an_object", "not_json", "unknown_field"]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_believed_settles_nothing() {
    for body in ["<html>", r#"{"results":[{"id":"nobody","status":"succeeded"}]}"#, "[1]"] {
        let body = body.to_owned();
        let script = move |_: &_, before| Ok(ok(if before == 0 { &body } else { "" }));
        let world = world(Scripted::new(Box::new(script)), 0, 3);
        send(&world, &parcels(10, 1), 10).await;
        world.run_to_rest(1_000).await.unwrap();
        check(&world, 10);
        assert_eq!(world.downstream.ledger().len(), 2, "the same call again");
    }
}

#[tokio::test]
async fn a_leader_that_vanished_is_succeeded_and_its_open_batch_finished() {
    let world = world(Scripted::accepting(), 0, 3);
    send(&world, &parcels(4, 1), 4).await;
    // The election is won and the leader's message is lost with its batch's window open.
    world.queues.inner.set_now(shared::ports::Env::now(&world.env));
    for _ in 0..2 {
        let delivery = world.queues.inner.receive(60_000).unwrap();
        assert!(world.deliver(&delivery).await.unwrap());
        world.queues.inner.delete(&delivery.receipt);
    }
    for message in world.queues.inner.messages(&Destination::Group) {
        assert!(message.body.contains("lead"));
    }
    while let Some(delivery) = world.queues.inner.receive(0) {
        world.queues.inner.delete(&delivery.receipt);
    }
    world.env.turn_to(world.queues.inner.next_visible_at().unwrap());
    world.queues.inner.set_now(shared::ports::Env::now(&world.env));
    let lost = world.queues.inner.receive(0).unwrap();
    world.queues.inner.delete(&lost.receipt);
    assert!(matches!(world.store.inner.inner().batches()[0].status, batch::Status::Open { .. }));
    // Another task of the same Target comes along.
    send(&world, &[parcel(99, 0)], 1).await;
    world.run_to_rest(1_000).await.unwrap();
    check(&world, 5);
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

/// How many seeds to try: `GROUPAGE_SEEDS`, or a number that takes seconds.
fn seeds() -> u64 {
    std::env::var("GROUPAGE_SEEDS").map_or(200, |seeds| seeds.parse().expect("GROUPAGE_SEEDS is a number"))
}

#[tokio::test]
async fn a_step_that_dies_at_any_call_loses_and_doubles_nothing() {
    let seeds = seeds();
    let mut faults = 0;
    for seed in 0..seeds {
        let script = |_: &_, before: usize| match before {
            0 => Ok(Answer { status: 503, ..Answer::default() }),
            _ => Ok(ok("")),
        };
        let plan = Plan::random(seed, 0.03);
        let world = faulty_world(Scripted::new(Box::new(script)), 2_000, seed, plan.clone());
        for event in parcels(60, 2).chunks(20) {
            // As SQS would: what failed comes again.
            while !world.register(event).await.failed.is_empty() {}
        }
        if let Err(stuck) = world.run_to_rest(100_000).await {
            panic!("seed {seed}: {stuck}");
        }
        check(&world, 60);
        assert!(world.keys_by_item().values().all(|keys| *keys == 1), "seed {seed}: a task in two batches");
        faults += plan.faults();
    }
    assert!(faults as u64 > 10 * seeds, "only {faults} faults in {seeds} seeds: the test does not bite");
}

#[tokio::test]
async fn a_stack_that_lost_every_message_is_driven_on_from_its_tables() {
    for deliveries in 0..40 {
        let env = TestEnv::new(deliveries);
        let routes = Routes::parse(ROUTES).unwrap();
        let faults = Plan::random(0, 0.0);
        let world = World::new(MemoryStore::new(), env, routes, Scripted::accepting(), faults);
        assert!(world.register(&parcels(45, 2)).await.failed.is_empty());
        let at_rest = world.run_to_rest(deliveries as usize).await;
        world.queues.inner.lose_everything();
        revive(&world.store, &world.queues, &world.env, &world.routes).await.unwrap();
        world.run_to_rest(10_000).await.unwrap();
        assert!(
            world.store.tasks().iter().all(|task| task.status.is_settled()),
            "lost after {deliveries}: {at_rest:?}"
        );
        assert!(world.keys_by_item().values().all(|keys| *keys == 1));
    }
}

#[tokio::test]
async fn a_batch_waits_for_a_slot_without_using_up_attempts() {
    let routes = ROUTES.replace("retry:", "limits: { in_flight_per_target: 1 }\n    retry:");
    let env = TestEnv::new(1);
    let faults = Plan::random(0, 0.0);
    let world = World::new(MemoryStore::new(), env, Routes::parse(&routes).unwrap(), Scripted::accepting(), faults);
    let now = shared::ports::Env::now(&world.env);
    let scope = Scope::Target(Target::new("parcels:t0"));
    let limits = Limits { in_flight: Some(1), gap_ms: None };
    let admission = Gate::default().admit(&BatchId::new("another"), limits, now, now.plus_ms(100_000));
    let Admission::Admitted(Some(taken), _) = admission else { panic!("{admission:?}") };
    world.store.store_gate(&scope, &taken, now).await.unwrap();

    world.register(&parcels(10, 1)).await;
    world.run_to_rest(1_000).await.unwrap();
    assert!(shared::ports::Env::now(&world.env) >= now.plus_ms(100_000), "called beside the slot's holder");
    let batches = world.store.batches();
    assert_eq!(batches.iter().map(|batch| batch.attempts).collect::<Vec<_>>(), [1]);
    assert!(world.store.gate(&scope).await.unwrap().in_flight.is_empty(), "the slot was not given back");
}

/// A world whose calls never fail by themselves.
fn plain_world(downstream: Scripted) -> World<MemoryStore> {
    let env = TestEnv::new(1);
    World::new(MemoryStore::new(), env, Routes::parse(ROUTES).unwrap(), downstream, Plan::random(0, 0.0))
}

#[tokio::test]
async fn a_winner_that_died_before_its_leaders_message_leads_when_its_message_comes_again() {
    let world = plain_world(Scripted::accepting());
    world.register(&parcels(4, 1)).await;
    let delivery = world.queues.inner.receive(VISIBILITY_MS).unwrap();
    assert!(world.deliver(&delivery).await.unwrap());
    // The lock is won, the leader's message is lost, and the election's message is still there. Meanwhile somebody
    // else has moved every task on.
    for message in world.queues.inner.messages(&Destination::Group) {
        assert!(message.body.contains("lead"));
    }
    world.queues.inner.lose_everything();
    let batch = BatchId::new("elsewhere");
    for task in world.store.tasks() {
        world.store.join(&task.id, task.round, &batch).await.unwrap();
    }
    let again = Delivery { received: 2, ..delivery };
    assert!(world.deliver(&again).await.unwrap());
    assert_eq!(world.queues.inner.messages(&Destination::Group).len(), 1, "nobody leads, and the lock stays held");
    world.run_to_rest(100).await.unwrap();
    let lock = world.store.lock(&Target::new("parcels:t0")).await.unwrap().unwrap();
    assert_eq!((lock.holder, lock.open), (None, None));
}

#[tokio::test]
async fn a_repeat_beside_another_task_of_its_id_is_still_driven_on() {
    let world = plain_world(Scripted::accepting());
    world.register(&[parcel(1, 0)]).await;
    world.queues.inner.lose_everything();
    let other = parcel(1, 1);
    let report = world.register(&[other, parcel(1, 0)]).await;
    assert_eq!((report.repeated, report.rejected), (1, 1));
    world.run_to_rest(100).await.unwrap();
    assert!(world.store.tasks()[0].status.is_settled());
}

#[tokio::test]
async fn copies_of_a_paused_batchs_message_wait_for_the_pause() {
    let script = |_: &_, before| match before {
        0 => Ok(Answer { status: 503, retry_after_ms: Some(60_000), body: Vec::new() }),
        _ => Ok(ok("")),
    };
    let world = plain_world(Scripted::new(Box::new(script)));
    world.register(&parcels(10, 1)).await;
    while world.downstream.ledger().is_empty() {
        world.run_to_rest(1).await.unwrap_or_default();
    }
    let paused_at = shared::ports::Env::now(&world.env);
    // The sender repeats itself: the batch is driven on, once for all ten tasks.
    let before = world.queues.inner.messages(&Destination::Handle).len();
    world.register(&parcels(10, 1)).await;
    assert_eq!(world.queues.inner.messages(&Destination::Handle).len(), before + 1);
    world.run_to_rest(1_000).await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 2);
    assert!(shared::ports::Env::now(&world.env) >= paused_at.plus_ms(60_000), "called during the pause");
}
