//! What is held back: tasks on lists, order keys, and streams.

use groupage_core::domain::lane::State;
use groupage_core::domain::list::MAX_RELEASED;
use groupage_core::domain::{LaneId, ListId, RouteName, StreamId, TaskId};
use maud::{Markup, html};
use serde::Deserialize;

use crate::acts::{because, button, hidden, refusal};
use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, facts, id, link, table, time};
use crate::view::{Kind, ROOT, View};
use crate::words::grouped;

/// This many of each kind are listed.
const LISTED: usize = 20;
/// Tasks that wait next, as a page lists them.
const NEXT: usize = 20;
/// Of these, those of one read: they come with their payloads.
const NEXT_AT_ONCE: usize = 4;
/// Read units that the page of all keeps for what comes later.
const FOR_STREAMS: f64 = 30.0;
const FOR_LANES: f64 = 25.0;

/// Shows them all.
pub async fn all(visit: &Visit<'_>) -> Result<Page, Trouble> {
    let live = html! {
        h1 { "Lists, lanes and streams" }
        (lists(visit).await?)
        (lanes(visit).await?)
        (streams(visit).await?)
    };
    Ok(Page::live("Lists, lanes and streams", live))
}

async fn lists(visit: &Visit<'_>) -> Result<Markup, Trouble> {
    let kept = visit.looking().lists().await?;
    let (mut rows, mut spending) = (Vec::new(), visit.spending(FOR_STREAMS + FOR_LANES));
    for name in kept.names.iter().take(LISTED) {
        if !spending.affords_one() {
            break;
        }
        if let Ok(progress) = visit.listing().progress(name).await? {
            rows.push(vec![
                link(Kind::List, name.as_str()),
                html! { (progress.list.tail.state.word()) },
                html! { (grouped(progress.waiting)) },
                html! { (grouped(progress.released)) },
                time(progress.list.active_at(), visit.now),
            ]);
        }
    }
    let columns = ["list", "state", "waiting", "released", "last used"];
    Ok(html! {
        (table("Lists", &columns, rows, "There are none."))
        (some_of(kept.are_all && kept.names.len() <= LISTED && !spending.ran_out()))
    })
}

/// The order keys that stand still: a failure stopped them, or a number is missing.
async fn lanes(visit: &Visit<'_>) -> Result<Markup, Trouble> {
    let (mut rows, mut spending) = (Vec::new(), visit.spending(FOR_STREAMS));
    for route in visit.routes.iter().flat_map(|routes| routes.iter()).filter(|route| route.is_ordered()) {
        if !spending.affords_one() {
            break;
        }
        for lane in visit.stopped(&route.name, LISTED).await? {
            let address = View::of(Kind::Lane).with("route", route.name.as_str()).with("id", lane.key()).address();
            rows.push(vec![id(route.name.as_str()), html! { a href=(address) { (id(lane.key())) } }]);
        }
    }
    Ok(html! {
        (table("Order keys that stand still", &["route", "key"], rows, "None stands still."))
        @if spending.ran_out() { p { "Not all ordered routes were looked at." } }
    })
}

async fn streams(visit: &Visit<'_>) -> Result<Markup, Trouble> {
    let kept = visit.looking().streams().await?;
    let (mut rows, mut spending) = (Vec::new(), visit.spending(0.0));
    for name in kept.names.iter().take(LISTED) {
        if !spending.affords_one() {
            break;
        }
        if let Ok(stream) = visit.streaming().stream(name).await? {
            rows.push(vec![
                link(Kind::Stream, name.as_str()),
                html! { (stream.state.word()) },
                html! { (grouped(stream.next)) },
                html! { (grouped(stream.watermark.number)) },
                html! { (grouped(stream.unsettled())) },
            ]);
        }
    }
    let columns = ["stream", "state", "fed", "watermark", "not settled"];
    Ok(html! {
        (table("Streams with something to do", &columns, rows, "There are none."))
        (some_of(kept.are_all && kept.names.len() <= LISTED && !spending.ran_out()))
    })
}

fn some_of(are_all: bool) -> Markup {
    html! { @if !are_all { p { "Some of them. Find another by its name, above." } } }
}

