//! Where a batch stands, who moves it, and where to.

use serde::{Deserialize, Serialize};

use crate::domain::id::SessionId;
use crate::domain::outcome::Results;
use crate::domain::time::Timestamp;

/// Where a batch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its leader adds candidates until it is full or its window is over; then freezes it.
    Open {
        /// When the window is over.
        until: Timestamp,
    },
    /// Takes no more candidates: somebody other than its leader drives each to a known fate and freezes it.
    Closing,
    /// Its members are final; a message about it is on its way to the batch-handler, who claims it.
    Frozen,
    /// A worker has claimed it and makes the call; the same worker records the outcome, or pauses it for a later
    /// attempt. When its session is over, anyone may claim it again.
    InProgress {
        /// The right to process it.
        claim: Claim,
    },
    /// Its call failed for now. The worker that is handed it after the pause claims it and makes the same call again;
    /// before that, nobody does, however many messages name it.
    Paused {
        /// When the pause is over.
        until: Timestamp,
    },
    /// The outcome is recorded: this write is the one acknowledgement. What follows (members' statuses,
    /// notifications) is derived from it and may be repeated.
    Settled {
        /// When.
        at: Timestamp,
        /// The members that did not succeed.
        results: Results,
        /// What follows from it.
        follow_up: FollowUp,
    },
    /// Closed without a member; never called. Final.
    Empty,
    /// Put in place of a batch that was named but never written, so that its writer, should it wake up, fails. Final.
    Void,
}

impl Status {
    /// The word stored in the `Status` attribute.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Closing => "closing",
            Self::Frozen => "frozen",
            Self::InProgress { .. } => "in-progress",
            Self::Paused { .. } => "paused",
            Self::Settled { .. } => "settled",
            Self::Empty => "empty",
            Self::Void => "void",
        }
    }

    /// Whether nothing can happen to the batch any more that its table does not already say.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::Empty | Self::Void => true,
            Self::Open { .. } | Self::Closing | Self::Frozen | Self::InProgress { .. } | Self::Paused { .. } => false,
        }
    }
}

/// A worker's temporary right to process a batch: as long as its session lives, nobody else has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The worker's session; it names the batch among its claims.
    pub session: SessionId,
}

/// Whether everything that follows from a recorded outcome has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// Statuses, notifications or returns may be missing; a process that finds the batch derives them all again.
    Pending,
    /// All is done but that members have to return to waiting, whose messages are on their way; the last to return
    /// marks it as done.
    Returning,
    /// Nothing is left to do. Final.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_word_of_its_own_and_is_final_once_its_outcome_is_known() {
        let (at, follow_up) = (Timestamp(1), FollowUp::Pending);
        let claim = Claim { session: SessionId::new("r/s") };
        for (status, word, is_final) in [
            (Status::Open { until: at }, "open", false),
            (Status::Closing, "closing", false),
            (Status::Frozen, "frozen", false),
            (Status::InProgress { claim }, "in-progress", false),
            (Status::Paused { until: at }, "paused", false),
            (Status::Settled { at, results: Results::new(), follow_up }, "settled", true),
            (Status::Empty, "empty", true),
            (Status::Void, "void", true),
        ] {
            assert_eq!((status.word(), status.is_final()), (word, is_final));
        }
    }
}
