//! The protocol end to end on ports in memory: what must hold for every task, batch and call.

use std::collections::HashSet;

use futures::FutureExt;
use groupage_core::domain::gate::{Admission, Asks, Limits, Scope};
use groupage_core::domain::task::Status;
use groupage_core::steps::revive::{Leaders, revive};
use groupage_tests::downstream::Seen;
use groupage_tests::prelude::*;

const ROUTES: &str = parcels_route![
    "when: type == 'parcel'",
    "batch: { max_items: 10, wait_ms: 2000, express: false }",
    "retry: { attempts: 3, base_ms: 1000, cap_ms: 8000 }",
    "notify: { failure: default, success: default }",
];

fn world(downstream: Scripted, index_ms: u64, seed: u64) -> World {
    let lag = Lag { index_ms, read_ms: index_ms / 4, slots_ms: 0 };
    World::new(Setting { seed, lag, ..Setting::default() }, ROUTES, downstream)
}

fn parcel(n: usize, truck: usize) -> String {
    format!(r#"{{"id":"p{n}","payload":{{"type":"parcel","truck":"t{truck}","n":{n}}}}}"#)
}

fn parcels(count: usize, trucks: usize) -> Vec<String> {
    (0..count).map(|n| parcel(n, n % trucks)).collect()
}

async fn send(world: &World, parcels: &[String], per_event: usize) {
    for event in parcels.chunks(per_event) {
        assert!(world.register(event).await.failed.is_empty());
    }
}

/// Runs to rest. Every task is settled then, in one batch of its own Target; every key has one set of members.
async fn settles(world: &World, tasks: usize) {
    world.run_to_rest().await.unwrap();
    let all = world.tables().tasks();
    assert_eq!(all.len(), tasks);
    assert!(all.iter().all(|task| task.status.is_settled()), "an unsettled task: {all:?}");
    for calls in world.calls_by_key().values() {
        let sets: HashSet<_> = calls.iter().map(|seen| seen.items.clone()).collect();
        assert_eq!(sets.len(), 1, "members changed under one key");
    }
    let open = world.tables().batches().into_iter().filter(|batch| !batch.status.is_final()).count();
    assert_eq!(open, 0, "a batch is not at rest");
}

#[tokio::test(start_paused = true)]
async fn many_tasks_become_few_full_calls() {
    let world = world(Scripted::accepting(), 0, 1);
    send(&world, &parcels(200, 4), 50).await;
    settles(&world, 200).await;
    let calls = world.downstream.ledger();
    assert_eq!(calls.len(), 20, "50 tasks for each of 4 trucks in calls of 10");
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

#[tokio::test(start_paused = true)]
async fn a_lagging_index_loses_nothing_and_hardly_any_fill() {
    for seed in 0..20 {
        let world = world(Scripted::accepting(), 2_000, seed);
        send(&world, &parcels(300, 3), 60).await;
        settles(&world, 300).await;
        assert!(world.keys_by_item().values().all(|keys| *keys == 1));
        let calls = world.downstream.ledger().len();
        assert!((30..=36).contains(&calls), "seed {seed}: {calls} calls for 30 full batches");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_task_is_called_when_its_window_is_over() {
    let world = world(Scripted::accepting(), 0, 1);
    send(&world, &parcels(1, 1), 1).await;
    settles(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_repeated_with_the_same_members_and_key() {
    let script = |_: &_, before| match before {
        0 => Ok(Answer { status: 503, retry_after_ms: Some(3_000), body: Vec::new() }),
        1 => Err(NoAnswer::Timeout),
        _ => Ok(ok("")),
    };
    let world = world(Scripted::new(Box::new(script)), 0, 7);
    send(&world, &parcels(10, 1), 10).await;
    settles(&world, 10).await;
    assert_eq!(world.downstream.ledger().len(), 3);
    assert!(world.tables().tasks().iter().all(|task| matches!(task.status, Status::Succeeded { .. })));
}

#[tokio::test(start_paused = true)]
async fn attempts_used_up_end_in_failed_tasks_and_one_notice_each() {
    let routes = ROUTES.replace("cap_ms: 8000", "cap_ms: 8000, give_up_after_s: 0");
    let down = Scripted::new(Box::new(|_, _| Ok(Answer { status: 500, ..Answer::default() })));
    let world = World::new(Setting { seed: 7, ..Setting::default() }, &routes, down);
    send(&world, &parcels(10, 1), 10).await;
    settles(&world, 10).await;
    assert_eq!(world.downstream.ledger().len(), 3);
    let notices = world.queues.now().messages(&Destination::Notification(NotificationQueue::Default));
    assert_eq!(notices.len(), 10);
    assert!(notices.iter().all(|notice| notice.body.contains("http_500") && notice.body.contains("failed.v1")));
}

#[tokio::test(start_paused = true)]
async fn a_refused_member_fails_alone() {
    let script = |seen: &Seen, _| {
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
    settles(&world, 10).await;
    let failed: Vec<_> = world
        .tables()
        .tasks()
        .into_iter()
        .filter(|task| matches!(&task.status, Status::Failed { reason, .. } if reason.as_str() == "too_heavy"))
        .map(|task| task.id.to_string())
        .collect();
    assert_eq!(failed, ["p3"]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_fails_for_now_goes_round_again_in_another_batch() {
    let script = |seen: &Seen, _| {
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
    settles(&world, 10).await;
    assert_eq!(world.keys_by_item()["p3"], 2);
    let p3 = world.tables().tasks().into_iter().find(|task| task.id.as_str() == "p3").unwrap();
    assert_eq!((p3.round.0, p3.attempts), (1, 1));
    assert!(matches!(p3.status, Status::Succeeded { .. }));
}

#[tokio::test(start_paused = true)]
async fn sending_everything_twice_changes_nothing() {
    let world = world(Scripted::accepting(), 1_000, 3);
    send(&world, &parcels(60, 2), 20).await;
    send(&world, &parcels(60, 2), 20).await;
    world.run_to_rest().await.unwrap();
    send(&world, &parcels(60, 2), 20).await;
    settles(&world, 60).await;
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

#[tokio::test(start_paused = true)]
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
    settles(&world, 5).await;
    let mut reasons: Vec<String> = world
        .queues
        .now()
        .messages(&Destination::Rejected)
        .into_iter()
        .flat_map(|message| message.attributes)
        .filter(|(name, _)| *name == "Reason")
        .map(|(_, reason)| reason)
        .collect();
    reasons.sort();
    assert_eq!(reasons, ["bad_target", "id_conflict", "no_route", "not_an_object", "not_json", "unknown_field"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_believed_settles_nothing() {
    for body in ["<html>", r#"{"results":[{"id":"nobody","status":"succeeded"}]}"#, "[1]"] {
        let body = body.to_owned();
        let script = move |_: &_, before| Ok(ok(if before == 0 { &body } else { "" }));
        let world = world(Scripted::new(Box::new(script)), 0, 3);
        send(&world, &parcels(10, 1), 10).await;
        settles(&world, 10).await;
        assert_eq!(world.downstream.ledger().len(), 2, "the same call again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_vanished_is_succeeded_and_its_open_batch_finished() {
    let world = world(Scripted::accepting(), 0, 3);
    // One task: its leader sees no reason to stay for others.
    send(&world, &parcels(1, 1), 1).await;
    // The election is won and the leader's message is lost with its batch's window open.
    for _ in 0..2 {
        let delivery = world.queues.receive(60_000).unwrap();
        assert!(world.deliver(&delivery).await.unwrap());
        world.queues.now().delete(&delivery.receipt);
    }
    let leaders = world.queues.now().messages(&Destination::Group);
    assert!(leaders.iter().all(|message| message.body.contains("lead")));
    world.queues.lose_everything();
    assert!(matches!(world.tables().batches()[0].status, batch::Status::Open { .. }));
    // Another task of the same Target comes along.
    send(&world, &[parcel(99, 0)], 1).await;
    settles(&world, 2).await;
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_lost_every_message_is_driven_on_from_its_tables() {
    for calls in 0..120 {
        // Where only a mark is missing, sweep finds the batch.
        let setting = Setting { seed: calls, latency_ms: 5, sweeps: true, ..Setting::default() };
        let world = World::new(setting, ROUTES, Scripted::accepting());
        world.send(&parcels(45, 2));
        world.run_while(|| (world.fate.points().len() as u64) < 5 * calls).await.unwrap();
        world.queues.lose_everything();
        assert!(world.register(&parcels(45, 2)).await.failed.is_empty());
        world.queues.lose_everything();
        revive(world.tables(), &world.queues, &world.env, &world.routes, Leaders::GoOn).await.unwrap();
        world.run_to_rest().await.unwrap();
        let settled = world.tables().tasks().iter().all(|task| task.status.is_settled());
        assert!(settled, "lost after {calls} calls");
        assert!(world.keys_by_item().values().all(|keys| *keys == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_a_place_without_using_up_attempts() {
    let routes = ROUTES.replace("retry:", "limits: { in_flight_per_target: 1 }\n    retry:");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    let now = world.env.now();
    let scope = Scope::Target(Target::new("parcels:t0"));
    let limits = Limits { in_flight: Some(1), gap_ms: None, ..Limits::default() };
    let admission = Gate::default().admit(&BatchId::new("another"), Asks::Anew, limits, now, now.plus_ms(100_000));
    let Admission::Admitted(Some(taken), _) = admission else { panic!("{admission:?}") };
    world.tables().store_gate(&scope, &taken, now).await.unwrap();

    world.register(&parcels(10, 1)).await;
    world.run_to_rest().await.unwrap();
    assert!(world.env.now() >= now.plus_ms(100_000), "called beside the place's holder");
    let batches = world.tables().batches();
    assert_eq!(batches.iter().map(|batch| batch.attempts).collect::<Vec<_>>(), [1]);
    assert!(world.tables().gate(&scope).await.unwrap().permits.leases.is_empty(), "the place was not given back");
}

/// A world whose indexes and replicas are up to date.
fn world_without_lag(downstream: Scripted) -> World {
    world(downstream, 0, 1)
}

#[tokio::test(start_paused = true)]
async fn a_winner_that_died_before_its_leaders_message_leads_when_its_message_comes_again() {
    let world = world_without_lag(Scripted::accepting());
    world.register(&parcels(4, 1)).await;
    let delivery = world.queues.receive(VISIBILITY_MS).unwrap();
    assert!(world.deliver(&delivery).await.unwrap());
    // The lock is won, the leader's message is lost, and the election's message is still there. Meanwhile somebody
    // else has moved every task on.
    for message in world.queues.now().messages(&Destination::Group) {
        assert!(message.body.contains("lead"));
    }
    world.queues.lose_everything();
    let batch = BatchId::new("elsewhere");
    for task in world.tables().tasks() {
        world.tables().join(&task.id, task.round, &batch).await.unwrap();
    }
    let again = Delivery { received: 2, ..delivery };
    assert!(world.deliver(&again).await.unwrap());
    assert_eq!(world.queues.now().messages(&Destination::Group).len(), 1, "nobody leads, and the lock stays held");
    let led = || !world.tables().held_locks().now_or_never().unwrap().unwrap().is_empty();
    world.run_while(led).await.unwrap();
    let lock = world.tables().lock(&Target::new("parcels:t0")).await.unwrap().unwrap();
    assert_eq!((lock.holder, lock.open), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_beside_another_task_of_its_id_is_still_driven_on() {
    let world = world_without_lag(Scripted::accepting());
    world.register(&[parcel(1, 0)]).await;
    world.queues.lose_everything();
    let other = parcel(1, 1);
    let report = world.register(&[other, parcel(1, 0)]).await;
    assert_eq!((report.repeated, report.rejected), (1, 1));
    world.run_to_rest().await.unwrap();
    assert!(world.tables().tasks()[0].status.is_settled());
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_paused_batchs_message_wait_for_the_pause() {
    let script = |_: &_, before| match before {
        0 => Ok(Answer { status: 503, retry_after_ms: Some(60_000), body: Vec::new() }),
        _ => Ok(ok("")),
    };
    let world = world_without_lag(Scripted::new(Box::new(script)));
    world.register(&parcels(10, 1)).await;
    world.run_while(|| world.downstream.ledger().is_empty()).await.unwrap();
    let paused_at = world.env.now();
    // The sender repeats itself: the batch is driven on, once for all ten tasks.
    let before = world.queues.now().messages(&Destination::Handle).len();
    world.register(&parcels(10, 1)).await;
    assert_eq!(world.queues.now().messages(&Destination::Handle).len(), before + 1);
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 2);
    assert!(world.env.now() >= paused_at.plus_ms(60_000), "called during the pause");
}
