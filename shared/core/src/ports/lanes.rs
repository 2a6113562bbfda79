//! The lanes of ordered routes, and who waits in them.

use std::future::Future;

use super::{Result, Stored};
use crate::domain::id::{LaneId, RouteName, Turn};
use crate::domain::lane::{Lane, Queued};
use crate::domain::task::Task;

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

/// The lanes.
pub trait Lanes: Sync {
    /// Reads a lane as it is now.
    fn lane(&self, id: &LaneId) -> impl Future<Output = Result<Option<Lane>>> + Send;

    /// Writes up to [`MAX_NEWCOMERS`] tasks and their lane, or nothing. Assumes: the lane is at the revision before, or,
    /// if it `is_new`, not there; no task has one of these ids, and nobody waits for one of these turns.
    fn line_up(
        &self,
        lane: &Lane,
        is_new: bool,
        newcomers: &[Newcomer],
    ) -> impl Future<Output = Result<LinedUp>> + Send;

    /// Writes a lane. Assumes: it is at the revision before.
    fn store_lane(&self, lane: &Lane) -> impl Future<Output = Result<Stored>> + Send;

    /// Reads, as they are now, up to `limit` of those who wait for turns in `from..to`, in order.
    fn queued(
        &self,
        id: &LaneId,
        from: Turn,
        to: Turn,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Queued>>> + Send;

    /// Looks up to `limit` lanes of a route that a failure stopped, those first that have been so for longest. The index
    /// lags behind the lanes.
    fn stopped(&self, route: &RouteName, limit: usize) -> impl Future<Output = Result<Vec<LaneId>>> + Send;

    /// Forgets that these tasks waited for their turns; those that are gone stay so. Assumes of each that its turn is waited
    /// for by just this task: in a lane whose rest fails a number may be used again.
    fn leave(&self, id: &LaneId, queued: &[Queued]) -> impl Future<Output = Result<()>> + Send;
}
