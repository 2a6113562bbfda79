//! The tasks and the index of those that wait.

use super::declare::port;
use super::{Entries, Look, Result, Stored};
use crate::domain::batch::Member;
use crate::domain::ended::Ended;
use crate::domain::failed::Failure;
use crate::domain::shelf::Position;
use crate::domain::task::{Candidate, Task, Ties};
use crate::domain::trace::TraceParent;
use crate::domain::traits::Traits;
use crate::domain::{BatchId, Round, Target, TaskId, Timestamp, TrackerId};

/// What a registration found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The task is new.
    New,
    /// A task with this id was there.
    Existing(Box<Task>),
}

/// What became of a candidate's move into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It names the batch, by this write or an earlier one.
    Yes,
    /// It is in another batch, in another round, settled or gone.
    Elsewhere,
}

/// What became of a task that was to wait for a batch, for the first time or again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It waits in that round, by this write or an earlier one.
    Waits,
    /// It has moved on since.
    MovedOn,
    /// It ended before its turn came. So did one that is not there: only ended tasks expire.
    Ended,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Half the price; may miss the latest writes.
    Eventual,
    /// Sees every write that was answered.
    Latest,
}

/// A page of the index of waiting tasks, ordered by their priority alone; the index lags behind the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<C> {
    /// The tasks.
    pub candidates: Vec<Candidate>,
    /// Where the next page begins, if there is one.
    pub next: Option<C>,
}

impl<C> Default for Page<C> {
    /// The last one, and empty.
    fn default() -> Self {
        Self { candidates: Vec::new(), next: None }
    }
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What it is grouped by.
    pub target: Target,
    /// The task.
    pub candidate: Candidate,
    /// Since when it has waited, in this round.
    pub since: Timestamp,
}

impl Waiting {
    /// A task that waits under `target`.
    pub fn new(task: &Task, target: &Target) -> Self {
        Self { target: target.clone(), candidate: task.candidate(), since: task.waits_since }
    }
}

/// A scheduled task, as the index of what is due shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The task.
    pub id: TaskId,
    /// What it is grouped by then.
    pub target: Target,
    /// When its time comes.
    pub due: Timestamp,
}

/// A page of all tasks, as far as they are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Those that are.
    pub found: Vec<TaskId>,
    /// Where the next page begins, if there is one: behind this task, in the store's own order.
    pub next: Option<TaskId>,
}

/// A page of everything that waits, whatever the Target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPage {
    /// The tasks that have waited for long.
    pub tasks: Vec<Waiting>,
    /// Those that ended while they waited, since then, and of which somebody may not have heard.
    pub ended: Vec<Waiting>,
    /// Where the next page begins, if there is one.
    pub next: Option<Position>,
}

/// One of `of` segments that a scan is split into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which one, counted from 0.
    pub index: u8,
    /// How many there are.
    pub of: u8,
}

/// How a task is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The downstream accepted it.
    Succeeded,
    /// It failed for good, and is filed with the others.
    Failed(Failure),
    /// Its batch is called without it. It is not filed: nobody has to look into it.
    Ended {
        /// Why.
        ended: Ended,
        /// Calls that it was part of.
        attempts: u32,
    },
}

/// A task whose turn never came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Who must hear of it.
    pub ties: Ties,
    /// When it failed.
    pub at: Timestamp,
    /// What its sender says that it belongs to.
    pub trace: Option<TraceParent>,
}

/// A batch's member on its way back to waiting.
#[derive(Clone, Copy, Debug)]
pub struct WayBack<'a> {
    /// The member, in the round that it had in its batch.
    pub member: &'a Candidate,
    /// The batch.
    pub batch: &'a BatchId,
    /// What it waits for then.
    pub target: &'a Target,
    /// How many calls it was part of.
    pub attempts: u32,
    /// Set if one of these may have been carried out, although no answer says so.
    pub is_unsure: bool,
    /// Since when it waits.
    pub at: Timestamp,
}

