//! What ended in the rejected and dead-letter queues: why, sending it again, and deleting it.

use groupage_aws::desk::Ended;
use maud::{Markup, html};

use crate::acts::button;
use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, id, link, table};
use crate::view::{Kind, View};
use crate::words::grouped;

/// Messages that are looked at.
const LISTED: u64 = 20;
/// Ids of one message that are listed.
const IDS: usize = 10;

/// Shows the queues, and the messages of one of them. To look at a message is to receive it, so it is hidden from
/// others for a moment; nothing is looked at again by itself.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let queues = visit.desk().ended().await?;
    let depths = visit.desk().depths_of(queues).await?;
    let rows = depths.iter().map(|depth| {
        let address = View::of(Kind::Ended).with("queue", &depth.queue).address();
        let again = button(visit, &[("act", "redrive"), ("queue", &depth.queue)], "Send all again");
        vec![
            html! { a href=(address) { (id(&depth.queue)) } },
            html! { (grouped(depth.all())) },
            html! { @if depth.all() > 0 { div.acts { (again) (delete(visit, &depth.queue, "", "Delete all")) } } },
        ]
    });
    let messages = match view.get("queue") {
        Some(name) => {
            let queue = visit.desk().find(name).await?;
            // SQS waits a second for what does not come: no more is asked for than it says is there.
            let there = depths.iter().find(|depth| depth.queue == queue.name).map_or(0, |depth| depth.ready);
            messages(visit, name, &visit.desk().look(queue, LISTED.min(there), false).await?)
        }
        None => html! { p { "Choose a queue to see its messages." } },
    };
    let still = html! {
        h1 { "Dead letters and rejected messages" }
        (table("Queues", &["queue", "messages", ""], rows.collect(), ""))
        (messages)
    };
    Ok(Page::still("Dead letters", still))
}

/// A button that deletes one message, or all.
fn delete(visit: &Visit<'_>, queue: &str, message: &str, label: &str) -> Markup {
    button(visit, &[("act", "delete"), ("queue", queue), ("message", message)], label)
}

fn messages(visit: &Visit<'_>, queue: &str, found: &[Ended]) -> Markup {
    let rows = found.iter().map(|ended| {
        let (why, received) = (page::text(&ended.why()), html! { (ended.received) });
        let delete = delete(visit, queue, &ended.message_id, "Delete it");
        vec![about(ended), why, received, html! { (ended.bytes) }, delete]
    });
    let title = format!("Messages in {queue}");
    let none = format!("{queue} is empty, or somebody else has its messages in hand.");
    html! {
        (table(&title, &["about", "why", "received", "bytes", ""], rows.collect(), &none))
        @if found.len() as u64 >= LISTED { p { "The first " (LISTED) " that came are listed." } }
    }
}

/// The tasks, the batch or the Targets that a message is about.
fn about(ended: &Ended) -> Markup {
    let about = &ended.about;
    html! {
        @if let Some(batch) = &about.batch { div { "batch " (link(Kind::Batch, batch)) } }
        @for task in about.tasks.iter().take(IDS) { div { (link(Kind::Task, task)) } }
        @if about.tasks.len() > IDS { div { "and " (page::count(about.tasks.len() - IDS)) " more" } }
        @for target in about.targets.iter().take(IDS) { div { (link(Kind::Target, target)) } }
    }
}
