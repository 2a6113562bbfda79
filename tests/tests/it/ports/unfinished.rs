//! What the index of unfinished batches must show.

use groupage_core::domain::batch::{Assumes, Claim};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{batch, target};

conformance![
    a_batch_is_listed_once_it_is_due_and_not_before,
    those_that_have_been_due_for_longest_come_first,
    no_more_are_listed_than_are_asked_for,
    a_batch_is_listed_for_its_own_route_alone,
    a_batch_is_listed_in_its_own_part_alone,
    a_batch_is_listed_in_every_state_in_which_work_is_left,
    a_batch_without_members_leaves_the_index,
    a_void_never_enters_the_index,
    a_paused_batch_is_listed_after_its_pause,
    a_nudged_batch_moves_to_its_next_time,
];

/// Late enough for every batch.
const END: Timestamp = Timestamp(9_000_000_000_000);

fn due(id: &str, due: u64) -> Batch {
    batch(id, &target("a"), 1).due_at(Timestamp(due))
}

/// Writes a batch over the one before it, if there was one, and waits until the index shows it.
async fn put(store: &impl Fixture, batch: &Batch, before: Option<&Batch>) {
    let assumes = before.map_or(Assumes::Absent, |before| Assumes::At(before.revision));
    assert_eq!(store.store(batch, assumes).await.unwrap(), Stored::Yes);
    store.index_settles().await;
}

/// What the part of `id` lists of the route `parcels`.
async fn listed(store: &impl Fixture, id: &str, before: Timestamp, limit: usize) -> Vec<String> {
    let part = Part::of(&BatchId::new(id));
    let found = store.unfinished(&RouteName::new("parcels"), Look::at(part, before, limit)).await.unwrap().all();
    found.into_iter().map(|id| id.to_string()).collect()
}

async fn a_batch_is_listed_once_it_is_due_and_not_before(store: impl Fixture) {
    put(&store, &due("a1", 5_000), None).await;
    for (before, found) in [(4_999, 0), (5_000, 0), (5_001, 1), (60_000, 1)] {
        assert_eq!(listed(&store, "a1", Timestamp(before), 10).await.len(), found, "before {before}");
    }
}

async fn those_that_have_been_due_for_longest_come_first(store: impl Fixture) {
    // Times of one to six digits: they are ordered as numbers, not as text.
    for (id, at) in [("a1", 70_000), ("a2", 9_000), ("a3", 100_000), ("a4", 10), ("a5", 9), ("a6", 90)] {
        put(&store, &due(id, at), None).await;
    }
    assert_eq!(listed(&store, "a", END, 10).await, ["a5", "a4", "a6", "a2", "a1", "a3"]);
    assert_eq!(listed(&store, "a", Timestamp(9_001), 10).await, ["a5", "a4", "a6", "a2"]);
}

async fn no_more_are_listed_than_are_asked_for(store: impl Fixture) {
    for n in 0..5_u64 {
        put(&store, &due(&format!("a{n}"), 100 - n), None).await;
    }
    for limit in 1..=6 {
        let found = listed(&store, "a", END, limit).await;
        assert_eq!(found, ["a4", "a3", "a2", "a1", "a0"][..limit.min(5)], "at most {limit}");
    }
}

async fn a_batch_is_listed_for_its_own_route_alone(store: impl Fixture) {
    let routes = ["parcels", "parcel", "parcels-2", "letters"].map(RouteName::new);
    for (n, route) in routes.iter().enumerate() {
        put(&store, &batch(&format!("a{n}"), &Target::of(route, "same"), 1), None).await;
    }
    for (n, route) in routes.iter().enumerate() {
        let found = store.unfinished(route, Look::at(Part::of(&BatchId::new("a")), END, 10)).await.unwrap().all();
        assert_eq!(found, [BatchId::new(format!("a{n}"))], "of {route}");
    }
}

async fn a_batch_is_listed_in_its_own_part_alone(store: impl Fixture) {
    for digit in "0123456789abcdef".chars() {
        put(&store, &due(&format!("{digit}1"), 10), None).await;
    }
    let mut all = Vec::new();
    for part in Part::all() {
        let found = store.unfinished(&RouteName::new("parcels"), Look::at(part, END, 10)).await.unwrap().all();
        assert!(found.iter().all(|id| Part::of(id) == part), "{part:?} lists {found:?}");
        assert_eq!(found.len(), 1);
        all.extend(found);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), usize::from(Part::COUNT));
}

fn claim() -> Claim {
    Claim { session: SessionId::new("parcels/s1") }
}

async fn a_batch_is_listed_in_every_state_in_which_work_is_left(store: impl Fixture) {
    let open = due("a1", 10);
    let closing = open.closing();
    let frozen = closing.frozen(closing.members.clone());
    let claimed = frozen.claimed(claim());
    let paused = claimed.paused(Timestamp(20));
    let again = paused.claimed(claim());
    let settled = again.settled(Results::new(), Timestamp(30));
    let followed_up = settled.followed_up();
    let mut before = None;
    for batch in [open, closing, frozen, claimed, paused, again, settled] {
        put(&store, &batch, before.as_ref()).await;
        assert_eq!(listed(&store, "a1", END, 10).await, ["a1"], "{:?}", batch.status);
        before = Some(batch);
    }
    put(&store, &followed_up, before.as_ref()).await;
    assert!(listed(&store, "a1", END, 10).await.is_empty(), "nothing is left to do");
}

async fn a_batch_without_members_leaves_the_index(store: impl Fixture) {
    let open = due("a1", 10);
    put(&store, &open, None).await;
    assert_eq!(listed(&store, "a1", END, 10).await, ["a1"]);
    put(&store, &open.frozen(Vec::new()), Some(&open)).await;
    assert!(listed(&store, "a1", END, 10).await.is_empty());
}

async fn a_void_never_enters_the_index(store: impl Fixture) {
    put(&store, &Batch::void(BatchId::new("a1"), target("a"), Timestamp(1)), None).await;
    assert!(listed(&store, "a1", END, 10).await.is_empty());
}

async fn a_paused_batch_is_listed_after_its_pause(store: impl Fixture) {
    let open = due("a1", 10);
    let frozen = open.frozen(open.members.clone());
    let claimed = frozen.claimed(claim());
    let until = Timestamp(500_000);
    let paused = claimed.paused(until);
    let mut before = None;
    for batch in [open, frozen, claimed, paused] {
        put(&store, &batch, before.as_ref()).await;
        before = Some(batch);
    }
    assert!(listed(&store, "a1", until, 10).await.is_empty());
    assert_eq!(listed(&store, "a1", END, 10).await, ["a1"]);
}

async fn a_nudged_batch_moves_to_its_next_time(store: impl Fixture) {
    let (open, neighbour) = (due("a1", 10), due("a2", 15));
    put(&store, &open, None).await;
    put(&store, &neighbour, None).await;
    let now = Timestamp(20);
    assert_eq!(listed(&store, "a", now, 10).await, ["a1", "a2"]);
    let nudged = open.nudged(now);
    put(&store, &nudged, Some(&open)).await;
    assert_eq!(listed(&store, "a", now, 10).await, ["a2"]);
    assert_eq!(listed(&store, "a", nudged.due.plus_ms(1), 10).await, ["a2", "a1"], "it is there once");
}
