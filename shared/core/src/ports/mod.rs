//! What the steps need from the world: one small trait for each capability.
//!
//! Every write says what it assumes and answers with an *outcome*. Losing a race is an outcome; an [`Error`] means that
//! nothing is known of what happened, and the message that led here comes again. Implementations recognise their own
//! success when an answer was lost and the write is repeated.

mod around;
mod batches;
mod census;
mod declare;
mod downstream;
mod failures;
mod gates;
mod lanes;
pub mod layer;
mod lists;
mod locks;
mod messages;
mod queue;
mod sessions;
mod shelves;
mod streams;
mod tasks;
mod trackers;
mod unasked;

use crate::domain::{Retryable, Timestamp};

pub use crate::domain::answer::{Answer, MAX_ANSWER_BYTES, NoAnswer};
pub use crate::domain::destination::Destination;
pub use batches::{Batches, Unfinished};
pub use census::Census;
pub use downstream::{Call, Downstream};
pub use failures::Failures;
pub use gates::Gates;
pub use lanes::{Lanes, LinedUp, MAX_NEWCOMERS, Newcomer};
pub use lists::{Lists, Moved, PutOn};
pub use locks::{Acquired, Advanced, Locks, Released, Signalled};
pub use messages::{Inbox, Outbox, Outgoing, postpone_one, send_all};
pub use queue::{Queue, Spot};
pub use sessions::{Ended, Renewed, Sessions};
pub use shelves::{Entries, Entry, Look, Shelves};
pub use streams::{Seen, StreamOpened, Streams};
pub use tasks::{
    Freshness, Joined, Page, PassedOver, PutBack, Registered, Scheduled, Segment, Settlement, Sought, Tasks, Waiting,
    WaitingPage, WayBack,
};
pub use trackers::{Added, Cleared, Looked, Marked, Opened, Trackers};
pub use unasked::Unasked;

/// A port did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The service has more to do than it bears, and has not done this: asking less of it helps.
    #[error("{what}: {why}")]
    Throttled {
        /// What was tried.
        what: &'static str,
        /// What the service said.
        why: String,
    },
    /// Timed out, unreachable: whether the write was applied is unknown.
    #[error("{what}: {why}")]
    Unavailable {
        /// What was tried.
        what: &'static str,
        /// What the service or the network said.
        why: String,
    },
    /// The service refused the request, or an item makes no sense: a bug, missing permission or foreign data.
    #[error("{what}: {why}")]
    Broken {
        /// What was tried.
        what: &'static str,
        /// What the service said, or what is wrong with the item.
        why: String,
    },
}

impl Error {
    /// Whether the same request may succeed later.
    pub const fn retryable(&self) -> Retryable {
        match self {
            Self::Throttled { .. } | Self::Unavailable { .. } => Retryable::Yes,
            Self::Broken { .. } => Retryable::No,
        }
    }
}

/// A port's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item is as written, by this write or an earlier one.
    Yes,
    /// It was not as assumed.
    Conflict,
}

impl Stored {
    /// By whether the item is as written.
    pub const fn when(is_written: bool) -> Self {
        if is_written { Self::Yes } else { Self::Conflict }
    }
}

/// Time, randomness and fresh ids.
pub trait Env: Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// A number in `0.0..1.0`.
    fn random(&self) -> f64;

    /// An id that nobody else has.
    fn fresh_id(&self) -> String;

    /// Waits.
    fn sleep(&self, ms: u64) -> impl Future<Output = ()> + Send;

    /// Computes something that may take long, without keeping what else runs in the process from going on.
    fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// Everything a store of the protocol's state can do.
pub trait Store:
    Tasks + Failures + Lanes + Locks + Batches + Sessions + Gates + Trackers + Lists + Streams + Shelves
{
}
impl<T: Tasks + Failures + Lanes + Locks + Batches + Sessions + Gates + Trackers + Lists + Streams + Shelves> Store
    for T
{
}
