//! What a downstream may be called with at once, how often, and when not at all.
//!
//! Only deaths leave these promises whole to the millisecond: a worker that stands still between its gate and its call,
//! or a clock that is off, may be late or early by what they are off.
//!
//! A limit that was changed is judged by what processes may have known of it: for a while after a push by the former
//! one, too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::gate;
use groupage_core::domain::id::LimitName;
use groupage_core::routes::Route;
use tokio::time::Instant;

use crate::downstream::Seen;
use crate::prelude::*;

/// For so long a process goes on by the routes that it began with, in milliseconds: a claim that takes its batch apart
/// has this time, and batches that were told a time under a former rate have less.
const LINGERS_MS: u64 = 75_000;

/// A process that has seen its limiter open claims its batch within so long without another look, in milliseconds.
const JUST_NOW_MS: u64 = 50;

/// Returns from when on a pause that was written at `from` holds for each call: one that had looked may come before.
fn heeded_from(world: &World, from: Instant) -> u64 {
    // The claim and the way to the downstream.
    world.env.moment(from).0 + JUST_NOW_MS + 2 * world.setting().latency_ms
}

/// What was called against a limit or during a pause.
pub fn broken(world: &World) -> Vec<String> {
    let exact = match world.setting().plan {
        Plan::Nothing | Plan::Deaths(_) | Plan::At(_, _, Fault::Death | Fault::DeathBesideTwin) => {
            world.setting().skew_ms == 0
        }
        Plan::At(..) | Plan::Random(_) => false,
    };
    if !exact {
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
        let (heeded, end) = (heeded_from(world, *from), end.map_or(u64::MAX, moment));
        let calls = world.downstream.ledger().into_iter().filter(|seen| Some(&seen.route) == scope.route().as_ref());
        let calls = calls.filter(|seen| (heeded + 1..end).contains(&moment(seen.at)));
        calls.map(|seen| format!("limits hold: {} was called while {scope:?} was held", seen.key)).collect::<Vec<_>>()
    };
    holds.iter().flat_map(came).collect()
}

/// A limit that held between two moments, as far as any process may have gone by it: the loosest; `None`: there was
/// none for a while.
fn loosest<L: Ord>(
    world: &World,
    route: &RouteName,
    (from, to): (u64, u64),
    limit: impl Fn(&Route) -> Option<L>,
) -> Option<L> {
    let versions = world.versions();
    let lingers = |at: Timestamp| at.0 + world.setting().push_lag_ms + LINGERS_MS;
    let mut loosest = None;
    for (n, (since, known)) in versions.iter().enumerate() {
        let is_over = versions.get(n + 1).is_some_and(|(next, _)| lingers(*next) < from);
        let Some(route) = known[0].get(route).filter(|_| since.0 <= to && !is_over) else { continue };
        loosest = loosest.max(Some(limit(route)?));
    }
    loosest
}

/// The same for the calls of all these routes together.
fn loosest_of<'a, L: Ord>(
    world: &World,
    routes: impl Iterator<Item = &'a RouteName>,
    between: (u64, u64),
    limit: impl Fn(&Route) -> Option<L>,
) -> Option<L> {
    let routes: BTreeSet<&RouteName> = routes.collect();
    let limits = routes.into_iter().map(|route| loosest(world, route, between, &limit)).collect::<Option<Vec<L>>>()?;
    limits.into_iter().max()
}

/// The limits that routes share in any version of the routes file, each with the routes that ever name it.
fn named(world: &World) -> BTreeMap<LimitName, BTreeSet<RouteName>> {
    let mut found: BTreeMap<LimitName, BTreeSet<RouteName>> = BTreeMap::new();
    for (_, known) in world.versions() {
        for (route, named) in known[0].iter().flat_map(|route| route.named.iter().map(move |named| (route, named))) {
            found.entry(named.name.clone()).or_default().insert(route.name.clone());
        }
    }
    found
}

/// The limit of this name, if the route names it.
fn shared_by(route: &Route, name: &LimitName) -> Option<gate::Limits> {
    route.named.iter().find(|named| named.name == *name).map(|named| named.limits)
}