port! {
    /// The tasks.
    pub trait Tasks {
        type Cursor;

        /// Puts a new task. Assumes: no task has its id.
        async fn register(&self, task: &Task) -> Result<Registered>;

        /// Reads tasks; those that are not there are left out, and the order is any.
        async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>>;

        /// Reads one page of the index: up to `limit` tasks that wait for `target`, the least urgent first.
        async fn waiting(
            &self,
            target: &Target,
            after: Option<&Self::Cursor>,
            limit: usize,
        ) -> Result<Page<Self::Cursor>>;

        /// Reads one page of the index from its end: up to `limit` tasks that wait for `target` with a priority `above`
        /// this, the most urgent first. Assumes of `after`, which another such page gave: its last task had one, too.
        async fn urgent(
            &self,
            target: &Target,
            above: u8,
            after: Option<&Self::Cursor>,
            limit: usize,
        ) -> Result<Page<Self::Cursor>>;

        /// Reads one page of a segment of the index, in no order: of the entries that it looks at it returns those that
        /// have waited for long.
        async fn waiting_long(&self, look: Look<'_, Segment>) -> Result<WaitingPage>;

        /// Looks at one part's scheduled tasks whose time has come. The index lags behind the tasks.
        async fn due(&self, look: Look<'_>) -> Result<Entries<Scheduled>>;

        /// Looks through up to `limit` of all tasks for those with an item of this tracker that are not settled. This
        /// reads the whole table, page by page. A page may be empty and not the last.
        async fn unsettled_of(&self, tracker: &TrackerId, after: Option<&TaskId>, limit: usize) -> Result<Sought>;

        /// Lets a scheduled task wait for a batch, in the index under `target`. Assumes: it is scheduled, and due by
        /// `now`. Says as what it waits, by this write or an earlier one; `None` if it has moved on, or is not due.
        async fn fall_due(
            &self,
            task: (&TaskId, Traits),
            target: &Target,
            now: Timestamp,
        ) -> Result<Option<Waiting>>;

        /// Lets a queued task wait for a batch, in the index under `target`: it has its turn. Assumes: it is queued.
        async fn take_turn(&self, task: (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack>;

        /// Writes that a queued task failed: its turn will never come. Assumes: it is queued. Says what it came to if
        /// it failed so, by this write or an earlier one.
        async fn pass_over(&self, task: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>>;

        /// Ends a task that waits for a batch, for its turn or for its time, for this reason. It stays in the index as
        /// one of which somebody must hear, under `target`. Assumes: it waits so, in this round. Says what it came to
        /// if it ended so, by this write or an earlier one.
        async fn end(
            &self,
            task: &TaskId,
            round: Round,
            ending: &Failure,
            now: Timestamp,
        ) -> Result<Option<PassedOver>>;

        /// Takes a task out of the index that ended while it waited in this round: everybody has heard of it. One that
        /// is not there stays so.
        async fn heard_of(&self, task: &TaskId, round: Round) -> Result<()>;

        /// Takes everything from a task but its id, its status and its ties: payload, digest, lane, what is kept of a
        /// failure beyond its reason. Assumes: it is settled, in this round, and everybody has heard of it.
        async fn erase(&self, task: &TaskId, round: Round) -> Result<Stored>;

        /// Moves a waiting task into a batch and out of the index. Assumes: it waits in the candidate's round.
        async fn join(&self, task: &TaskId, round: Round, batch: &BatchId) -> Result<Joined>;

        /// Moves a batch's member back to waiting in its next round. Assumes: it names the batch in the candidate's
        /// round.
        async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack>;

        /// Writes a member's final status. Assumes: it names the batch in this round. A member for which that does not
        /// hold was settled or put back by an earlier repeat; nothing is written then. Returns who must hear of it,
        /// either way.
        async fn settle(
            &self,
            member: &Member,
            batch: &BatchId,
            settlement: &Settlement,
            now: Timestamp,
        ) -> Result<Ties>;
    }
    provided {
        /// The same for somebody who has another place for the task: a store that would repeat a throttled request
        /// itself says at once that it was refused.
        async fn try_register(&self, task: &Task) -> Result<Registered> {
            self.register(task).await
        }
    }
}
