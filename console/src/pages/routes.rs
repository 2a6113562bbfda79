//! The routes in force: what each says, and the gate before its calls.

use groupage_core::domain::Timestamp;
use groupage_core::domain::gate::Scope;
use groupage_core::domain::why::Seen;
use groupage_core::routes::{Route, Settings};
use maud::{Markup, html};

use super::target::{places, rate, standing};
use crate::acts::hold;
use crate::backend::{Trouble, Visit};
use crate::page::{Page, facts, id, time};
use crate::view::{Kind, View};
use crate::words::span;

/// Read units that are kept for the versions of the file. As many gates are read as the others allow.
const FOR_VERSIONS: f64 = 20.0;

/// Shows them.
pub async fn show(visit: &Visit<'_>) -> Result<Page, Trouble> {
    let stored = visit.stored_routes().await?;
    let (mut shown, mut forms) = (Vec::new(), Vec::new());
    let mut spending = visit.spending(FOR_VERSIONS);
    for route in visit.routes.iter().flat_map(|routes| routes.iter()) {
        let mut rows = settings(route);
        if spending.affords_one() {
            let seen = visit.looking().route_gate(route).await?;
            rows.extend(gate(&seen, visit.now));
            let scope = Scope::Route(route.name.clone());
            forms.push((route.name.clone(), hold::form(visit, &scope, &[seen], visit.now)));
        }
        for named in route.named.iter().filter(|_| spending.affords_one()) {
            let seen = visit.looking().named_gate(named).await?;
            let shared =
                html! { (id(named.name.as_str())) ": " (rate(&seen)) "; in flight " (places(&seen, visit.now)) };
            rows.push(("limit that it shares", shared));
        }
        shown.push((route.name.clone(), rows));
    }
    let in_force = stored.as_ref().map(|stored| {
        html! {
            p {
                "Version " (stored.version) ", pushed " (time(stored.pushed_at, visit.now))
                ". Functions take a new one over within a minute."
            }
        }
    });
    let versions = match stored {
        Some(stored) => Some(super::versions::show(visit, stored).await?),
        None => None,
    };
    let live = html! {
        h1 { "Routes" }
        @if let Some(in_force) = in_force {
            (in_force)
        } @else {
            p.problem { "No routes file is pushed yet: " code { "groupage push routes.yaml" } }
        }
        @for (name, rows) in shown {
            h2 { (id(name.as_str())) }
            p {
                a href=(View::of(Kind::Targets).with("route", name.as_str()).address()) { "What waits" } " · "
                a href=(View::of(Kind::Failed).with("route", name.as_str()).address()) { "What failed" }
            }
            (facts(rows))
        }
        @if let Some(versions) = versions { (versions) }
    };
    let still = html! {
        @if !forms.is_empty() { h2 { "Hold calls back, and let them go on" } }
        @for (name, form) in forms { h3 { (id(name.as_str())) } (form) }
    };
    Ok(Page::live("Routes", live).with_still(still))
}