fn too_many_at_once(world: &World) -> Vec<String> {
    let at = |seen: &Seen| world.env.moment(seen.at).0;
    let (mut broken, named) = (Vec::new(), named(world));
    for beside in world.downstream.in_flight() {
        let [begun, ..] = beside.as_slice() else { continue };
        let target = Target::of(&begun.route, &begun.target);
        let of_route: Vec<&Seen> = beside.iter().filter(|seen| seen.route == begun.route).collect();
        let of_target: Vec<&Seen> = of_route.iter().filter(|seen| seen.target == begun.target).copied().collect();
        let of = |calls: &[&Seen], limit: &dyn Fn(&Route) -> Option<usize>| {
            // Where there was no limit yet, the gate counted nobody: of those that began since then it did.
            (1..=calls.len()).any(|count| {
                let (since, routes) = (at(calls[count - 1]), calls[..count].iter().map(|seen| &seen.route));
                loosest_of(world, routes, (since, at(begun)), limit).is_some_and(|limit| count > limit)
            })
        };
        if of(&of_route, &|route| route.in_flight) {
            broken.push(format!("limits hold: {} calls in flight with {}", of_route.len(), begun.key));
        }
        for (name, routes) in named.iter().filter(|(_, routes)| routes.contains(&begun.route)) {
            let of_all: Vec<&Seen> = beside.iter().filter(|seen| routes.contains(&seen.route)).collect();
            if of(&of_all, &|route| shared_by(route, name)?.in_flight) {
                broken.push(format!("limits hold: {} calls in flight of {name} with {}", of_all.len(), begun.key));
            }
        }
        if of(&of_target, &|route| route.for_target(&target).in_flight) {
            broken.push(format!("limits hold: {} calls in flight for {target} with {}", of_target.len(), begun.key));
        }
    }
    broken
}

fn too_often(world: &World) -> Vec<String> {
    let named = named(world);
    let mut calls: BTreeMap<Scope, Vec<(u64, RouteName)>> = BTreeMap::new();
    for seen in world.downstream.ledger() {
        let at = world.env.moment(seen.at).0;
        let of_route = [Scope::Target(Target::of(&seen.route, &seen.target)), Scope::Route(seen.route.clone())];
        let shared = named.iter().filter(|(_, routes)| routes.contains(&seen.route));
        for scope in of_route.into_iter().chain(shared.map(|(name, _)| Scope::Limit(name.clone()))) {
            calls.entry(scope).or_default().push((at, seen.route.clone()));
        }
    }
    let too_near = |(scope, calls): (Scope, Vec<(u64, RouteName)>)| {
        let rates = |route: &Route| match &scope {
            Scope::Route(_) => Some(route.rates),
            Scope::Target(target) => Some(route.for_target(target).rates),
            Scope::Limit(name) => shared_by(route, name).map(|limits| limits.rates),
        };
        nearer_than(world, &calls, rates)
    };
    calls.into_iter().flat_map(too_near).collect()
}

/// Calls that came nearer to each other than these rates of their routes allowed then.
fn nearer_than(
    world: &World,
    calls: &[(u64, RouteName)],
    rates: impl Fn(&Route) -> Option<gate::Rates>,
) -> Vec<String> {
    // From the gate to the call a process claims, reads its members and looks at the gate again.
    let slack_ms = 8 * world.setting().latency_ms;
    // The greatest rate is the smallest gap.
    let gap_ms = |route: &Route| rates(route)?.even().gap_ms().map(Reverse);
    let early = |from: usize, to: usize| {
        let ((begun, _), (ended, _)) = (&calls[from], &calls[to]);
        let routes = calls[from..=to].iter().map(|(_, route)| route);
        let gap_ms = loosest_of(world, routes, (*begun, *ended), gap_ms);
        gap_ms.is_some_and(|Reverse(gap_ms)| ended + slack_ms < begun + gap_ms * (to - from) as u64)
    };
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
        let heeded = heeded_from(world, from);
        for seen in world.downstream.ledger() {
            let at = world.env.moment(seen.at).0;
            let concerned = match &scope {
                Scope::Route(route) => *route == seen.route,
                Scope::Target(target) => *target == Target::of(&seen.route, &seen.target),
                Scope::Limit(_) => false,
            };
            if concerned && at > heeded && at < *until {
                broken.push(format!("limits hold: {} was called at {at}, in the pause until {until}", seen.key));
            }
        }
    }
    broken
}
