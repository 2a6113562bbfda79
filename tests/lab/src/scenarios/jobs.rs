//! Stories of jobs: the downstream accepts a batch and finishes it later.

use crate::downstream::{begun, fails_alone};
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new("a job that ends later", 6, |world| world.send(&parcels(6, 2)))
            .answering(|seen, _| Ok(begun(seen, "{}")))
            .job(5_000, fails_alone)
            .swept(),
        // An answer to a look is no call: an empty body says that the call was accepted, under one key for each task.
        Scenario::new("one job in flight", 6, two_batches)
            .answering(|seen, _| Ok(begun(seen, "")))
            .job(5_000, |_, _| Ok(ok("")))
            .route("limits: { in_flight_per_target: 1, in_flight: 2 }")
            .swept(),
        Scenario::new("a job that cannot be looked at for a while", 3, |world| world.send(&parcels(3, 1)))
            .answering(|seen, _| Ok(begun(seen, "")))
            .job(1_000, |_, looks| match looks {
                0 => Ok(status(503, None)),
                1 => Err(NoAnswer::Timeout),
                2 => Ok(ok("<html>")),
                _ => Ok(ok("")),
            })
            .swept(),
        Scenario::new("a job that its API has forgotten", 3, |world| world.send(&parcels(3, 1)))
            .answering(|seen, _| Ok(begun(seen, "")))
            .job(1_000, |_, _| Ok(status(404, None)))
            .route("limits: { in_flight: 1 }")
            .swept(),
    ]
}

/// Six of one Target, in two events.
fn two_batches(world: &World) {
    world.send(&parcels(6, 1)[..3]);
    world.send(&parcels(6, 1)[3..]);
}
