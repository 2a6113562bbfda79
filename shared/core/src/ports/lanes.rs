//! The lanes of ordered routes, and who waits in them.

use super::declare::port;
use super::{Result, Stored};
use crate::domain::lane::{Lane, Queued};
use crate::domain::{LaneId, RouteName, Task, Timestamp, Turn};

/// Most tasks that come to a lane in one call: a transaction takes a hundred writes, and each may need two.
pub const MAX_NEWCOMERS: usize = 49;

/// A task that comes to its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// The task: it waits for a batch if it has its turn at once, else it is queued.
    pub task: Task,
    /// What its turn needs to know of it, if it is queued.
    pub queued: Option<Queued>,
}

/// What became of tasks that came to a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinedUp {
    /// All of them are in it.
    Yes,
    /// Tasks with some of these ids are there already. Nothing was written.
    Before(Vec<Task>),
    /// These numbers are used by other tasks. Nothing was written.
    Used(Vec<Turn>),
    /// The lane was not as assumed. Nothing was written.
    Conflict,
}

port! {
    /// The lanes.
    pub trait Lanes {
        /// Reads a lane as it is now.
        async fn lane(&self, id: &LaneId) -> Result<Option<Lane>>;

        /// Writes up to [`MAX_NEWCOMERS`] tasks and their lane, or nothing. Assumes: the lane is at the revision
        /// before, or, if it `is_new`, not there; no task has one of these ids, and nobody waits for one of these
        /// turns.
        async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp>;

        /// Writes a lane. Assumes: it is at the revision before.
        async fn store_lane(&self, lane: &Lane) -> Result<Stored>;

        /// Reads, as they are now, up to `limit` of those who wait for turns in `from..to`, in order.
        async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>>;

        /// Looks up to `limit` lanes of a route that stand still, the longest first: those that a failure stopped, then
        /// those that have waited for a missing number since before `missing_since`. The index lags behind the lanes.
        async fn stopped(&self, route: &RouteName, missing_since: Timestamp, limit: usize) -> Result<Vec<LaneId>>;

        /// Forgets that these tasks waited for their turns; those that are gone stay so. Assumes of each that its turn
        /// is waited for by just this task: in a lane whose rest fails a number may be used again.
        async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()>;
    }
}
