//! The sessions of workers.

use std::future::Future;

use super::{Result, Stored};
use crate::domain::id::{Beat, Pool, SessionId};
use crate::domain::session::Session;

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

/// The sessions of workers.
pub trait Sessions: Sync {
    /// Writes a new session. Assumes: none has its id.
    fn open_session(&self, session: &Session) -> impl Future<Output = Result<Stored>> + Send;

    /// Renews a session. Assumes: it is there, one beat before `session`, or at the same beat: that is an earlier try of
    /// its owner, whose answer was lost.
    fn renew(&self, session: &Session) -> impl Future<Output = Result<Renewed>> + Send;

    /// Removes a session. Assumes: it is not there any more, or still at this beat.
    fn end_session(&self, id: &SessionId, beat: Beat) -> impl Future<Output = Result<Ended>> + Send;

    /// Reads a session as it is now.
    fn session(&self, id: &SessionId) -> impl Future<Output = Result<Option<Session>>> + Send;

    /// Reads up to `limit` sessions of a pool; may miss the latest writes.
    fn sessions(&self, pool: &Pool, limit: usize) -> impl Future<Output = Result<Vec<Session>>> + Send;
}
