//! When a batch ends that is not full: once it is large enough, once nothing comes, or with its window.

use groupage_lab::prelude::*;
use tokio::time::Instant;

const ROUTES: &str = parcels_route!["batch: { max_items: 10, wait_ms: 60000 }"];

/// A world in which these fields say when a batch ends.
fn world(fields: &str) -> World {
    World::new(Setting::default(), &ROUTES.replace("wait_ms: 60000", fields), Scripted::accepting())
}

/// How many members each call had, and how long after `begun` it was made, in milliseconds.
fn calls(world: &World, begun: Instant) -> Vec<(usize, u128)> {
    world.downstream.ledger().iter().map(|seen| (seen.items.len(), (seen.at - begun).as_millis())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_large_enough_does_not_wait_and_a_smaller_one_does() {
    for express in ["", ", express: false"] {
        for (tasks, waits) in [(3, false), (4, false), (2, true)] {
            let world = world(&format!("wait_ms: 60000, min_items: 3{express}"));
            let begun = Instant::now();
            world.register(&parcels(tasks, 1)).await;
            world.run_to_rest().await.unwrap();
            let calls = calls(&world, begun);
            let [(members, at)] = calls[..] else { panic!("{calls:?}") };
            assert_eq!((members, at >= 60_000), (tasks, waits), "{express}: {calls:?}");
            assert!(at < if waits { 62_000 } else { 1_000 }, "{express}: {calls:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_once_nothing_comes_for_a_while() {
    for express in ["", ", express: false"] {
        let world = world(&format!("wait_ms: 60000, quiet_ms: 3000{express}"));
        let begun = Instant::now();
        for body in parcels(5, 1) {
            world.register(&[body]).await;
            world.run_for(2_000).await.unwrap();
        }
        world.run_to_rest().await.unwrap();
        let calls = calls(&world, begun);
        let [(5, at)] = calls[..] else { panic!("{express}: {calls:?}") };
        // The last one came after 8 s. A rest gathers as long as it would be quiet, and its leader waits as long again.
        assert!((8_000 + 2_000..8_000 + 8_000).contains(&at), "{express}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_to_which_tasks_come_for_ever_ends_with_its_window() {
    let world = world("wait_ms: 10000, quiet_ms: 3000, express: false");
    let begun = Instant::now();
    for body in parcels(9, 1) {
        world.register(&[body]).await;
        world.run_for(2_000).await.unwrap();
    }
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    assert!(calls.len() > 1 && calls[0].1 < 12_000, "{calls:?}");
    assert_eq!(calls.iter().map(|(members, _)| members).sum::<usize>(), 9);
}

#[tokio::test(start_paused = true)]
async fn what_is_large_enough_still_waits_for_quiet_if_its_route_says_both() {
    let world = world("wait_ms: 60000, min_items: 3, quiet_ms: 3000");
    let begun = Instant::now();
    world.register(&parcels(4, 1)).await;
    world.register(&parcels(10, 2)[9..]).await;
    world.run_to_rest().await.unwrap();
    let calls = calls(&world, begun);
    let [(4, first), (1, second)] = calls[..] else { panic!("{calls:?}") };
    assert!((2_500..8_000).contains(&first) && (60_000..62_000).contains(&second), "{calls:?}");
}
