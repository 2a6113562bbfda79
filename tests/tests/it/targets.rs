//! Targets of which the routes file says something else.

use groupage_lab::prelude::*;
use tokio::time::Instant;

const ROUTES: &str = parcels_route![
    "batch: { max_items: 3, wait_ms: 1000, express: false }",
    "limits: { in_flight_per_target: 3 }",
    "notify: { failure: default, success: default }",
    "targets: [{ match: 't1*', batch: { max_items: 5, wait_ms: 9000 }, limits: { in_flight_per_target: 1 } }]",
];

fn world(routes: &str, downstream: Scripted) -> World {
    World::new(Setting { latency_ms: 4, ..Setting::default() }, routes, downstream)
}

/// How many members the calls for a Target had.
fn sizes(world: &World, target: &str) -> Vec<usize> {
    let ledger = world.downstream.ledger();
    ledger.iter().filter(|seen| seen.target == target).map(|seen| seen.items.len()).collect()
}

#[test]
fn a_targets_batches_are_as_large_as_it_may_have_them_with_a_leader_and_without() {
    for express in ["true", "false"] {
        in_virtual_time(async {
            let routes = ROUTES.replace("express: false", &format!("express: {express}"));
            let world = world(&routes, Scripted::accepting());
            world.register(&parcels(30, 2)).await;
            world.run_to_rest().await.unwrap();
            assert_eq!((sizes(&world, "t0"), sizes(&world, "t1")), (vec![3; 5], vec![5; 3]), "express: {express}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_targets_batch_waits_for_as_long_as_it_may() {
    let (world, begun) = (world(ROUTES, Scripted::accepting()), Instant::now());
    world.register(&parcels(2, 2)).await;
    world.run_to_rest().await.unwrap();
    let at = |target: &str| {
        let ledger = world.downstream.ledger();
        ledger.iter().find(|seen| seen.target == target).map(|seen| (seen.at - begun).as_millis() / 1_000)
    };
    assert_eq!((at("t0"), at("t1")), (Some(1), Some(9)));
}

#[tokio::test(start_paused = true)]
async fn as_many_calls_of_a_target_are_in_flight_as_it_may_have() {
    let world = world(ROUTES, Scripted::accepting().taking(|| 2_000));
    world.register(&parcels(60, 2)).await;
    world.run_to_rest().await.unwrap();
    let most = world.downstream.most_in_flight();
    let of = |target: &str| most.get(&Some(target.to_owned())).copied();
    assert_eq!((of("t0"), of("t1")), (Some(3), Some(1)));
    assert_kept(&world, 60);
}

/// A batch that has more than fits since keeps what has joined it, and takes no more.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lowered_while_a_batch_is_open_neither_loses_nor_repeats_a_task() {
    let mut world = world(ROUTES, Scripted::accepting());
    world.register(&[0, 1, 2, 3].map(|n| parcel(n, 1))).await;
    world.run_for(3_000).await.unwrap();
    assert_eq!(world.tables().batches().iter().map(|batch| batch.members.len()).collect::<Vec<_>>(), [4]);
    world.push(&ROUTES.replace("max_items: 5, wait_ms: 9000", "max_items: 2, wait_ms: 9000"));
    world.register(&[parcel(4, 1)]).await;
    world.run_to_rest().await.unwrap();
    assert_eq!(sizes(&world, "t1"), [4, 1]);
    assert_kept(&world, 5);
}
