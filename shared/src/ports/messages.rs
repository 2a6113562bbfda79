//! The queues, as senders and as whoever has a message in hand.

use std::future::Future;

use super::Result;
use crate::domain::id::{LaneId, Target, digest};
use crate::domain::notice::NotificationQueue;

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The intake: register-task's queue.
    Tasks,
    /// The intake in order: register-task's FIFO queue, with this lane as the message group. SQS delays none of its messages.
    InOrder(LaneId),
    /// The same FIFO queue, with this shard of a Target as the message group: whoever has some of its messages in hand is the
    /// only one.
    Gather(Target),
    /// elect-leader's queue.
    Elect,
    /// group-batch's queue.
    Group,
    /// batch-handler's queue.
    Handle,
    /// The queue of messages that can never be registered.
    Rejected,
    /// A queue that the routes file names for notifications.
    Notification(NotificationQueue),
}

impl Destination {
    /// The lane whose order the message keeps.
    #[must_use]
    pub const fn lane(&self) -> Option<&LaneId> {
        match self {
            Self::InOrder(lane) => Some(lane),
            Self::Tasks
            | Self::Gather(_)
            | Self::Elect
            | Self::Group
            | Self::Handle
            | Self::Rejected
            | Self::Notification(_) => None,
        }
    }

    /// The message group, if it goes to a FIFO queue. SQS takes no names of over 128 characters, and not all characters.
    #[must_use]
    pub fn group(&self) -> Option<String> {
        match self {
            Self::InOrder(lane) => Some(digest(&["lane", lane.as_str()])),
            Self::Gather(target) => Some(digest(&["gather", target.as_str()])),
            Self::Tasks | Self::Elect | Self::Group | Self::Handle | Self::Rejected | Self::Notification(_) => None,
        }
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub to: Destination,
    /// The body: JSON, or a rejected message as it came.
    pub body: String,
    /// How long it stays hidden, in milliseconds; SQS counts whole seconds, so it is rounded up.
    pub delay_ms: u64,
    /// Message attributes, all strings.
    pub attributes: Vec<(&'static str, String)>,
}

/// Sends messages.
pub trait Outbox: Sync {
    /// Sends messages, in tens where it can. The answers are in the order of the messages. Of those in order, none is sent
    /// before one that comes earlier for the same lane, and none after one that failed.
    fn send(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Result<()>>> + Send;
}

/// Postpones messages in hand.
pub trait Inbox: Sync {
    /// Makes messages of the queue `from`, which came with these receipts, come again in `delay_ms`, if they are not deleted
    /// before. Until then those of their groups do not come either. The answers are in the order of the receipts.
    fn postpone(
        &self,
        from: &Destination,
        receipts: Vec<String>,
        delay_ms: u64,
    ) -> impl Future<Output = Vec<Result<()>>> + Send;
}

/// Postpones one message.
///
/// # Errors
/// As [`Inbox::postpone`].
pub async fn postpone_one(inbox: &impl Inbox, from: &Destination, receipt: &str, delay_ms: u64) -> Result<()> {
    inbox.postpone(from, vec![receipt.to_owned()], delay_ms).await.into_iter().collect()
}

/// Sends messages one and all, or says which error came first.
///
/// # Errors
/// The first error; some of the messages may have been sent.
pub async fn send_all(outbox: &impl Outbox, messages: Vec<Outgoing>) -> Result<()> {
    outbox.send(messages).await.into_iter().collect()
}
