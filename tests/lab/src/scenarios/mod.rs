//! The stories of the crash matrix.

mod accepted;
mod cancelled;
mod erased;
mod expired;
mod express;
mod failed;
mod fan_outs;
mod jobs;
mod lists;
mod order;
mod outages;
mod scheduled;
mod shards;
mod streams;
mod traits;
mod windows;

use futures::FutureExt;
use groupage_core::domain::batch::{FollowUp, Status};

use crate::downstream::fails_alone;
use crate::prelude::*;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [
        calls(),
        losses(),
        deadly(),
        accepted::all(),
        express::all(),
        failed::all(),
        cancelled::all(),
        erased::all(),
        expired::all(),
        fan_outs::all(),
        jobs::all(),
        order::all(),
        outages::all(),
        scheduled::all(),
        shards::all(),
        streams::all(),
        traits::all(),
        windows::all(),
        lists::all(),
    ]
    .concat()
}

/// Stories of calls and what the downstream makes of them.
fn calls() -> Vec<Scenario> {
    vec![
        Scenario::new("two Targets", 6, six),
        Scenario::new("a call that fails for now", 6, six)
            .answering(|_, before| Ok(if before == 0 { status(503, None) } else { ok("") })),
        Scenario::new("a call without an answer", 6, six).answering(|_, before| match before {
            0 => Err(NoAnswer::Timeout),
            1 => Err(NoAnswer::Connection),
            _ => Ok(ok("")),
        }),
        Scenario::new("members that fail alone", 6, six).answering(fails_alone),
        Scenario::new("a refused batch", 6, six).answering(|_, _| Ok(status(400, None))),
        Scenario::new("a refused batch, taken apart", 6, six).route("on_reject: bisect").answering(|seen, _| {
            let poison = seen.items.iter().any(|id| id == "p4");
            Ok(if poison { status(422, None) } else { ok("") })
        }),
        Scenario::new("outputs of a batch that is taken apart", 6, |world| world.send(&parcels(6, 1)))
            .route("on_reject: bisect")
            .answering(|seen, before| match seen.items.iter().any(|id| id == "p4") {
                true => Ok(status(422, None)),
                false => fails_alone(seen, before),
            }),
        Scenario::new("one call in flight", 6, six_of_one)
            .route("limits: { in_flight_per_target: 1, in_flight: 2 }")
            .taking(1_500),
        Scenario::new("a call per second", 6, six_of_one).route("limits: { calls_per_second: 1 }"),
        Scenario::new("turns at a rate", 6, six_targets).route("limits: { calls_per_second: 1 }"),
        Scenario::new("turns for one place", 6, six_targets).route("limits: { in_flight: 1 }").taking(1_500),
        Scenario::new("turns of Targets that share a rate", 10, many_and_one)
            .route("limits: { calls_per_second: 1, share: { by: target } }"),
        Scenario::new("turns of Targets that share one place", 10, many_and_one)
            .route("limits: { in_flight: 1, share: { by: target } }")
            .taking(1_500),
        Scenario::new("turns at a rate and for a place", 6, six_of_one)
            .route("limits: { in_flight_per_target: 1, in_flight: 2, calls_per_second: 1 }"),
        Scenario::new("a call per second for each Target", 10, many_and_one)
            .route("limits: { calls_per_second_per_target: 1, in_flight_per_target: 2 }"),
        Scenario::new("a pause for the whole route", 6, six).route("limits: { pause: route }").answering(
            |seen, before| match (seen.target.as_str(), before) {
                ("t0", 0) => Ok(status(429, Some(20_000))),
                _ => Ok(ok("")),
            },
        ),
        Scenario::new("the same tasks twice", 4, |world| {
            world.send(&parcels(4, 2));
            world.send(&parcels(4, 2));
        }),
        Scenario::new("a lagging index", 6, six_of_one)
            .setting(|setting| setting.lag = Lag { index_ms: 3_000, read_ms: 1_000, slots_ms: 0 }),
        Scenario::new("slow calls under a session", 3, |world| world.send(&parcels(3, 1))).taking(4_500),
        Scenario::new("workers that pull", 6, six_of_one).pulled(2).taking(700).swept(),
    ]
}

/// Stories of a task that kills every worker which calls the downstream with it.
fn deadly() -> Vec<Scenario> {
    vec![
        Scenario::new("a task that kills its workers", 3, |world| world.send(&parcels(3, 1)))
            .route("on_reject: bisect")
            .killed_by("p1"),
        Scenario::new("a batch that kills its workers", 3, |world| world.send(&parcels(3, 1))).killed_by("p1"),
        Scenario::new("a batch that kills workers that pull", 3, |world| world.send(&parcels(3, 1)))
            .pulled(2)
            .killed_by("p1")
            .swept(),
        Scenario::new("a batch that kills its workers, and whose message is lost", 3, |world| {
            world.send(&parcels(3, 1))
        })
        .then(|world| {
            lose_everything_when(world, |batch| matches!(batch.status, Status::InProgress { .. })).boxed_local()
        })
        .killed_by("p1")
        .swept(),
    ]
}

/// Stories of messages that are lost, with what they were to bring about.
fn losses() -> Vec<Scenario> {
    vec![
        Scenario::new("a dead leader's open batch", 5, four_of_one)
            .then(|world| {
                async {
                    lose_everything_when(world, |batch| matches!(batch.status, Status::Open { .. })).await?;
                    world.send(&[parcel(4, 0)]);
                    Ok(())
                }
                .boxed_local()
            })
            .swept(),
        Scenario::new("a lost election", 4, |_| {})
            .then(|world| {
                async {
                    world.register(&parcels(4, 2)).await;
                    world.queues.lose_everything();
                    Ok(())
                }
                .boxed_local()
            })
            .swept(),
        Scenario::new("a lost batch", 4, four_of_one)
            .then(|world| lose_everything_when(world, |batch| batch.status == Status::Frozen).boxed_local())
            .swept(),
        Scenario::new("a dead handler's claim", 4, four_of_one)
            .then(|world| {
                lose_everything_when(world, |batch| matches!(batch.status, Status::InProgress { .. })).boxed_local()
            })
            .taking(800)
            .swept(),
        Scenario::new("an unfinished follow-up", 4, four_of_one)
            .then(|world| lose_everything_when(world, is_to_be_followed_up).boxed_local())
            .swept(),
    ]
}

/// Sends everything as one event.
fn six(world: &World) {
    world.send(&parcels(6, 2));
}

/// One of each of six Targets: six batches.
fn six_targets(world: &World) {
    world.send(&parcels(6, 6));
}

/// Six of one Target, in two events: two batches.
fn six_of_one(world: &World) {
    world.send(&parcels(6, 1)[..3]);
    world.send(&parcels(6, 1)[3..]);
}

/// Nine of one Target, in three events, and one of another: four batches.
fn many_and_one(world: &World) {
    parcels(9, 1).chunks(3).for_each(|three| world.send(three));
    world.send(&[parcel(9, 1)]);
}

fn four_of_one(world: &World) {
    world.send(&parcels(4, 1));
}

fn is_to_be_followed_up(batch: &Batch) -> bool {
    matches!(batch.status, Status::Settled { follow_up: FollowUp::Pending, .. })
}

/// Runs until there is such a batch, then loses every message there is.
async fn lose_everything_when(world: &World, is_so: impl Fn(&Batch) -> bool) -> Result<(), String> {
    world.run_while(|| !world.tables().batches().iter().any(&is_so)).await?;
    world.queues.lose_everything();
    Ok(())
}
