//! The page that stays open: what waits and why, what needs a person, and the pipeline at work.

use std::sync::PoisonError;

use groupage_aws::desk::{Depth, NOTIFICATIONS};
use groupage_core::domain::failed::Wanted;
use groupage_core::domain::why::Seen;
use groupage_core::domain::{Failed, RouteName, Timestamp};
use groupage_core::routes::Route;
use groupage_core::steps::look::Crowd;
use maud::{Markup, html};

use super::figures;
use super::target::{places, rate, standing};
use super::targets;
use crate::backend::{BUDGET, Trouble, Visit};
use crate::chart::{self, Stage};
use crate::page::{Page, id, table, time};
use crate::view::{Kind, View};
use crate::words::{counted, grouped};

/// Targets that are listed.
const TARGETS: usize = 12;
/// Routes whose gates are read, if the page may read so much.
const ROUTES: usize = 40;
/// Routes whose gates are read in any case.
const FIRST: usize = 10;
/// Read units that are kept to look for failed tasks: for each route that costs a look into sixteen parts.
const FOR_FAILED: f64 = 20.0;
/// The steps behind the queues, in their order.
const STEPS: [&str; 5] = ["register-task", "register-task", "elect-leader", "group-batch", "batch-handler"];

/// Something that a person should look into.
struct Need {
    what: Markup,
}

/// Shows it.
pub async fn show(visit: &Visit<'_>) -> Result<Page, Trouble> {
    visit.console.note();
    let looking = visit.looking();
    let (depths, crowd, told) = futures::try_join!(
        async { Ok::<_, Trouble>(visit.desk().depths().await?) },
        async { Ok(looking.crowd(None).await?) },
        async { Ok(figures::ask(visit).await) },
    )?;
    let gates = gates(visit).await?;
    let mut needs = needs(visit, &depths, &gates);
    needs.extend(hidden(&crowd));
    needs.extend(failed(visit).await?);
    let live = html! {
        h1 { "Overview" }
        @if visit.routes.is_none() {
            p.problem role="alert" { "No routes file is pushed yet: " code { "groupage push routes.yaml" } }
        }
        (person(&needs))
        (targets::listed(&crowd, TARGETS, visit))
        @if crowd.groups.len() > TARGETS { p { a href=(View::of(Kind::Targets).address()) { "All Targets" } } }
        (routes(visit, &gates))
        (pipeline(&depths))
        (figures::show(visit, &crowd, told.as_ref()))
    };
    Ok(Page::live("Overview", live))
}

/// The gates of the first routes, as many as the page may read.
async fn gates(visit: &Visit<'_>) -> Result<Vec<(RouteName, Seen)>, Trouble> {
    let mut routes = visit.routes.iter().flat_map(|routes| routes.iter());
    let (mut gates, mut spending) = (Vec::new(), visit.spending(FOR_FAILED));
    while gates.len() < ROUTES
        && (spending.affords_one() || gates.len() < FIRST)
        && let Some(route) = routes.next()
    {
        gates.push((route.name.clone(), visit.looking().route_gate(route).await?));
    }
    Ok(gates)
}

fn needs(visit: &Visit<'_>, depths: &[Depth], gates: &[(RouteName, Seen)]) -> Vec<Need> {
    let mut needs = Vec::new();
    for depth in depths.iter().filter(|depth| is_ended(depth) && depth.all() > 0) {
        let address = View::of(Kind::Ended).with("queue", &depth.queue).address();
        let what =
            html! { strong { (grouped(depth.all())) } " messages ended in " a href=(address) { (id(&depth.queue)) } };
        needs.push(Need { what });
    }
    for (route, seen) in gates.iter().filter(|(_, seen)| seen.closed(visit.now).is_some()) {
        let address = View::of(Kind::Routes).address();
        let what = html! { a href=(address) { "route " (id(route.as_str())) } ": " (standing(seen, visit.now)) };
        needs.push(Need { what });
    }
    for (target, held) in gates.iter().flat_map(|(_, seen)| &seen.gate.pauses.targets) {
        let what =
            html! { "Target " (crate::page::target(target)) ": held by a person since " (time(held.since, visit.now)) };
        needs.push(Need { what });
    }
    needs
}

/// The things that nothing moves before a person does: order keys that stand still, and tasks whose route is gone.
fn hidden(crowd: &Crowd) -> Vec<Need> {
    let stopped = crowd.stopped.iter().map(|lane| {
        let (route, key) = (lane.route(), lane.key());
        let address = View::of(Kind::Lane).with("route", route.as_str()).with("id", key).address();
        html! { a href=(address) { "order key " (id(key)) } " of route " (id(route.as_str())) " stands still" }
    });
    let unrouted = crowd.unrouted().into_iter().map(|(route, tasks)| {
        html! {
            strong { (counted(tasks, crowd.is_all)) } " tasks wait for the route " (id(route.as_str()))
            ", which the routes file does not have: put it back, or cancel them"
        }
    });
    stopped.chain(unrouted).map(|what| Need { what }).collect()
}

