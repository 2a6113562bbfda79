//! What a downstream may be called with at once, how often, and when not at all.
//!
//! Only deaths leave these promises whole to the millisecond: a worker that stands still between its gate and its call,
//! a clock that is off, or a connection that is tried once more may be late or early by what they are off.

use std::collections::BTreeMap;

use groupage_core::domain::gate::Scope;
use groupage_core::domain::id::Target;
use groupage_core::ports::NoAnswer;

use crate::process::{Fault, Plan};
use crate::world::World;

/// What was called against a limit or during a pause.
pub fn broken(world: &World) -> Vec<String> {
    let exact = match world.setting().plan {
        Plan::Nothing | Plan::Deaths(_) | Plan::At(_, _, Fault::Death | Fault::DeathBesideTwin) => {
            world.setting().skew_ms == 0
        }
        Plan::At(..) | Plan::Random(_) => false,
    };
    let again_at_once = world.downstream.answered().iter().any(|(_, answer)| *answer == Err(NoAnswer::Connection));
    if !exact || again_at_once {
        return Vec::new();
    }
    let mut broken = too_many_at_once(world);
    broken.extend(too_often(world));
    broken.extend(during_a_pause(world));
    broken.extend(while_held(world));
    broken
}

/// Calls that came while a person held them back.
fn while_held(world: &World) -> Vec<String> {
    let moment = |at| world.env.moment(at).0;
    let holds: Vec<_> = world.store.inner().holds();
    let came = |(scope, from, end): &(Scope, _, Option<_>)| {
        // One read of the gate and the way to the downstream.
        let (durable, end) = (moment(*from) + 2 * world.setting().latency_ms, end.map_or(u64::MAX, moment));
        let calls = world.downstream.ledger().into_iter().filter(|seen| (durable + 1..end).contains(&moment(seen.at)));
        calls.map(|seen| format!("limits hold: {} was called while {scope:?} was held", seen.key)).collect::<Vec<_>>()
    };
    holds.iter().flat_map(came).collect()
}

fn too_many_at_once(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for route in world.routes.iter() {
        for (target, peak) in world.downstream.most_in_flight() {
            let limit = match &target {
                None => route.in_flight,
                Some(value) => route.for_target(&Target::of(&route.name, value)).in_flight,
            };
            if limit.is_some_and(|limit| peak > limit) {
                broken.push(format!("limits hold: {peak} calls in flight for {target:?}"));
            }
        }
    }
    broken
}

fn too_often(world: &World) -> Vec<String> {
    let calls: Vec<(u64, String)> =
        world.downstream.ledger().into_iter().map(|seen| (world.env.moment(seen.at).0, seen.target)).collect();
    let mut broken = Vec::new();
    for route in world.routes.iter() {
        let all: Vec<u64> = calls.iter().map(|(at, _)| *at).collect();
        broken.extend(route.gap_ms.into_iter().flat_map(|gap_ms| nearer_than(world, gap_ms, &all)));
        let mut by_target: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (at, target) in &calls {
            by_target.entry(target).or_default().push(*at);
        }
        for (target, calls) in by_target {
            let gap_ms = route.for_target(&Target::of(&route.name, target)).gap_ms;
            broken.extend(gap_ms.into_iter().flat_map(|gap_ms| nearer_than(world, gap_ms, &calls)));
        }
    }
    broken
}

/// Calls that came nearer to each other than that.
fn nearer_than(world: &World, gap_ms: u64, calls: &[u64]) -> Vec<String> {
    // From the gate to the call a process claims, reads its members and looks at the gate again.
    let slack_ms = 8 * world.setting().latency_ms;
    let early = |from: usize, to: usize| calls[to] + slack_ms < calls[from] + gap_ms * (to - from) as u64;
    let pairs = (0..calls.len()).flat_map(|from| (from + 1..calls.len()).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| early(*from, *to))
        .map(|(from, to)| format!("limits hold: calls {from} to {to} came at {:?}", &calls[from..=to]))
        .collect()
}

fn during_a_pause(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    let mut latest: BTreeMap<Scope, u64> = BTreeMap::new();
    for (scope, from, until) in world.store.inner().pauses() {
        // A longer pause takes the place of a shorter one.
        let until = latest.entry(scope.clone()).and_modify(|latest| *latest = until.0.max(*latest)).or_insert(until.0);
        // One read of the gate and the way to the downstream.
        let durable = world.env.moment(from).0 + 2 * world.setting().latency_ms;
        for seen in world.downstream.ledger() {
            let at = world.env.moment(seen.at).0;
            let concerned = match &scope {
                Scope::Route(_) => true,
                Scope::Target(target) => *target == Target::of(&target.route(), &seen.target),
            };
            if concerned && at > durable && at < *until {
                broken.push(format!("limits hold: {} was called at {at}, in the pause until {until}", seen.key));
            }
        }
    }
    broken
}
