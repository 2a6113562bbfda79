//! Fan-outs: how far each tracker is, how fast it goes, and when it should be done.

use groupage_core::domain::tracker::State;
use groupage_core::domain::{Timestamp, TrackerId};
use groupage_core::steps::track::Progress;
use maud::{Markup, html};

use crate::backend::{Trouble, Visit};
use crate::page::{Page, facts, id, link, table, time};
use crate::states;
use crate::view::{Kind, View};
use crate::words::{grouped, span};

/// Trackers that are listed.
const LISTED: usize = 20;

/// Shows those that are not forgotten.
pub async fn all(visit: &Visit<'_>) -> Result<Page, Trouble> {
    let kept = visit.looking().trackers().await?;
    let mut rows = Vec::new();
    for name in kept.names.iter().take(LISTED) {
        // One that is removed in this moment is no trouble.
        if let Some(tracker) = visit.tracker(name).await? {
            rows.push(vec![
                link(Kind::Tracker, name.as_str()),
                html! { (tracker.state.word()) },
                html! { (grouped(tracker.items)) },
                time(tracker.opened_at, visit.now),
                html! { @if let Some(deadline) = tracker.deadline { (time(deadline, visit.now)) } },
            ]);
        }
    }
    let columns = ["tracker", "state", "items", "opened", "deadline"];
    let live = html! {
        h1 { "Trackers" }
        (table("Fan-outs", &columns, rows, "None is open, and none ended lately."))
        @if !kept.are_all || kept.names.len() > LISTED { p { "Some of them. Find another by its name, above." } }
    };
    Ok(Page::live("Trackers", live))
}

/// Shows one.
pub async fn one(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = TrackerId::new(view.id());
    let progress = visit.tracking().progress(&name).await?;
    let progress = progress.map_err(|refused| Trouble::Unknown(refused.to_string()))?;
    let live = html! {
        h1 { "Tracker " (id(name.as_str())) }
        (facts(rows(&progress, visit.now)))
    };
    Ok(Page::live(format!("Tracker {name}"), live))
}

fn rows(progress: &Progress, now: Timestamp) -> Vec<(&'static str, Markup)> {
    let Progress { tracker, succeeded, failed, missing } = progress;
    let done = succeeded + failed;
    let mut rows = vec![
        ("state", html! { strong { (tracker.state.word()) } }),
        (
            "progress",
            html! {
                progress value=(done) max=(tracker.items.max(1)) aria-label="items that are settled" {}
                " " (grouped(done)) " of " (grouped(tracker.items))
            },
        ),
        ("succeeded", html! { (grouped(*succeeded)) }),
        ("failed", html! { (grouped(*failed)) }),
        ("missing", html! { (grouped(*missing)) }),
        ("opened", time(tracker.opened_at, now)),
    ];
    if let Some((a_second, left_ms)) = states::pace(tracker, done, *missing, now) {
        rows.push(("rate since its opening", html! { (format!("{a_second:.1}")) " items a second" }));
        rows.push(("time left at that rate", html! { (span(left_ms)) }));
    }
    rows.extend(tracker.deadline.map(|deadline| ("deadline", time(deadline, now))));
    match &tracker.state {
        State::Open | State::Sealed => {}
        State::Ended(end) => {
            rows.push(("ended", time(end.at, now)));
            rows.push(("its notice", html! { @if end.told { "is sent" } @else { "is not sent yet" } }));
        }
    }
    rows
}