/// Failed tasks of all routes. One look goes through as many routes as the page may read, one at least, and the next
/// goes on behind them.
async fn failed(visit: &Visit<'_>) -> Result<Vec<Need>, Trouble> {
    let routes: Vec<&Route> = visit.routes.iter().flat_map(|routes| routes.iter()).collect();
    let kept = || visit.console.failed.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, mut spending) = (kept().0, visit.spending(0.0));
    for (place, route) in (begin..).zip(routes.iter().cycle().skip(begin % routes.len().max(1)).take(routes.len())) {
        if !spending.affords_one() && place > begin {
            break;
        }
        let (target, reason) = (None, None);
        let wanted = Wanted { route: route.name.clone(), target, reason, from: Timestamp(0), until: visit.now };
        let found = visit.failing().list(&wanted.kept_for(route.keep_failed_ms, visit.now), None, 1).await?;
        let mut kept = kept();
        kept.1.insert(route.name.clone(), found.tasks.into_iter().next());
        kept.0 = (place + 1) % routes.len();
    }
    let mut kept = kept();
    kept.1.retain(|name, _| routes.iter().any(|route| route.name == *name));
    let failed = kept.1.iter().filter_map(|(name, first)| Some((name, first.as_ref()?)));
    let mut needs: Vec<Need> = failed.map(|(name, first)| failed_of(name, first, visit.now)).collect();
    if kept.1.len() < routes.len() {
        let what = html! {
            "failed tasks were looked for in " (kept.1.len()) " of " (routes.len()) " routes so far: the next looks go on"
        };
        needs.push(Need { what });
    }
    Ok(needs)
}

fn failed_of(route: &RouteName, first: &Failed, now: Timestamp) -> Need {
    let what = html! {
        a href=(View::of(Kind::Failed).with("route", route.as_str()).address()) { "tasks of route " (id(route.as_str())) }
        " failed, the first of them " (time(first.filed.at, now))
        ": " (crate::page::task(&first.filed.id)) ", " (id(first.reason.as_str()))
    };
    Need { what }
}

/// Whether messages in this queue need a person.
fn is_ended(depth: &Depth) -> bool {
    depth.queue == groupage_aws::desk::REJECTED || depth.queue.ends_with("-dlq")
}

fn person(needs: &[Need]) -> Markup {
    html! {
        h2 { "What needs a person" }
        @if needs.is_empty() {
            p.none { "Nothing." }
        } @else {
            ul.needs { @for need in needs { li { (need.what) } } }
        }
    }
}

fn routes(visit: &Visit<'_>, gates: &[(RouteName, Seen)]) -> Markup {
    let rows = gates.iter().map(|(route, seen)| {
        let address = View::of(Kind::Targets).with("route", route.as_str()).address();
        vec![
            html! { a href=(address) { (id(route.as_str())) } },
            places(seen, visit.now),
            rate(seen),
            standing(seen, visit.now),
        ]
    });
    let all = visit.routes.iter().flat_map(|routes| routes.iter()).count();
    html! {
        (table("Routes", &["route", "calls in flight", "rate", "standing"], rows.collect(), "There are none yet."))
        @if gates.len() < all {
            p.note {
                "The first " (gates.len()) " of " (all) " routes: this page reads at most " (BUDGET) " read units. "
                a href=(View::of(Kind::Routes).address()) { "All routes" } "."
            }
        }
    }
}

fn pipeline(depths: &[Depth]) -> Markup {
    let stages: Vec<Stage> = depths
        .iter()
        .zip(STEPS)
        .map(|(depth, step)| Stage { queue: depth.queue.clone(), step, depth: depth.all() })
        .collect();
    let row = |depth: &Depth| {
        let step = stages.iter().find(|stage| stage.queue == depth.queue).map(|stage| stage.step);
        let read_by = match step {
            Some(step) => step,
            None if depth.queue == NOTIFICATIONS => "your program",
            None => "a person",
        };
        let [ready, in_flight, delayed] = [depth.ready, depth.in_flight, depth.delayed].map(grouped);
        vec![id(&depth.queue), html! { (read_by) }, html! { (ready) }, html! { (in_flight) }, html! { (delayed) }]
    };
    let rows = depths.iter().map(row).collect();
    html! {
        (table("Queues", &["queue", "read by", "ready", "in flight", "delayed"], rows, ""))
        div.scroll tabindex="0" role="region" aria-label="The pipeline" { (chart::pipeline(&stages)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ended_needs_a_person() {
        let depth = |queue: &str| Depth { queue: queue.to_owned(), ready: 1, in_flight: 0, delayed: 0 };
        assert!(is_ended(&depth("rejected")) && is_ended(&depth("handle-dlq")));
        assert!(!is_ended(&depth("tasks")) && !is_ended(&depth(NOTIFICATIONS)));
    }
}
