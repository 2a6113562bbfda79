//! Stories of batches that end before their window does.

use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let enough = "wait_ms: 60000, min_items: 2";
    let quiet = "wait_ms: 60000, quiet_ms: 1500";
    let both = "wait_ms: 60000, min_items: 2, quiet_ms: 1500";
    let of_one = |name, count, begin: fn(&World), window| Scenario::new(name, count, begin).window(window);
    vec![
        of_one("a batch that is large enough", 5, five_of_one, enough),
        of_one("a batch that is large enough at once", 5, five_of_one, enough).express(),
        of_one("a batch that is not large enough", 4, four_and_one, enough),
        of_one("a batch to which nothing comes any more", 5, five_of_one, quiet),
        of_one("a rest to which nothing comes any more", 5, five_of_one, quiet).express(),
        of_one("a large batch to which nothing comes any more, and a small one", 4, four_and_one, both),
        of_one("windows that the clock closes", 6, six_within_a_window, "wait_ms: 1000, close_at: '*/2 * * * *'")
            .swept(),
        Scenario::new("a Target with a window and limits of its own", 8, eight_of_two)
            .route("limits: { in_flight: 3, in_flight_per_target: 2 }")
            .route("targets: [{ match: t1, batch: { max_items: 2, wait_ms: 0 }, limits: { in_flight_per_target: 1 } }]")
            .taking(1_500),
    ]
}

/// Before and after a window closes, which it does after 80 s.
fn six_within_a_window(world: &World) {
    let parcels = parcels(6, 2);
    world.send(&parcels[..3]);
    world.send_later(30_000, &parcels[3..5]);
    world.send_later(90_000, &parcels[5..]);
}

fn eight_of_two(world: &World) {
    world.send(&parcels(8, 2));
}

fn five_of_one(world: &World) {
    world.send(&parcels(5, 1));
}

/// The last one is of another Target, and alone.
fn four_and_one(world: &World) {
    world.send(&parcels(3, 1));
    world.send(&[parcel(3, 1)]);
}
