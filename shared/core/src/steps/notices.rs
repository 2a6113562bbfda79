//! Notices of tasks that ended apart from a batch's outcome.
//!
//! A queue that refuses them keeps nobody back: their sender goes on, and sends them again later.

use crate::domain::Timestamp;
use crate::domain::notice::{self, is_undeliverable};
use crate::ports::{Destination, Env, Error, Outbox, Outgoing, Result, send_all};

/// What becomes of a notice that its queue refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is sent again, for a day; then it goes to the rejected queue.
    ComesAgain,
    /// It goes to the rejected queue at once: no process would send it again.
    IsRejected,
}

/// Sends notices, each of what was settled then. Returns for each why it is to be sent again, if it is.
pub(super) async fn send_notices(
    (outbox, env): (&impl Outbox, &impl Env),
    notices: Vec<(Timestamp, Outgoing)>,
    refused: Refused,
) -> Result<Vec<Option<Error>>> {
    let answers = outbox.send(notices.iter().map(|(_, notice)| notice.clone()).collect()).await;
    let is_rejected = |at| refused == Refused::IsRejected || is_undeliverable(at, env.now());
    let (mut rejected, mut refusals) = (Vec::new(), Vec::new());
    for ((at, notice), answer) in notices.into_iter().zip(answers) {
        let is_given_up = answer.is_err() && is_rejected(at);
        rejected.extend(is_given_up.then(|| undeliverable(notice)));
        refusals.push(answer.err().filter(|_| !is_given_up));
    }
    send_all(outbox, rejected).await?;
    Ok(refusals)
}

/// A notice that its queue has refused for too long, as it goes to the rejected queue: with the queue, for a person who
/// sends it again.
pub(super) fn undeliverable(notice: Outgoing) -> Outgoing {
    let queue = match &notice.to {
        Destination::Notification(queue) => queue.to_string(),
        Destination::Tasks
        | Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Elect
        | Destination::Group
        | Destination::Handle
        | Destination::Rejected => String::new(),
    };
    let mut attributes = notice.attributes;
    attributes.extend([
        ("Reason", notice::UNDELIVERABLE.to_owned()),
        ("Detail", "its notification queue refuses it: fix the queue, then redrive".to_owned()),
        ("Queue", queue),
    ]);
    Outgoing { to: Destination::Rejected, attributes, ..notice }
}
