//! Where messages go, and which of them keep an order.

use super::id::{LaneId, Target, digest};
use super::notice::NotificationQueue;

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
