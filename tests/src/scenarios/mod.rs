//! The stories of the crash matrix.

mod express;
mod fan_outs;
mod lists;
mod order;
mod shards;
mod streams;

use futures::FutureExt;
use groupage_core::domain::batch::{FollowUp, Status};
use groupage_core::ports::NoAnswer;

use crate::downstream::{Seen, fails_alone, ok, status};
use crate::lag::Lag;
use crate::scenario::{Scenario, parcel, parcels};
use crate::witness::follow_up;
use crate::world::World;

/// All of them.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = vec![
        two_targets(),
        a_call_that_fails_for_now(),
        a_call_without_an_answer(),
        members_that_fail_alone(),
        a_refused_batch(),
        a_refused_batch_taken_apart(),
        one_call_in_flight(),
        calls_per_second(),
        a_pause_for_the_whole_route(),
        the_same_tasks_twice(),
        a_lagging_index(),
        a_dead_leaders_open_batch(),
        a_lost_election(),
        a_lost_batch(),
        a_dead_handlers_claim(),
        an_unfinished_follow_up(),
        slow_calls_under_a_session(),
        workers_that_pull(),
    ];
    all.extend(express::all());
    all.extend(fan_outs::all());
    all.extend(order::all());
    all.extend(shards::all());
    all.extend(streams::all());
    all.extend(lists::all());
    all
}

/// Sends everything as one event.
fn six(world: &World) -> futures::future::LocalBoxFuture<'_, Result<(), String>> {
    world.send(&parcels(6, 2));
    async { Ok(()) }.boxed_local()
}

/// Six of one Target, in two events: two batches.
fn six_of_one(world: &World) -> futures::future::LocalBoxFuture<'_, Result<(), String>> {
    world.send(&parcels(6, 1)[..3]);
    world.send(&parcels(6, 1)[3..]);
    async { Ok(()) }.boxed_local()
}

/// Runs until a batch is in such a state, then loses every message there is.
async fn lose_everything_when(world: &World, is: impl Fn(&Status) -> bool) -> Result<(), String> {
    world.send(&parcels(4, 1));
    world.run_while(|| !world.tables().batches().iter().any(|batch| is(&batch.status))).await?;
    world.queues.lose_everything();
    Ok(())
}

fn two_targets() -> Scenario {
    Scenario::new("two Targets", 6, six)
}

fn a_call_that_fails_for_now() -> Scenario {
    let script = |_: &Seen, before| Ok(if before == 0 { status(503, None) } else { ok("") });
    Scenario::new("a call that fails for now", 6, six).answering(script)
}

fn a_call_without_an_answer() -> Scenario {
    let script = |_: &Seen, before| match before {
        0 => Err(NoAnswer::Timeout),
        1 => Err(NoAnswer::Connection),
        _ => Ok(ok("")),
    };
    Scenario::new("a call without an answer", 6, six).answering(script)
}

fn members_that_fail_alone() -> Scenario {
    Scenario::new("members that fail alone", 6, six).answering(fails_alone)
}

fn a_refused_batch() -> Scenario {
    let script = |_: &Seen, _| Ok(status(400, None));
    Scenario::new("a refused batch", 6, six).answering(script)
}

fn a_refused_batch_taken_apart() -> Scenario {
    let script = |seen: &Seen, _| {
        let poison = seen.items.iter().any(|id| id == "p4");
        Ok(if poison { status(422, None) } else { ok("") })
    };
    Scenario::new("a refused batch, taken apart", 6, six).route("on_reject: bisect").answering(script)
}

fn one_call_in_flight() -> Scenario {
    Scenario::new("one call in flight", 6, six_of_one)
        .route("limits: { in_flight_per_target: 1, in_flight: 2 }")
        .taking(1_500)
}

fn calls_per_second() -> Scenario {
    Scenario::new("a call per second", 6, six_of_one).route("limits: { calls_per_second: 1 }")
}

fn a_pause_for_the_whole_route() -> Scenario {
    let script = |seen: &Seen, before| match (seen.target.as_str(), before) {
        ("t0", 0) => Ok(status(429, Some(20_000))),
        _ => Ok(ok("")),
    };
    Scenario::new("a pause for the whole route", 6, six).route("limits: { pause: route }").answering(script)
}

fn the_same_tasks_twice() -> Scenario {
    Scenario::new("the same tasks twice", 4, |world| {
        world.send(&parcels(4, 2));
        world.send(&parcels(4, 2));
        async { Ok(()) }.boxed_local()
    })
}

fn a_lagging_index() -> Scenario {
    Scenario::new("a lagging index", 6, six_of_one)
        .setting(|setting| setting.lag = Lag { index_ms: 3_000, read_ms: 1_000, slots_ms: 0 })
}

fn a_dead_leaders_open_batch() -> Scenario {
    Scenario::new("a dead leader's open batch", 5, |world| {
        async {
            lose_everything_when(world, |status| matches!(status, Status::Open { .. })).await?;
            world.send(&[parcel(4, 0)]);
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}

fn a_lost_election() -> Scenario {
    Scenario::new("a lost election", 4, |world| {
        async {
            world.register(&parcels(4, 2)).await;
            world.queues.lose_everything();
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}

fn a_lost_batch() -> Scenario {
    Scenario::new("a lost batch", 4, |world| {
        lose_everything_when(world, |status| matches!(status, Status::Frozen)).boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}

fn a_dead_handlers_claim() -> Scenario {
    Scenario::new("a dead handler's claim", 4, |world| {
        lose_everything_when(world, |status| matches!(status, Status::InProgress { .. })).boxed_local()
    })
    .taking(800)
    .setting(|setting| setting.sweeps = true)
}

fn an_unfinished_follow_up() -> Scenario {
    Scenario::new("an unfinished follow-up", 4, |world| {
        async {
            world.send(&parcels(4, 1));
            let pending = || world.tables().batches().iter().any(|batch| follow_up(batch) == Some(FollowUp::Pending));
            world.run_while(|| !pending()).await?;
            world.queues.lose_everything();
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}

fn slow_calls_under_a_session() -> Scenario {
    Scenario::new("slow calls under a session", 3, |world| {
        world.send(&parcels(3, 1));
        async { Ok(()) }.boxed_local()
    })
    .taking(4_500)
}

fn workers_that_pull() -> Scenario {
    Scenario::new("workers that pull", 6, six_of_one).pulled(2).taking(700).setting(|setting| setting.sweeps = true)
}
