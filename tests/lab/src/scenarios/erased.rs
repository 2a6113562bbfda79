//! Stories of tasks that a person has erased: while they wait, are in a batch, have succeeded or failed. What comes
//! under their ids later is done by nobody.

use crate::fan_out::FanOut;
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("tasks that are erased", 4, |world| {
            world.send(&parcels(4, 2));
            // By then it waits.
            world.erase_later(12, &["p0"]);
            // By then they are in a batch, or called.
            world.erase_later(600, &["p1", "p2"]);
            sent_again_as_others(world);
        }),
        Scenario::new("items whose tasks are erased", 3, |world| {
            world.fan_out_later(0, FanOut::of(&[&parcels(3, 1)]));
            world.erase_later(40, &["p1"]);
            world.erase_later(90_000, &["p0", "p2"]);
        }),
    ];
    stories.map(Scenario::swept).into()
}

/// The same ids, and payloads that nobody knew: they count as repeats.
fn sent_again_as_others(world: &World) {
    world.send_later(600_000, &[parcel(0, 7), parcel(1, 7)]);
}
