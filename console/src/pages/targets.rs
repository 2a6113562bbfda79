//! What waits, by Target: those first that have most tasks.

use groupage_core::domain::{RouteName, Timestamp};
use groupage_core::steps::look::{Crowd, Group};
use maud::{Markup, html};

use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, bar, reason, table, time};
use crate::view::{Kind, View};
use crate::words::counted;

/// Targets that are listed.
const LISTED: usize = 50;

/// Shows them, of one route or of all.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let route = view.get("route").map(RouteName::new);
    let crowd = visit.looking().crowd(route.as_ref()).await?;
    let routes = visit.routes.iter().flat_map(|routes| routes.iter());
    let live = html! {
        h1 { "Targets" }
        nav aria-label="Routes" {
            a href=(View::of(Kind::Targets).address()) aria-current=[route.is_none().then_some("true")] { "all routes" }
            @for one in routes {
                a href=(View::of(Kind::Targets).with("route", one.name.as_str()).address())
                    aria-current=[(route.as_ref() == Some(&one.name)).then_some("true")] { (one.name) }
            }
        }
        (listed(&crowd, LISTED, visit))
    };
    Ok(Page::live("Targets", live))
}

/// The first Targets of a crowd, as a table.
pub fn listed(crowd: &Crowd, most: usize, visit: &Visit<'_>) -> Markup {
    let rows = crowd.groups.iter().take(most).map(|group| row(group, crowd.is_all, visit)).collect();
    html! {
        (table("What waits, and why", &["Target", "tasks", "since", "waits for", "batches"], rows, "Nothing waits."))
        @if !crowd.is_all {
            p.note {
                "A sample: some of the waiting tasks, those that fall due next, and of each route the batches that have \
                 been due for longest. There may be more tasks, and more Targets."
            }
        }
        @if crowd.groups.len() > most { p { "The first " (most) " of " (counted(crowd.groups.len(), crowd.is_all)) " Targets are listed." } }
    }
}

fn row(group: &Group, is_all: bool, visit: &Visit<'_>) -> Vec<Markup> {
    let now = visit.now;
    let route = visit.routes.as_ref().and_then(|routes| routes.get(&group.target.route()));
    let most = route.map(|route| route.for_target(&group.target).batch.max_items);
    vec![
        page::target(&group.target),
        html! { (counted(group.tasks(), is_all)) },
        since(group, now),
        reasons(group, now),
        html! {
            @for one in &group.batches {
                div {
                    (page::batch(&one.batch.id)) " "
                    @if let Some(most) = most { (bar(one.batch.members.len(), most, "tasks in the batch")) " " }
                    (page::count(one.batch.members.len())) " tasks"
                }
            }
        },
    ]
}

/// Since when its first task has waited, or its first batch.
fn since(group: &Group, now: Timestamp) -> Markup {
    let oldest = group.oldest.into_iter().chain(group.batches.iter().map(|one| one.batch.created_at)).min();
    html! { @if let Some(oldest) = oldest { (time(oldest, now)) } }
}

fn reasons(group: &Group, now: Timestamp) -> Markup {
    html! { @for why in group.reasons() { div { (reason(why, now)) } } }
}