fn gate(seen: &Seen, now: Timestamp) -> [(&'static str, Markup); 3] {
    [("calls in flight", places(seen, now)), ("rate", rate(seen)), ("standing", standing(seen, now))]
}

fn settings(route: &Route) -> Vec<(&'static str, Markup)> {
    let (what, which) = route.downstream.named();
    let downstream = html! { (what) @if let Some(which) = which { " " (id(which)) } };
    let mut rows = vec![
        ("downstream", downstream),
        ("batch", html! { (batch(route.usual())) @if !route.express { "; tasks that fill one wait their turn" } }),
        ("retries", html! { (retries(route)) }),
        ("failed tasks are kept", html! { (span(route.keep_failed_ms)) }),
    ];
    if let Some(most) = route.usual().in_flight {
        rows.push(("calls in flight for one Target", html! { "at most " (most) }));
    }
    let rates = |settings: &Settings| settings.rates.to_string();
    if !route.usual().rates.is_none() {
        rows.push(("calls for one Target", html! { (rates(route.usual())) }));
    }
    let exceptions: Vec<_> = route.exceptions().collect();
    if !exceptions.is_empty() {
        rows.push((
            "some Targets have their own",
            html! {
                @for (names, settings) in exceptions {
                    div {
                        (id(&names)) ": " (batch(settings))
                        @match (settings.in_flight, route.usual().in_flight) {
                            (Some(most), _) => { "; at most " (most) " calls in flight" }
                            (None, Some(_)) => { "; any number of calls in flight" }
                            (None, None) => {}
                        }
                        @match (settings.rates.is_none(), route.usual().rates.is_none()) {
                            (false, _) => { "; " (rates(settings)) }
                            (true, false) => { "; calls at any rate" }
                            (true, true) => {}
                        }
                    }
                }
            },
        ));
    }
    rows.extend(route.readings().map(|(option, expression)| (option, html! { code { (expression) } })));
    if route.shares() {
        rows.push(("limits", html! { "Targets take turns" }));
    }
    if route.shards > 1 {
        rows.push(("shards", html! { (route.shards) }));
    }
    if route.is_ordered() {
        rows.push(("order", html! { "tasks of one key follow each other" }));
    }
    rows
}

/// How much one call carries, and when a batch ends that is not full.
fn batch(settings: &Settings) -> Markup {
    let batch = &settings.batch;
    html! {
        "at most " (batch.max_items) " tasks and " (batch.max_bytes) " bytes; waits " (span(batch.wait_ms))
        " to be full"
        @if let Some(least) = batch.min_items { ", or to have " (least) }
        @if let Some(quiet_ms) = batch.quiet_ms { ", or for " (span(quiet_ms)) " without a task" }
        @if let Some(most) = batch.max_weight { "; weighs at most " (most) }
        @if let Some(closing) = &settings.closing { "; windows close at " code { (closing.to_string()) } }
    }
}

/// How often a call is made, and the longest pauses in between.
fn retries(route: &Route) -> String {
    let pauses: Vec<String> = (1..route.retry.attempts)
        .take(6)
        .map(|attempt| span(route.retry.base_ms.saturating_mul(1 << (attempt - 1)).min(route.retry.cap_ms)))
        .collect();
    let more = if route.retry.attempts > 7 { ", …" } else { "" };
    match pauses.is_empty() {
        true => "one call".to_owned(),
        false => format!("{} calls, with pauses of at most {}{more}", route.retry.attempts, pauses.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::routes::Routes;

    use super::*;

    #[test]
    fn what_shapes_a_batch_is_shown() {
        let yaml = "version: 1\nroutes: [{ name: r, target: t, downstream: pull, priority: urgency, limits: { in_flight: \
                    1, share: { by: target } }, batch: { weight: kilos, max_weight: 70, quiet_ms: 2000, min_items: 3, \
                    close_when: last } }]";
        let routes = Routes::parse(yaml).unwrap();
        let shown: Vec<String> =
            settings(routes.iter().next().unwrap()).into_iter().map(|(name, is)| format!("{name}: {}", is.0)).collect();
        for row in [
            "batch: at most 100 tasks and 1000000 bytes; waits 1 s to be full, or to have 3, or for 2 s without a task; \
             weighs at most 70",
            "weight: <code>kilos</code>",
            "close_when: <code>last</code>",
            "priority: <code>urgency</code>",
            "limits: Targets take turns",
        ] {
            assert!(shown.iter().any(|shown| shown == row), "{row}\n{shown:#?}");
        }
    }

    #[test]
    fn how_often_a_target_is_called_is_shown() {
        let yaml = "version: 1\nroutes: [{ name: r, target: t, downstream: pull, limits: { calls_per_second_per_target: \
                    1 }, targets: [{ match: acme, limits: { calls_per_second_per_target: 4 } }, { match: own, limits: { \
                    calls_per_second_per_target: null } }] }]";
        let routes = Routes::parse(yaml).unwrap();
        let shown: Vec<String> =
            settings(routes.iter().next().unwrap()).into_iter().map(|(name, is)| format!("{name}: {}", is.0)).collect();
        assert!(shown.iter().any(|shown| shown == "calls for one Target: 1 call a second"), "{shown:#?}");
        assert!(shown.iter().any(|shown| shown.contains("; 4 calls a second")), "{shown:#?}");
        assert!(shown.iter().any(|shown| shown.contains("; calls at any rate")), "{shown:#?}");
    }

    #[test]
    fn the_pauses_double_up_to_the_longest() {
        let of = |retry: &str| {
            let yaml = format!("version: 1\nroutes: [{{ name: r, target: t, downstream: pull, retry: {retry} }}]");
            retries(Routes::parse(&yaml).unwrap().iter().next().unwrap())
        };
        assert_eq!(of("{ attempts: 4, base_ms: 1000, cap_ms: 3000 }"), "4 calls, with pauses of at most 1 s, 2 s, 3 s");
        assert_eq!(of("{ attempts: 1 }"), "one call");
        assert!(of("{ attempts: 50 }").ends_with("32 s, …"));
    }
}
