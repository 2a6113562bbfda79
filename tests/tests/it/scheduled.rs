//! Tasks that wait for their time, end to end on ports in memory.

use groupage_lab::prelude::*;

use groupage_core::domain::task::Status;
use groupage_core::domain::time::DAY_MS;
use tokio::time::Instant;

const YEAR_S: u64 = 365 * DAY_MS / 1_000;

fn world(lines: &str, patience_ms: u64) -> World {
    of(&routes_with(lines), patience_ms)
}

fn on_the_express_path(patience_ms: u64) -> World {
    of(&routes_with("").replace("express: false", "express: true"), patience_ms)
}

fn of(routes: &str, patience_ms: u64) -> World {
    let setting = Setting { sweeps: true, latency_ms: 4, patience_ms, most_calls: 40_000_000, ..Setting::default() };
    World::new(setting, routes, Scripted::accepting())
}

/// When each call came, in milliseconds from the beginning, and with which tasks.
fn calls(world: &World, begun: Instant) -> Vec<(u64, Vec<String>)> {
    let at = |at: Instant| u64::try_from(at.duration_since(begun).as_millis()).unwrap_or(u64::MAX);
    world.downstream.ledger().into_iter().map(|seen| (at(seen.at), seen.items)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_is_registered_at_once_and_called_within_a_second_of_its_time() {
    let (world, begun) = (world("", 60 * 60 * 1_000), Instant::now());
    let parcels = parcels(3, 1);
    let later = |n: usize| scheduled(&parcels[n], 600);
    let report = world.register(&[later(0), parcels[1].clone(), later(2)]).await;
    assert_eq!((report.registered, report.failed.len()), (3, 0));
    let due = Timestamp(world.env.now().0 + 600_000);
    let shown = world.tables().tasks().into_iter().find(|task| task.id == TaskId::new("p0")).unwrap().status;
    assert!(matches!(shown, Status::Scheduled { due: at, .. } if due.since(at) < 1_000), "{shown:?}");
    world.run_to_rest().await.unwrap();
    let mut calls = calls(&world, begun);
    // They were registered at once, in any order.
    calls[1].1.sort();
    assert_eq!(calls.iter().map(|(_, items)| items.clone()).collect::<Vec<_>>(), [vec!["p1"], vec!["p0", "p2"]]);
    // The window of their batch is a second, too.
    assert!((600_000..603_000).contains(&calls[1].0), "{calls:?}");
    assert_kept(&world, 3);
}

/// Nothing reads or writes it meanwhile: what is due is found by its time.
#[tokio::test(start_paused = true)]
async fn what_is_scheduled_for_later_has_no_message_and_is_found_by_sweep_when_it_is_due() {
    let (world, begun) = (world("", 3 * DAY_MS), Instant::now());
    let bodies: Vec<String> = parcels(3, 1).iter().map(|body| scheduled(body, 2 * DAY_MS / 1_000)).collect();
    world.register(&bodies).await;
    assert_eq!(world.queues.now().messages(&Destination::Elect), []);
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    assert!(matches!(&calls[..], [(at, _)] if (2 * DAY_MS..2 * DAY_MS + 65_000).contains(at)), "{calls:?}");
    assert_kept(&world, 3);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_finds_what_is_scheduled_and_other_content_is_refused() {
    let world = world("", 60 * 60 * 1_000);
    let body = scheduled(&parcels(1, 1)[0], 5);
    assert_eq!(world.register(std::slice::from_ref(&body)).await.registered, 1);
    // A delay would be another moment each time, so the first one counts.
    let again = world.register(&[body, scheduled(&parcels(1, 1)[0], YEAR_S)]).await;
    assert_eq!((again.registered, again.repeated, again.rejected), (0, 2, 0));
    assert_eq!(world.register(&[scheduled(&keyed(0, 0, 0, 1), 5)]).await.rejected, 1);
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 1);
    assert_kept(&world, 1);
}

#[tokio::test(start_paused = true)]
async fn an_ordered_route_takes_no_task_that_waits_for_its_time() {
    let world = world("ordered_by: key", 60 * 60 * 1_000);
    let refused = world.register(&[scheduled(&keyed(0, 0, 0, 1), 5)]).await;
    assert_eq!((refused.registered, refused.rejected), (0, 1));
    assert_eq!(world.register(&[scheduled(&keyed(1, 0, 0, 1), 0)]).await.registered, 1, "its time has come");
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert_eq!(rejected[0].attributes[0], ("Reason", "bad_time".to_owned()));
}

/// They fill a batch of three, but none of them is to be called now.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_time_fills_no_batch_on_the_express_path() {
    let (world, begun) = (on_the_express_path(60 * 60 * 1_000), Instant::now());
    world.register(&parcels(3, 1).iter().map(|body| scheduled(body, 100)).collect::<Vec<_>>()).await;
    assert_eq!(world.tables().batches(), []);
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    assert!(matches!(&calls[..], [(at, items)] if *at >= 100_000 && items.len() == 3), "{calls:?}");
}
