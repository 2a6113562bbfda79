//! One Target: what waits, why, its leader, its open batch, and the gates before its calls.

use groupage_core::domain::gate::{CallState, Scope};
use groupage_core::domain::why::Seen;
use groupage_core::domain::{Target, Timestamp};
use groupage_core::steps::look::{OneShard, OneTarget};
use maud::{Markup, html};

use super::batch;
use crate::acts::{button, hold};
use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, bar, facts, id, reason, table, text, time};
use crate::states;
use crate::view::View;
use crate::words::counted;

/// Waiting tasks that are listed.
const LISTED: usize = 50;

/// Shows it.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = Target::new(view.id());
    let found = visit.looking().target(&name).await?;
    let unknown = || Trouble::Unknown(format!("no route has the Target {name}; a Target is ROUTE:VALUE"));
    let one = found.ok_or_else(unknown)?;
    let live = html! {
        h1 { "Target " (id(name.whole().as_str())) }
        (facts(summary(visit, &one)))
        (batches(visit, &one))
        (gates(&one.gates, visit.now))
        @if one.shards.len() > 1 { (shards(&one, visit.now)) }
        (waiting(&one))
    };
    let hold = hold::form(visit, &Scope::Target(name.whole()), &one.gates, visit.now);
    let cancel = [("act", "cancel"), ("target", one.target.as_str())];
    let still = html! {
        (hold)
        @if one.waiting().0 > 0 { (button(visit, &cancel, "Cancel all that wait for a batch")) }
    };
    Ok(Page::live(format!("Target {name}"), live).with_still(still))
}

fn summary<'a>(visit: &Visit<'_>, one: &OneTarget) -> Vec<(&'a str, Markup)> {
    let (count, more) = one.waiting();
    let mut rows = vec![
        ("waiting for a batch", html! { (counted(count, !more)) " tasks" }),
        ("in batches", html! { (counted(one.in_batches(), one.is_all)) " tasks" }),
    ];
    if let (scheduled, Some(next)) = &one.scheduled {
        rows.push((
            "scheduled",
            html! { (counted(*scheduled, one.is_all)) " tasks; the next waits for " (reason(next, visit.now)) },
        ));
    }
    let Some(home) = one.shards.first() else { return rows };
    if let Some(why) = one.shards.iter().find_map(|shard| shard.why.as_ref()) {
        rows.push(("they wait for", reason(why, visit.now)));
    }
    rows.extend(leader(home, visit.now));
    if let Some(open) = &home.open {
        rows.push(("open batch", html! { (page::batch(&open.id)) " " (states::batch(open, None)) }));
        rows.extend(batch::filling(visit, open).map(|(_, bar)| ("filling up", bar)));
    }
    rows
}

fn batches(visit: &Visit<'_>, one: &OneTarget) -> Markup {
    let rows = one.batches.iter().map(|one| {
        let filling = batch::filling(visit, &one.batch).map_or_else(|| html! {}, |(_, bar)| bar);
        let why = one.why.as_ref().map_or_else(|| html! { "nothing" }, |why| reason(why, visit.now));
        vec![page::batch(&one.batch.id), html! { (states::batch(&one.batch, one.why.as_ref())) }, filling, why]
    });
    let columns = ["batch", "status", "tasks", "waits for"];
    table("Batches that have been due for longest", &columns, rows.collect(), "None is unfinished.")
}

fn leader(shard: &OneShard, now: Timestamp) -> Option<(&'static str, Markup)> {
    let holder = shard.lock.as_ref()?.holder.as_ref()?;
    let lease = html! { (id(holder.workflow.as_str())) ", trusted until " (time(holder.lease_until, now)) };
    let since = html! { "; the first of its tasks waited since " (time(holder.waits_since, now)) };
    Some(("leader", html! { (lease) (since) }))
}

/// What lets calls through, and what holds them back.
pub fn gates(gates: &[Seen], now: Timestamp) -> Markup {
    let rows = gates.iter().map(|seen| {
        let whose = match &seen.of {
            Scope::Route(_) => "all calls of the route".to_owned(),
            Scope::Target(_) => "calls for this Target".to_owned(),
            Scope::Limit(limit) => format!("the limit {limit}"),
        };
        vec![html! { (whose) }, places(seen, now), rate(seen), standing(seen, now)]
    });
    let columns = ["gate", "calls in flight", "rate", "standing"];
    table("Gates before its calls", &columns, rows.collect(), "Its route is gone: nothing is known of its gates.")
}

