//! Messages that wait by copies of themselves: one that copies itself without end is braked, whatever step it is for.

use groupage_core::domain::message::{Group, Handle};
use groupage_core::steps::hold::Holding;
use groupage_lab::prelude::*;

const QUARTER_OF_AN_HOUR_MS: u64 = 15 * 60 * 1_000;
/// What a chain has to its credit.
const MOST: usize = 500;

/// A task is a batch at once.
const ALONE: &str = parcels_route!["batch: { max_items: 1, express: true }"];
/// A task waits for others for five minutes.
const PATIENT: &str = parcels_route!["batch: { max_items: 5, wait_ms: 300000, express: false }"];

/// A world with one task.
async fn world(routes: &str) -> World {
    let world = World::new(Setting::default(), routes, Scripted::accepting());
    world.register(&parcels(1, 1)).await;
    world
}

/// The message that was sent last to this queue.
fn latest(world: &World, to: &Destination) -> Outgoing {
    world.queues.now().messages(to).pop().unwrap()
}

/// Delivers each copy at once, whatever its delay, until one is braked; says how many there were.
async fn copies_until_braked(world: &World, to: &Destination) -> usize {
    for count in 1..=2 * MOST {
        let sent = world.queues.now().messages(to).len();
        let delivery = Delivery { outgoing: latest(world, to), receipt: "r".to_owned(), received: 1 };
        assert!(world.deliver(&delivery).await.unwrap());
        assert_eq!(world.queues.now().messages(to).len(), sent + 1, "it copies itself");
        if latest(world, to).delay_ms >= QUARTER_OF_AN_HOUR_MS {
            return count;
        }
    }
    panic!("no copy is braked");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_looks_at_its_gate_without_end_is_braked() {
    let world = world(ALONE).await;
    let route = Scope::Route(RouteName::new("parcels"));
    let holding = Holding { store: world.tables(), env: &world.env };
    holding.pause(&route, None).await.unwrap().unwrap();
    assert_eq!(copies_until_braked(&world, &Destination::Handle).await, MOST + 1);
    let braked: Handle = serde_json::from_str(&latest(&world, &Destination::Handle).body).unwrap();
    assert!(braked.copies.is_braked(world.env.now().plus_ms(QUARTER_OF_AN_HOUR_MS)), "its next reader counts it");
    // It is not lost: when the route is let go, the call is made.
    holding.resume(&route).await.unwrap();
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_looks_after_its_batch_without_end_is_braked() {
    let world = world(PATIENT).await;
    let election = Delivery { outgoing: latest(&world, &Destination::Elect), receipt: "e".to_owned(), received: 1 };
    world.deliver(&election).await.unwrap();
    assert_eq!(copies_until_braked(&world, &Destination::Group).await, MOST + 1);
    let braked: Group = serde_json::from_str(&latest(&world, &Destination::Group).body).unwrap();
    assert!(braked.is_braked(world.env.now().plus_ms(QUARTER_OF_AN_HOUR_MS)));
}

#[tokio::test(start_paused = true)]
async fn an_election_that_is_lost_without_end_is_braked() {
    let world = world(PATIENT).await;
    let first = Delivery { outgoing: latest(&world, &Destination::Elect), receipt: "e".to_owned(), received: 1 };
    world.deliver(&first).await.unwrap();
    // Another workflow leads; the task of this one waits.
    world.register(&[parcel(7, 0)]).await;
    // register-task told it, so that the message which waits is a copy already.
    assert_eq!(copies_until_braked(&world, &Destination::Elect).await, MOST);
    let braked: Elect = serde_json::from_str(&latest(&world, &Destination::Elect).body).unwrap();
    assert!(braked.is_braked(world.env.now().plus_ms(QUARTER_OF_AN_HOUR_MS)));
}
