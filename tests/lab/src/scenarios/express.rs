//! Stories of tasks that fill batches by themselves.

use crate::prelude::*;
use crate::scenario::OTHERS;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("full batches", 6, |world| world.send(&parcels(6, 2))),
        Scenario::new("full batches and a rest", 8, |world| world.send(&parcels(8, 2))),
        Scenario::new("full batches, one of them from the rests of two events", 9, |world| {
            world.send(&parcels(9, 1)[..4]);
            world.send(&parcels(9, 1)[4..]);
        }),
        Scenario::new("the rest of an event, and its tasks in others", 7, |world| {
            world.send(&parcels(7, 1)[..2]);
            world.send(&parcels(7, 1)[1..]);
            world.send(&parcels(7, 1)[5..]);
        }),
        Scenario::new("full batches, repeats among them", 6, |world| {
            world.send(&parcels(6, 1)[..2]);
            world.send(&parcels(6, 1));
        }),
        Scenario::new("the same full batches at once", 6, twice),
        Scenario::new("full batches that are pulled", 6, |world| world.send(&parcels(6, 1))).pulled(2).swept(),
        Scenario::new("the same full batches at once, and a lagging index", 6, twice)
            .setting(|setting| setting.lag = Lag { index_ms: 3_000, read_ms: 1_000, slots_ms: 0 }),
    ];
    let gone = Scenario::new("full batches whose route is gone for a while", 6, |world| world.send(&parcels(6, 1)));
    stories.map(Scenario::express).into_iter().chain([losing_its_route(gone.express())]).collect()
}

/// A story whose route is gone after a second. Once it is back, a person sends what was rejected again.
fn losing_its_route(story: Scenario) -> Scenario {
    let pushes = vec![(1_000, OTHERS.to_owned()), (90_000, story.routes.clone())];
    story.setting(|setting| setting.pushes = pushes)
}

/// Two events with the same tasks, in other batches.
fn twice(world: &World) {
    world.send(&parcels(6, 1));
    let mut turned = parcels(6, 1);
    turned.rotate_left(2);
    world.send(&turned);
}