/// Shows one list, with a form that releases its next tasks.
pub async fn list(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = ListId::new(view.id());
    let unknown = |refused: groupage_core::steps::list::Refused| Trouble::Unknown(refused.to_string());
    let progress = visit.listing().progress(&name).await?.map_err(unknown)?;
    let (mut next, mut from, mut spending) = (Vec::new(), None, visit.spending(0.0));
    while next.len() < NEXT && spending.affords_one() {
        let peeked = visit.listing().peek(&name, from, NEXT_AT_ONCE).await?.map_err(unknown)?;
        next.extend(peeked.slots.iter().map(|slot| vec![html! { (slot.token) }, waiting(&slot.body)]));
        from = peeked.next;
        if from.is_none() {
            break;
        }
    }
    let live = html! {
        h1 { "List " (id(name.as_str())) }
        (facts(vec![
            ("state", html! { strong { (progress.list.tail.state.word()) } }),
            ("waiting", html! { (grouped(progress.waiting)) }),
            ("released", html! { (grouped(progress.released)) }),
            ("being released", html! { (grouped(progress.releasing)) }),
            ("discarded", html! { (grouped(progress.discarded)) }),
            ("last used", time(progress.list.active_at(), visit.now)),
        ]))
        (table("Next", &["token", "task"], next, "No task waits."))
    };
    let fields = vec![("act".to_owned(), "release".to_owned()), ("list".to_owned(), name.to_string())];
    let refusal = refusal(visit, "release");
    let still = html! {
        form.act method="post" action={ (ROOT) "/act" } {
            (hidden(&fields))
            label for="count" { "Release the next" }
            input #count name="count" type="number" min="1" max=(MAX_RELEASED) value="1" required;
            button disabled[refusal.is_some()] { "Release" }
            (because(refusal))
        }
    };
    Ok(Page::live(format!("List {name}"), live).with_still(still))
}

/// The one field of a task message that is shown: the payload may be secret.
#[derive(Deserialize)]
struct WithId {
    id: Option<String>,
}

fn waiting(body: &str) -> Markup {
    let task = serde_json::from_str::<WithId>(body).ok().and_then(|task| task.id);
    html! { @if let Some(task) = task { (page::task(&TaskId::new(task))) } @else { "a task without an id" } }
}

/// Shows one order key, with a button that lets it go on.
pub async fn lane(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let (route, key) = (RouteName::new(view.get("route").unwrap_or_default()), view.id());
    let shown = visit.ordering().show(&LaneId::of(&route, key), NEXT).await?;
    let shown = shown.ok_or_else(|| Trouble::Unknown(format!("route {route} knows no order key {key}")))?;
    let (word, task) = match &shown.lane.state {
        State::Free if shown.lane.missing().is_some() => ("waits for a number that has not come", None),
        State::Free => ("free: no task has the turn", None),
        State::Taken(task) => ("a task has the turn", Some(task)),
        State::Held(task) => ("held: a task failed, and those behind it wait", Some(task)),
        State::Failing(task) => ("failing: a task failed, and those behind it fail", Some(task)),
    };
    let mut rows = vec![("route", id(route.as_str())), ("state", html! { strong { (word) } })];
    rows.extend(task.map(|task| ("task", page::task(task))));
    rows.push(("turn", html! { (shown.lane.head) }));
    rows.push(("last used", time(shown.lane.active_at, visit.now)));
    let behind = shown.waiting.iter().map(|queued| vec![html! { (queued.turn) }, page::task(&queued.candidate.id)]);
    let live = html! {
        h1 { "Order key " (id(key)) }
        (facts(rows))
        (table("Behind it", &["turn", "task"], behind.collect(), "No task waits for its turn."))
        @if shown.more { p { "More wait behind these." } }
    };
    let fields = [("act", "resume"), ("route", route.as_str()), ("key", key)];
    let still = html! { @if shown.lane.is_stopped() { (button(visit, &fields, "Go on without the failed task")) } };
    Ok(Page::live(format!("Order key {key}"), live).with_still(still))
}

/// Shows one stream: its watermark, and what is settled beyond it.
pub async fn stream(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = StreamId::new(view.id());
    let stream = visit.streaming().stream(&name).await?;
    let stream = stream.map_err(|refused| Trouble::Unknown(refused.to_string()))?;
    let watermark = &stream.watermark;
    let beyond = watermark.settled.saturating_sub(watermark.number);
    let mut rows = vec![
        ("state", html! { strong { (stream.state.word()) } }),
        ("fed", html! { (grouped(stream.next)) }),
        ("watermark", html! { (grouped(watermark.number)) ": all events before it are settled" }),
        ("settled beyond it", html! { (grouped(beyond)) }),
        ("not settled", html! { (grouped(stream.unsettled())) " of at most " (grouped(stream.options.window)) }),
        ("failed", html! { (grouped(watermark.failed)) }),
        ("committed", time(watermark.at, visit.now)),
        ("opened", time(stream.life.opened_at, visit.now)),
    ];
    rows.extend(
        watermark.offset.as_ref().map(|offset| ("offset of the last event before it", id(&offset.to_string()))),
    );
    let live = html! { h1 { "Stream " (id(name.as_str())) } (facts(rows)) };
    let commit = button(visit, &[("act", "commit"), ("stream", name.as_str())], "Commit what is settled");
    Ok(Page::live(format!("Stream {name}"), live).with_still(commit))
}
