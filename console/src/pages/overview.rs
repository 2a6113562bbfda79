//! The page that stays open: what waits and why, what needs a person, and the pipeline at work.

use groupage_aws::desk::{Depth, NOTIFICATIONS};
use groupage_core::domain::failed::Wanted;
use groupage_core::domain::why::Seen;
use groupage_core::domain::{RouteName, Timestamp};
use maud::{Markup, html};

use super::figures;
use super::target::{places, rate, standing};
use super::targets;
use crate::backend::{BUDGET, Trouble, Visit};
use crate::chart::{self, Stage};
use crate::page::{Page, id, table, time};
use crate::view::{Kind, View};
use crate::words::grouped;

/// Targets that are listed.
const TARGETS: usize = 12;
/// Routes whose gates are read, if the page may read so much.
const ROUTES: usize = 40;
/// Routes whose gates are read in any case.
const FIRST: usize = 10;
/// Routes of which it is looked whether tasks failed: each costs a look into sixteen parts.
const ROUTES_FAILED: usize = 6;
/// Read units that are kept for that.
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
    let needs = needs(visit, &depths, &gates).await?;
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

async fn needs(visit: &Visit<'_>, depths: &[Depth], gates: &[(RouteName, Seen)]) -> Result<Vec<Need>, Trouble> {
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
    for (target, held) in gates.iter().flat_map(|(_, seen)| &seen.gate.health.targets) {
        let what =
            html! { "Target " (crate::page::target(target)) ": held by a person since " (time(held.since, visit.now)) };
        needs.push(Need { what });
    }
    let mut spending = visit.spending(0.0);
    for route in visit.routes.iter().flat_map(|routes| routes.iter()).take(ROUTES_FAILED) {
        if !spending.affords_one() {
            break;
        }
        let (target, reason) = (None, None);
        let wanted = Wanted { route: route.name.clone(), target, reason, from: Timestamp(0), until: visit.now };
        let failed = visit.failing().list(&wanted.kept_for(route.keep_failed_ms, visit.now), None, 1).await?;
        if let Some(first) = failed.tasks.first() {
            let what = html! {
                a href=(View::of(Kind::Failed).with("route", route.name.as_str()).address()) {
                    "tasks of route " (id(route.name.as_str()))
                }
                " failed, the first of them " (time(first.filed.at, visit.now))
                ": " (crate::page::task(&first.filed.id)) ", " (id(first.reason.as_str()))
            };
            needs.push(Need { what });
        }
    }
    Ok(needs)
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
            rate(seen, visit.now),
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
