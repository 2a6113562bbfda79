//! The locks of the leader election.

use super::Result;
use super::declare::port;
use crate::domain::lock::{Acquisition, Lock, Term};
use crate::domain::{Seq, Target, Timestamp};

/// What became of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock is held now.
    Yes,
    /// The lock was not as assumed; this is what it is.
    No(Option<Lock>),
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// The holder will look again before it releases.
    Yes,
    /// That holder has gone; this is what the lock is.
    No(Option<Lock>),
}

/// What became of a leader's write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// It still leads; this is the lock now.
    Kept(Lock),
    /// It leads no more.
    Lost,
}

/// What became of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// Nobody holds the lock, and no batch is open.
    Yes,
    /// Somebody signalled since: look again. This is the lock now.
    Signalled(Lock),
    /// It leads no more, or another delivery of its message is ahead of this one.
    Lost,
}

port! {
    /// The locks, one for each Target.
    pub trait Locks {
        /// Reads a lock as it is now.
        async fn lock(&self, target: &Target) -> Result<Option<Lock>>;

        /// Makes a workflow the leader. Assumes what the acquisition says.
        async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired>;

        /// Asks a leader to look again. Assumes: the term holds the lock.
        async fn signal(&self, term: &Term) -> Result<Signalled>;

        /// Names the term's next batch as the open one and renews the lease. Assumes: the term holds the lock and its
        /// latest batch is number `seq`.
        async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced>;

        /// Gives the lock up, with no batch open. Assumes: the term holds it, its latest batch is number `seq` (another
        /// delivery of the leader's message may have gone on to the next), and `signals` is still their number.
        async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released>;
    }
}
