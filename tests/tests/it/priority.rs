//! Urgent tasks fill the next batch of their Target first, and the others do not starve.

use groupage_lab::prelude::*;

const ROUTES: &str = parcels_route![
    "batch: { max_items: 10, wait_ms: 1000, express: false }",
    "priority: \"key == 'k9' && `9` || `0`\"",
];

fn urgent(n: usize) -> String {
    groupage_lab::scenario::keyed(n, 0, 9, 1)
}

/// A world in which writes take time, so that one batch is made before the next.
fn world() -> World {
    World::new(Setting { latency_ms: 4, ..Setting::default() }, ROUTES, Scripted::accepting())
}

/// Which task had which place, in the order in which the batches were made. Whose call begins first is the affair of
/// the gates.
fn places(world: &World) -> Vec<usize> {
    let mut batches = world.tables().batches();
    batches.sort_by_key(|batch| batch.created_at);
    let ids = batches.into_iter().flat_map(|batch| batch.members);
    ids.map(|member| member.id.as_str()[1..].parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_urgent_task_is_in_the_next_batch_whatever_waits_before_it() {
    let world = world();
    // A leader is elected last: all of them wait by then.
    for part in (0..500).map(|n| parcel(n, 0)).collect::<Vec<_>>().chunks(10) {
        world.register(part).await;
    }
    world.register(&[urgent(999)]).await;
    world.run_to_rest().await.unwrap();
    let place = places(&world).iter().position(|n| *n == 999).unwrap();
    assert!(place < 20, "it had place {place} of 501");
    assert_eq!(places(&world).len(), 501);
}

#[tokio::test(start_paused = true)]
async fn one_place_in_ten_is_left_for_the_others() {
    let world = world();
    world.register(&(0..5).map(|n| parcel(n, 0)).collect::<Vec<_>>()).await;
    for part in (5..305).map(urgent).collect::<Vec<_>>().chunks(10) {
        world.register(part).await;
    }
    world.run_to_rest().await.unwrap();
    let places = places(&world);
    let usual: Vec<usize> = (0..5).map(|n| places.iter().position(|other| *other == n).unwrap()).collect();
    assert!(usual.iter().all(|place| *place < 120), "five of 305 had the places {usual:?}");
    assert_eq!(places.len(), 305);
}
