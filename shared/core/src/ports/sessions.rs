//! The sessions of workers.

use super::declare::port;
use super::{Entries, Result, Segment, Stored};
use crate::domain::shelf::Position;
use crate::domain::{Beat, Pool, Session, SessionId};

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The session lives on, by this write or an earlier one.
    Kept,
    /// Somebody has ended it.
    Lost,
}

/// What became of a session's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is gone.
    Yes,
    /// It was renewed meanwhile; this is what it is.
    Lives(Session),
}

port! {
    /// The sessions of workers.
    pub trait Sessions {
        /// Writes a new session. Assumes: none has its id.
        async fn open_session(&self, session: &Session) -> Result<Stored>;

        /// Renews a session. Assumes: it is there, one beat before `session`, or at the same beat: that is an earlier
        /// try of its owner, whose answer was lost.
        async fn renew(&self, session: &Session) -> Result<Renewed>;

        /// Removes a session. Assumes: it is not there any more, or still at this beat.
        async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended>;

        /// Reads a session as it is now.
        async fn session(&self, id: &SessionId) -> Result<Option<Session>>;

        /// Reads up to `limit` sessions of a pool that come `after` that one; may miss the latest writes.
        async fn sessions(&self, pool: &Pool, after: Option<&Position>, limit: usize) -> Result<Entries<Session>>;

        /// Reads up to `limit` sessions of all pools that lie in a segment `after` that one; may miss the latest
        /// writes.
        async fn all_sessions(
            &self,
            segment: Segment,
            after: Option<&Position>,
            limit: usize,
        ) -> Result<Entries<Session>>;
    }
}
