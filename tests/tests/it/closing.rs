//! Windows that the clock closes: tasks wait for it without a message, and become batches together.

use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;
use tokio::time::Instant;

/// Every run begins 800 s before the hour.
const UNTIL_THE_HOUR_MS: u64 = 800_000;
/// Sweep comes once a minute, and a batch of the window's waits for a second, and is called by then.
const BY_THEN_MS: u64 = 70_000;

const ROUTES: &str = parcels_route!["batch: { max_items: 3, wait_ms: 1000, close_at: '0 * * * *' }"];

fn world(routes: &str, downstream: Scripted) -> World {
    let setting = Setting { sweeps: true, latency_ms: 4, most_calls: 40_000_000, ..Setting::default() };
    World::new(setting, routes, downstream)
}

/// When each call came, in milliseconds from the beginning, and with how many tasks.
fn calls(world: &World, begun: Instant) -> Vec<(u64, usize)> {
    let ms = |at: Instant| u64::try_from(at.duration_since(begun).as_millis()).unwrap_or(u64::MAX);
    world.downstream.ledger().iter().map(|seen| (ms(seen.at), seen.items.len())).collect()
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_window_become_full_batches_together_when_it_closes_and_have_no_message_before() {
    let (world, begun) = (world(ROUTES, Scripted::accepting()), Instant::now());
    let parcels = parcels(8, 1);
    // Enough to fill batches, and of the last quarter of an hour, for which a delayed message could be sent.
    world.register(&parcels[..4]).await;
    world.run_for(700_000).await.unwrap();
    world.register(&parcels[4..7]).await;
    assert_eq!(world.queues.now().messages(&Destination::Elect), [], "what waits for its window has no message");
    assert_eq!(world.tables().batches(), []);
    world.run_for(150_000).await.unwrap();
    // The next window's.
    world.register(&parcels[7..]).await;
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    let sizes: Vec<usize> = calls.iter().map(|(_, members)| *members).collect();
    assert_eq!(sizes, [3, 3, 1, 1], "{calls:?}");
    let first = UNTIL_THE_HOUR_MS..UNTIL_THE_HOUR_MS + BY_THEN_MS;
    assert!(calls[..3].iter().all(|(at, _)| first.contains(at)), "{calls:?}");
    let next = UNTIL_THE_HOUR_MS + 3_600_000;
    assert!((next..next + BY_THEN_MS).contains(&calls[3].0), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn full_batches_wait_for_the_clock_on_the_express_path_too() {
    let (world, begun) = (world(ROUTES, Scripted::accepting()), Instant::now());
    world.register(&parcels(6, 1)).await;
    assert_eq!(world.tables().batches(), []);
    world.run_to_rest().await.unwrap();
    assert!(calls(&world, begun).iter().all(|(at, members)| *at >= UNTIL_THE_HOUR_MS && *members == 3));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_not_wanted_before_waits_for_the_window_after_that() {
    let (world, begun) = (world(ROUTES, Scripted::accepting()), Instant::now());
    let parcels = parcels(2, 1);
    world.register(&[scheduled(&parcels[0], 900), parcels[1].clone()]).await;
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    let [(first, 1), (second, 1)] = calls[..] else { panic!("{calls:?}") };
    assert!(first < UNTIL_THE_HOUR_MS + BY_THEN_MS && second >= UNTIL_THE_HOUR_MS + 3_600_000, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_goes_round_again_does_not_wait_for_the_next_window() {
    let once = Scripted::new(Box::new(|_, before| Ok(if before == 0 { status(503, None) } else { ok("") })));
    let (world, begun) = (world(ROUTES, once), Instant::now());
    world.register(&parcels(2, 1)).await;
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    assert!(calls.len() == 2 && calls[1].0 < UNTIL_THE_HOUR_MS + 2 * BY_THEN_MS, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_the_windows_changed_keeps_its_time() {
    let (mut world, begun) = (world(ROUTES, Scripted::accepting()), Instant::now());
    let parcels = parcels(2, 1);
    world.register(&parcels[..1]).await;
    world.push(&ROUTES.replace("0 * * * *", "0 20 * * *"));
    // The first of them is found as it is.
    let report = world.register(&parcels).await;
    assert_eq!((report.registered, report.repeated), (1, 1));
    let due = |id: &str| match world.tables().tasks().into_iter().find(|task| task.id == TaskId::new(id)) {
        Some(Task { status: Status::Scheduled { due, .. }, .. }) => due.shown(),
        other => panic!("{other:?}"),
    };
    assert_eq!([due("p0"), due("p1")], ["1970-01-12T14:00:00.000Z", "1970-01-12T20:00:00.000Z"]);
    world.run_to_rest().await.unwrap();
    assert_eq!(calls(&world, begun).len(), 2);
}
