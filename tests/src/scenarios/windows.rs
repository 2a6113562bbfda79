//! Stories of batches that end before their window does.

use crate::scenario::{Scenario, parcel, parcels};
use crate::world::World;

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
    ]
}

fn five_of_one(world: &World) {
    world.send(&parcels(5, 1));
}

/// The last one is of another Target, and alone.
fn four_and_one(world: &World) {
    world.send(&parcels(3, 1));
    world.send(&[parcel(3, 1)]);
}
