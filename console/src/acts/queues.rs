//! What ended in a queue is sent again, or deleted.

use maud::html;

use super::report::{Preview, Report};
use crate::backend::{Trouble, Visit};

/// Ids of one message that are named.
const IDS: usize = 10;

/// How many messages there are now. A message that its queue would refuse stays where it is.
pub async fn preview(visit: &Visit<'_>, name: &str) -> Result<Preview, Trouble> {
    let what = format!("send all messages that are in {name} now to the queue they came from");
    Ok(Preview { what, touches: html! {}, count: there(visit, name).await? })
}

/// What will be deleted: one message, or all that there are now.
pub async fn preview_drop(visit: &Visit<'_>, name: &str, message: &str) -> Result<Preview, Trouble> {
    let (what, count) = match message {
        "" => (format!("delete all messages that are in {name} now"), there(visit, name).await?),
        message => (format!("delete the message {message} from {name}"), 1),
    };
    Ok(Preview { what: format!("{what}, for ever"), touches: html! {}, count })
}

async fn there(visit: &Visit<'_>, name: &str) -> Result<u64, Trouble> {
    let queue = visit.desk().find(name).await?;
    let depths = visit.desk().depths_of(std::slice::from_ref(queue)).await?;
    Ok(depths.iter().map(|depth| depth.ready + depth.in_flight).sum())
}

/// Deletes them.
pub async fn drop(visit: &Visit<'_>, name: &str, message: &str) -> Result<Report, Trouble> {
    let queue = visit.desk().find(name).await?;
    let ids: Vec<String> = Some(message.to_owned()).filter(|message| !message.is_empty()).into_iter().collect();
    let dropped = visit.desk().drop_ended(queue, &ids, |_| {}).await?;
    let gone = dropped.missing.into_iter().map(|id| (id, "was not found: try again in a minute".to_owned()));
    let each = gone.chain(in_other_hands(dropped.hidden)).collect();
    Ok(Report { done: dropped.dropped, what: "messages are deleted", each })
}

fn in_other_hands(hidden: u64) -> Option<(String, String)> {
    let became = "somebody else has them in hand: try again in a minute".to_owned();
    (hidden > 0).then(|| (format!("{hidden} more messages"), became))
}

/// Sends them.
pub async fn perform(visit: &Visit<'_>, name: &str) -> Result<Report, Trouble> {
    let queue = visit.desk().find(name).await?;
    let sent = visit.desk().send_again(queue, None, |_| {}).await?;
    let left = sent.left.into_iter().map(|left| (left.about.names(IDS).join(" "), left.reason));
    let each = left.chain(in_other_hands(sent.hidden)).collect();
    Ok(Report { done: sent.sent, what: "messages are sent again", each })
}
