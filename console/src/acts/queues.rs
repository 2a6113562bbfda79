//! What ended in a queue is sent again.

use maud::html;

use super::report::{Preview, Report};
use crate::backend::{Trouble, Visit};

/// Ids of one message that are named.
const IDS: usize = 10;

/// How many messages there are now. A message that its queue would refuse stays where it is.
pub async fn preview(visit: &Visit<'_>, name: &str) -> Result<Preview, Trouble> {
    let queue = visit.desk().find(name).await?;
    let depths = visit.desk().depths_of(std::slice::from_ref(queue)).await?;
    let count = depths.iter().map(|depth| depth.ready + depth.in_flight).sum();
    let what = format!("send all messages that are in {name} now to the queue they came from");
    Ok(Preview { what, touches: html! {}, count })
}

/// Sends them.
pub async fn perform(visit: &Visit<'_>, name: &str) -> Result<Report, Trouble> {
    let queue = visit.desk().find(name).await?;
    let sent = visit.desk().send_again(queue, None, |_| {}).await?;
    let mut each: Vec<(String, String)> =
        sent.left.into_iter().map(|left| (left.about.names(IDS).join(" "), left.reason)).collect();
    if sent.hidden > 0 {
        let became = "somebody else has them in hand: try again in a minute".to_owned();
        each.push((format!("{} more messages", sent.hidden), became));
    }
    Ok(Report { done: sent.sent, what: "messages are sent again", each })
}
