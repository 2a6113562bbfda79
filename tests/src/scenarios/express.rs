//! Stories of tasks that fill batches by themselves.

use futures::FutureExt;

use crate::lag::Lag;
use crate::scenario::{Scenario, parcels};
use crate::world::World;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        full_batches(),
        full_batches_and_a_rest(),
        the_rests_of_two_events(),
        the_rest_of_an_event_twice(),
        repeats_among_the_new(),
        the_same_full_batches_at_once(),
        full_batches_that_are_pulled(),
        the_same_full_batches_and_a_lagging_index(),
    ]
}

fn full_batches() -> Scenario {
    Scenario::new("full batches", 6, |world| {
        world.send(&parcels(6, 2));
        async { Ok(()) }.boxed_local()
    })
    .express()
}

fn full_batches_and_a_rest() -> Scenario {
    Scenario::new("full batches and a rest", 8, |world| {
        world.send(&parcels(8, 2));
        async { Ok(()) }.boxed_local()
    })
    .express()
}

fn the_rests_of_two_events() -> Scenario {
    Scenario::new("full batches, one of them from the rests of two events", 9, |world| {
        world.send(&parcels(9, 1)[..4]);
        world.send(&parcels(9, 1)[4..]);
        async { Ok(()) }.boxed_local()
    })
    .express()
}

fn the_rest_of_an_event_twice() -> Scenario {
    Scenario::new("the rest of an event, and its tasks in others", 7, |world| {
        world.send(&parcels(7, 1)[..2]);
        world.send(&parcels(7, 1)[1..]);
        world.send(&parcels(7, 1)[5..]);
        async { Ok(()) }.boxed_local()
    })
    .express()
}

fn repeats_among_the_new() -> Scenario {
    Scenario::new("full batches, repeats among them", 6, |world| {
        world.send(&parcels(6, 1)[..2]);
        world.send(&parcels(6, 1));
        async { Ok(()) }.boxed_local()
    })
    .express()
}

/// Two events with the same tasks, in other batches.
fn twice(world: &World) {
    world.send(&parcels(6, 1));
    let mut turned = parcels(6, 1);
    turned.rotate_left(2);
    world.send(&turned);
}

fn the_same_full_batches_at_once() -> Scenario {
    Scenario::new("the same full batches at once", 6, |world| {
        twice(world);
        async { Ok(()) }.boxed_local()
    })
    .express()
}

fn full_batches_that_are_pulled() -> Scenario {
    Scenario::new("full batches that are pulled", 6, |world| {
        world.send(&parcels(6, 1));
        async { Ok(()) }.boxed_local()
    })
    .express()
    .pulled(2)
    .setting(|setting| setting.sweeps = true)
}

fn the_same_full_batches_and_a_lagging_index() -> Scenario {
    Scenario::new("the same full batches at once, and a lagging index", 6, |world| {
        twice(world);
        async { Ok(()) }.boxed_local()
    })
    .express()
    .setting(|setting| setting.lag = Lag { index_ms: 3_000, read_ms: 1_000, slots_ms: 0 })
}
