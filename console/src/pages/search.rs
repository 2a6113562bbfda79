//! Whatever has an id: a task, a batch, a Target, a tracker, a list, a stream.

use groupage_core::domain::{ListId, StreamId, Target, TaskId, TrackerId};
use groupage_core::ports::Freshness;
use maud::html;

use super::Shown;
use super::task::is_batch_id;
use crate::backend::{Trouble, Visit};
use crate::page::{Page, id, link};
use crate::view::{Kind, View};

/// Looks for it everywhere. The one thing that has it is shown at once.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Shown, Trouble> {
    let (mut text, mut found) = (view.id(), found(visit, view.id()).await?);
    if found.is_empty() && text.trim() != text {
        // Copied with the spaces around it.
        text = text.trim();
        found = self::found(visit, text).await?;
    }
    if let [kind] = found[..] {
        return Ok(Shown::Elsewhere(View::of(kind).with("id", text)));
    }
    let live = html! {
        h1 { "Search" }
        @if text.is_empty() {
            p { "Enter the id of a task, batch, tracker, list or stream, or a Target such as " code { "parcels:truck-7" } "." }
        } @else if found.is_empty() {
            p.problem role="alert" { "Nothing is known of " (id(text)) "." }
            p { "A message that was sent just now is on its way for some seconds. A refused one is in the rejected queue." }
        } @else {
            p { "These have the id:" }
            ul { @for kind in &found { li { (kind.title()) " " (link(*kind, text)) } } }
        }
    };
    Ok(Shown::Page(Page::live("Search", live)))
}

/// The pages that have something to show of it.
async fn found(visit: &Visit<'_>, text: &str) -> Result<Vec<Kind>, Trouble> {
    let (looking, mut found) = (visit.looking(), Vec::new());
    if text.is_empty() {
        return Ok(found);
    }
    if let Some(batch) = is_batch_id(text)
        && looking.batch(&batch).await?.is_some()
    {
        found.push(Kind::Batch);
    }
    if TaskId::parse(text).is_ok() && looking.task(&TaskId::new(text), Freshness::Eventual).await?.is_some() {
        found.push(Kind::Task);
    }
    if TrackerId::parse(text).is_ok() && visit.tracker(&TrackerId::new(text)).await?.is_some() {
        found.push(Kind::Tracker);
    }
    if ListId::parse(text).is_ok() && visit.listing().progress(&ListId::new(text)).await?.is_ok() {
        found.push(Kind::List);
    }
    if StreamId::parse(text).is_ok() && visit.streaming().stream(&StreamId::new(text)).await?.is_ok() {
        found.push(Kind::Stream);
    }
    if text.contains(':') && looking.target(&Target::new(text)).await?.is_some_and(|target| target.is_known()) {
        found.push(Kind::Target);
    }
    Ok(found)
}
