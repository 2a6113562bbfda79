//! The pages: each reads what it shows, a bounded part of it, and words it.

mod batch;
mod ended;
mod failed;
mod figures;
mod held;
mod overview;
mod routes;
mod search;
mod target;
mod targets;
mod task;
mod trackers;
mod versions;

use maud::{Markup, html};

use crate::backend::{Console, Visit};
use crate::page::Page;
use crate::view::{Kind, View};

/// What a look came to.
pub enum Shown {
    /// A page.
    Page(Page),
    /// What was looked for has a page of its own.
    Elsewhere(View),
}

/// Shows a page, with what it read at its end.
pub async fn show(console: &Console, view: &View) -> Shown {
    let visit = match console.visit().await {
        Ok(visit) => visit,
        Err(trouble) => return Shown::Page(Page::refused(&trouble)),
    };
    let shown = match view.kind {
        Kind::Overview => overview::show(&visit).await,
        Kind::Routes => routes::show(&visit).await,
        Kind::Targets => targets::show(&visit, view).await,
        Kind::Target => target::show(&visit, view).await,
        Kind::Batch => batch::show(&visit, view).await,
        Kind::Task => task::show(&visit, view).await,
        Kind::Failed => failed::show(&visit, view).await,
        Kind::Ended => ended::show(&visit, view).await,
        Kind::Trackers => trackers::all(&visit).await,
        Kind::Tracker => trackers::one(&visit, view).await,
        Kind::Held => held::all(&visit).await,
        Kind::List => held::list(&visit, view).await,
        Kind::Lane => held::lane(&visit, view).await,
        Kind::Stream => held::stream(&visit, view).await,
        Kind::Search => match search::show(&visit, view).await {
            Ok(Shown::Elsewhere(view)) => return Shown::Elsewhere(view),
            Ok(Shown::Page(page)) => Ok(page),
            Err(trouble) => Err(trouble),
        },
    };
    let mut page = shown.unwrap_or_else(|trouble| Page::refused(&trouble));
    match page.is_live {
        true => page.live = html! { (page.live) (cost(&visit)) },
        false => page.still = html! { (page.still) (cost(&visit)) },
    }
    Shown::Page(page)
}

/// What a page read.
fn cost(visit: &Visit<'_>) -> Markup {
    html! { p.cost { "This page read " (visit.read_units()) " read units in " (visit.took_ms()) " ms." } }
}