/// Places in flight, taken and in all.
pub fn places(seen: &Seen, now: Timestamp) -> Markup {
    let taken = seen.gate.permits.leases.values().filter(|lease| **lease > now).count();
    match seen.limits.in_flight {
        Some(most) => html! { (bar(taken, most, "calls in flight")) " " (taken) " of " (most) },
        None => html! { "no limit" },
    }
}

/// Calls a second, and how many wait for their time.
pub fn rate(seen: &Seen) -> Markup {
    let waiting = seen.gate.waiting();
    html! {
        @if seen.limits.rates.is_none() { "no limit" } @else { (seen.limits.rates.to_string()) }
        @if waiting > 0 { "; " (waiting) " in line" }
    }
}

/// Whether calls are held back now, and how they fare.
pub fn standing(seen: &Seen, now: Timestamp) -> Markup {
    match seen.gate.call_state(now) {
        CallState::Well => html! { "well" },
        CallState::Held { since, reason } => html! {
            strong { "held by a person" } " since " (time(since, now)) @if let Some(reason) = reason { ": " (text(&reason)) }
        },
        CallState::Away { since, reason, next_probe } => html! {
            strong { "the downstream is away" } " since " (time(since, now)) ": " (id(reason.as_str())) "; next probe "
            (time(next_probe, now))
        },
        CallState::Paused { until } => html! { strong { "paused" } ", ends " (time(until, now)) },
        CallState::InTrouble { since, reason, failures } => html! {
            strong { "in trouble" } " since " (time(since, now)) ": " (failures) " calls failed, " (id(reason.as_str()))
        },
        CallState::Draining { since } => html! { "goes on slowly since " (time(since, now)) },
    }
}

fn shards(one: &OneTarget, now: Timestamp) -> Markup {
    let rows = one.shards.iter().map(|shard| {
        let waiting = html! { (counted(shard.waiting.len(), !shard.more)) };
        let why = shard.why.as_ref().map_or_else(|| html! { "nothing waits" }, |why| reason(why, now));
        let leader = leader(shard, now).map_or_else(|| html! { "none" }, |(_, leader)| leader);
        vec![html! { (shard.shard) }, waiting, why, leader]
    });
    table("Shards", &["shard", "waiting", "waits for", "leader"], rows.collect(), "")
}

fn waiting(one: &OneTarget) -> Markup {
    let tasks = one.shards.iter().flat_map(|shard| &shard.waiting);
    let rows =
        tasks.take(LISTED).map(|task| vec![page::task(&task.id), html! { (task.round) }, html! { (task.bytes) }]);
    let (count, _) = one.waiting();
    html! {
        (table("Waiting tasks", &["task", "round", "bytes"], rows.collect(), "No task waits here now."))
        @if count > LISTED { p { "The first " (LISTED) " are listed." } }
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::gate::{Limits, Rate, Rates};
    use groupage_core::domain::id::LimitName;
    use groupage_core::domain::{BatchId, Gate};

    use super::*;

    #[test]
    fn a_gate_says_what_is_taken_and_whether_it_is_paused() {
        let now = Timestamp(1_000);
        let mut gate = Gate { paused_until: Timestamp(4_000), ..Gate::default() };
        gate.permits.leases.insert(BatchId::new("b"), Timestamp(2_000));
        gate.permits.leases.insert(BatchId::new("gone"), now);
        let seen = Seen {
            of: Scope::Limit(LimitName::new("tokens")),
            limits: Limits {
                in_flight: Some(2),
                rates: Rates::of([Rate { amount: 10, ..Rate::every(1_000) }]),
                ..Limits::default()
            },
            gate,
        };
        assert!(places(&seen, now).into_string().ends_with(" 1 of 2"));
        assert_eq!(rate(&seen).into_string(), "10 calls a second");
        assert!(standing(&seen, now).into_string().contains("in 3 s"));
        assert_eq!(standing(&seen, Timestamp(4_000)).into_string(), "well");
    }
}
