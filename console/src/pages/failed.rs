//! Failed tasks: found by route and reason, chosen, and run again or dropped.

use std::collections::BTreeMap;

use groupage_core::domain::failed::Filter;
use groupage_core::domain::{Failed, Reason, RouteName};
use groupage_core::steps::failed::Search;
use maud::{Markup, html};

use crate::acts::{How, because, button, hidden, refusal};
use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, id, time};
use crate::view::{Kind, ROOT, View};

/// Tasks of one page.
const LISTED: usize = 100;
/// Tasks of one look, which reads as many of each of sixteen parts.
const AT_ONCE: usize = 25;

/// Shows them, of one route or reason or of all.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let filter = Filter {
        route: view.get("route").map(RouteName::new),
        reason: view.get("reason").map(Reason::new),
        ..Filter::default()
    };
    let Some(routes) = &visit.routes else {
        return Ok(Page::still("Failed", html! { h1 { "Failed" } p { "No routes yet." } }));
    };
    let mut search = Search::new(routes, &filter, visit.now).map_err(|why| Trouble::Unknown(why.to_string()))?;
    let (mut found, mut spending): (Vec<Failed>, _) = (Vec::new(), visit.spending(0.0));
    while found.len() < LISTED && !search.is_over() && spending.affords_one() {
        found.extend(search.look(&visit.failing(), AT_ONCE.min(LISTED - found.len())).await?.unwrap_or_default());
    }
    let still = html! {
        h1 { "Failed tasks" }
        (choice(visit, &filter))
        (by_reason(visit, &filter, &found, search.is_over()))
        (listed(visit, &found, search.is_over()))
        @if spending.ran_out() { p { "Not all was looked through: choose a route, or a reason." } }
    };
    Ok(Page::still("Failed", still))
}

/// Which route to look at.
fn choice(visit: &Visit<'_>, filter: &Filter) -> Markup {
    html! {
        nav aria-label="Routes" {
            a href=(View::of(Kind::Failed).address()) aria-current=[filter.route.is_none().then_some("true")] { "all routes" }
            @for one in visit.routes.iter().flat_map(|routes| routes.iter()) {
                a href=(View::of(Kind::Failed).with("route", one.name.as_str()).address())
                    aria-current=[(filter.route.as_ref() == Some(&one.name)).then_some("true")] { (one.name) }
            }
        }
        @if let Some(reason) = &filter.reason { p { "Of the reason " (id(reason.as_str())) "." } }
    }
}

/// How many there are of each reason, and what can be done with all of them.
fn by_reason(visit: &Visit<'_>, filter: &Filter, found: &[Failed], are_all: bool) -> Markup {
    let mut reasons: BTreeMap<(RouteName, Reason), usize> = BTreeMap::new();
    for failed in found {
        *reasons.entry((failed.target.route(), failed.reason.clone())).or_default() += 1;
    }
    let until = visit.now.0.to_string();
    let rows = reasons.iter().map(|((route, reason), count)| {
        let mut view = View::of(Kind::Failed).with("reason", reason.as_str());
        if filter.route.is_some() {
            view = view.with("route", route.as_str());
        }
        let of_all = |how: How, label: &str| {
            let fields = [
                ("act", how.word()),
                ("all", "yes"),
                ("route", route.as_str()),
                ("reason", reason.as_str()),
                ("until", &until),
            ];
            button(visit, &fields, label)
        };
        vec![
            id(route.as_str()),
            html! { a href=(view.address()) { (id(reason.as_str())) } },
            html! { (page::count(*count)) @if !are_all { " or more" } },
            html! { div.acts { (of_all(How::Retry, "Retry all")) (of_all(How::Drop, "Drop all")) } },
        ]
    });
    page::table("By reason", &["route", "reason", "tasks", "all of them"], rows.collect(), "No failed task is listed.")
}

/// The tasks, each to be chosen.
fn listed(visit: &Visit<'_>, found: &[Failed], are_all: bool) -> Markup {
    let rows = found.iter().map(|failed| {
        let task = failed.filed.id.as_str();
        let answer = failed.answer.as_ref().map(|answer| answer.status.to_string()).unwrap_or_default();
        vec![
            html! { input type="checkbox" name="id" value=(task) aria-label={ "Choose " (task) }; },
            page::task(&failed.filed.id),
            page::target(&failed.target),
            id(failed.reason.as_str()),
            html! { (answer) },
            html! { (failed.attempts) },
            time(failed.filed.at, visit.now),
        ]
    });
    let columns = ["", "task", "Target", "reason", "answered", "calls", "failed"];
    html! {
        form method="post" action={ (ROOT) "/act" } {
            (hidden(&Vec::new()))
            (page::table("Tasks, those first that failed first", &columns, rows.collect(), "There are none."))
            @if !found.is_empty() {
                @let refusal = refusal(visit, How::Retry.word());
                div.acts {
                    button name="act" value=(How::Retry.word()) disabled[refusal.is_some()] { "Retry the chosen" }
                    button name="act" value=(How::Drop.word()) disabled[refusal.is_some()] { "Drop the chosen" }
                    (because(refusal))
                }
            }
        }
        @if !are_all { p { "The first " (page::count(found.len())) " are listed." } }
    }
}
