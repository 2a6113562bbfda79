//! Sending notices. A queue that refuses them keeps nobody back: their sender goes on, and sends them again later.
//! What a queue has refused for a day goes to the rejected queue.

use crate::domain::Timestamp;
use crate::domain::notice::{self, is_undeliverable};
use crate::ports::{Destination, Env, Error, Outbox, Outgoing};

/// A message, and the positions of the members that it is about.
pub(super) type About = (Vec<usize>, Outgoing);

/// What becomes of a notice that its queue refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is sent again, for a day; then it goes to the rejected queue.
    ComesAgain,
    /// It goes to the rejected queue at once: no process would send it again.
    IsRejected,
}

/// The result of sending a notice.
#[derive(Clone, Debug)]
pub(super) enum Notified {
    /// Its queue has it.
    Yes,
    /// Its queue refuses it, as this says; the rejected queue has it.
    Undeliverable(Error),
    /// It is to be sent again.
    Refused(Error),
}

impl Notified {
    /// Returns why it is to be sent again, if it is.
    pub(super) fn refusal(self) -> Option<Error> {
        match self {
            Self::Yes | Self::Undeliverable(_) => None,
            Self::Refused(error) => Some(error),
        }
    }
}

/// Sends notices, each of what was settled then.
pub(super) async fn send_notices(
    (outbox, env): (&impl Outbox, &impl Env),
    notices: Vec<(Timestamp, Outgoing)>,
    refused: Refused,
) -> Vec<Notified> {
    let answers = outbox.send(notices.iter().map(|(_, notice)| notice.clone()).collect()).await;
    let is_rejected = |at| refused == Refused::IsRejected || is_undeliverable(at, env.now());
    let (mut rejected, mut given_up, mut notified) = (Vec::new(), Vec::new(), Vec::new());
    for (position, ((at, notice), answer)) in notices.into_iter().zip(answers).enumerate() {
        if answer.is_err() && is_rejected(at) {
            rejected.push(undeliverable(notice));
            given_up.push(position);
        }
        notified.push(answer.map_or_else(Notified::Refused, |()| Notified::Yes));
    }
    if !rejected.is_empty() {
        for (position, answer) in given_up.into_iter().zip(outbox.send(rejected).await) {
            if let (Ok(()), Some(one)) = (answer, notified.get_mut(position))
                && let Notified::Refused(error) = one
            {
                *one = Notified::Undeliverable(error.clone());
            }
        }
    }
    notified
}

/// A notice that its queue has refused for too long, as it goes to the rejected queue: with the queue, for a person who
/// sends it again.
fn undeliverable(notice: Outgoing) -> Outgoing {
    let queue = match &notice.to {
        Destination::Notification(queue) => queue.to_string(),
        Destination::Tasks
        | Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Elect
        | Destination::Group
        | Destination::Handle
        | Destination::LongHandle
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
