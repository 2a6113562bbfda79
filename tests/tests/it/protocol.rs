//! The protocol end to end on ports in memory: what must hold for every task, batch and call.

use futures::FutureExt;
use groupage_core::domain::gate::{Admission, Asks, Limits, Scope};
use groupage_core::steps::revive::{Leaders, revive};
use groupage_lab::prelude::*;

const ROUTES: &str = parcels_route![
    "when: type == 'parcel'",
    "batch: { max_items: 10, wait_ms: 2000, express: false }",
    "retry: { attempts: 3, base_ms: 1000, cap_ms: 8000 }",
    "notify: { failure: default, success: default }",
];

/// A world whose indexes and replicas are up to date.
fn world(downstream: Scripted) -> World {
    World::new(Setting::default(), ROUTES, downstream)
}

fn parcel(n: usize, truck: usize) -> String {
    format!(r#"{{"id":"p{n}","payload":{{"type":"parcel","truck":"t{truck}","n":{n}}}}}"#)
}

fn parcels(count: usize, trucks: usize) -> Vec<String> {
    (0..count).map(|n| parcel(n, n % trucks)).collect()
}

#[tokio::test(start_paused = true)]
async fn many_tasks_become_few_full_calls() {
    let world = world(Scripted::accepting());
    parcels(200, 4).chunks(50).for_each(|event| world.send(event));
    world.run_to_rest().await.unwrap();
    assert_kept(&world, 200);
    let calls = world.downstream.ledger();
    assert_eq!(calls.len(), 20, "50 tasks for each of 4 trucks in calls of 10");
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
    let limits = Limits { in_flight: Some(1), ..Limits::default() };
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

#[tokio::test(start_paused = true)]
async fn a_winner_that_died_before_its_leaders_message_leads_when_its_message_comes_again() {
    let world = world(Scripted::accepting());
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
    let world = world(Scripted::accepting());
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
        0 => Ok(Answer { status: 503, retry_after_ms: Some(60_000), ..Answer::default() }),
        _ => Ok(ok("")),
    };
    let world = world(Scripted::new(Box::new(script)));
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
