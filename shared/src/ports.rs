//! What the steps need from the world: one small trait for each capability.
//!
//! Every write says what it assumes and answers with an *outcome*. Losing a race is an outcome; an [`Error`] means that
//! nothing is known of what happened, and the message that led here comes again. Implementations recognise their own
//! success when an answer was lost and the write is repeated.

use std::future::Future;

use crate::domain::batch::{Assumes, Batch, Member};
use crate::domain::gate::{Gate, Scope};
use crate::domain::id::{BatchId, Beat, Fence, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId};
use crate::domain::lock::{Acquisition, Held, Lock, Term};
use crate::domain::outcome::Reason;
use crate::domain::retry::Retryable;
use crate::domain::session::Session;
use crate::domain::task::{Candidate, Task};
use crate::domain::time::Timestamp;
use crate::routes;

/// A port did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Throttled, timed out, unreachable: whether the write was applied is unknown.
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
    #[must_use]
    pub const fn retryable(&self) -> Retryable {
        match self {
            Self::Unavailable { .. } => Retryable::Yes,
            Self::Broken { .. } => Retryable::No,
        }
    }
}

/// A port's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// What a registration found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The task is new.
    New,
    /// A task with this id was there.
    Existing(Task),
}

/// What became of a candidate's move into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It names the batch, by this write or an earlier one.
    Yes,
    /// It is in another batch, in another round, settled or gone.
    Elsewhere,
}

/// What became of a member's return to waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It waits in its next round, by this write or an earlier one.
    Waits,
    /// It has moved on since.
    MovedOn,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Half the price; may miss the latest writes.
    Eventual,
    /// Sees every write that was answered.
    Latest,
}

/// A page of the index of waiting tasks, in no useful order; the index lags behind the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<C> {
    /// The tasks.
    pub candidates: Vec<Candidate>,
    /// Where the next page begins, if there is one.
    pub next: Option<C>,
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

/// A page of everything that waits, whatever the Target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPage<C> {
    /// The tasks that have waited for long.
    pub tasks: Vec<Waiting>,
    /// Where the next page begins, if there is one.
    pub next: Option<C>,
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
    /// It failed for good.
    Failed(Reason),
}

/// The tasks.
pub trait Tasks: Sync {
    /// A position in the index.
    type Cursor: Clone + Send + Sync;

    /// Puts a new task. Assumes: no task has its id.
    fn register(&self, task: &Task) -> impl Future<Output = Result<Registered>> + Send;

    /// Reads tasks; those that are not there are left out, and the order is any.
    fn read(&self, ids: &[TaskId], freshness: Freshness) -> impl Future<Output = Result<Vec<Task>>> + Send;

    /// Reads one page of the index: up to `limit` tasks that wait for `target`.
    fn waiting(
        &self,
        target: &Target,
        after: Option<&Self::Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Self::Cursor>>> + Send;

    /// Reads one page of a segment of the index: up to `limit` entries are looked at, and those that have waited since
    /// before `since` are returned.
    fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        after: Option<&Self::Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<WaitingPage<Self::Cursor>>> + Send;

    /// Moves a waiting task into a batch and out of the index. Assumes: it waits in the candidate's round.
    fn join(&self, task: &TaskId, round: Round, batch: &BatchId) -> impl Future<Output = Result<Joined>> + Send;

    /// Moves a batch's member back to waiting in its next round. Assumes: it names the batch in the candidate's round.
    fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> impl Future<Output = Result<PutBack>> + Send;

    /// Writes a member's final status. Assumes: it names the batch in this round. A member for which that does not
    /// hold was settled or put back by an earlier repeat; nothing is written then.
    fn settle(
        &self,
        member: &Member,
        batch: &BatchId,
        settlement: &Settlement,
        now: Timestamp,
    ) -> impl Future<Output = Result<()>> + Send;
}

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
    /// Somebody signalled since: look again. This is the number of signals now.
    Signalled(u64),
    /// It leads no more, or another delivery of its message is ahead of this one.
    Lost,
}

/// The locks, one for each Target.
pub trait Locks: Sync {
    /// Reads a lock as it is now.
    fn lock(&self, target: &Target) -> impl Future<Output = Result<Option<Lock>>> + Send;

    /// Makes a workflow the leader. Assumes what the acquisition says.
    fn acquire(&self, target: &Target, acquisition: &Acquisition) -> impl Future<Output = Result<Acquired>> + Send;

    /// Asks a holder to look again. Assumes: the same workflow holds the lock under the same fence.
    fn signal(&self, target: &Target, held: &Held) -> impl Future<Output = Result<Signalled>> + Send;

    /// Names the term's next batch as the open one and renews the lease. Assumes: the term holds the lock and its
    /// latest batch is number `seq`.
    fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> impl Future<Output = Result<Advanced>> + Send;

    /// Gives the lock up, with no batch open. Assumes: the term holds it, its latest batch is number `seq` (another
    /// delivery of the leader's message may have gone on to the next), and `signals` is still their number.
    fn release(
        &self,
        term: &Term,
        seq: Seq,
        signals: u64,
        now: Timestamp,
    ) -> impl Future<Output = Result<Released>> + Send;
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The item is as written, by this write or an earlier one.
    Yes,
    /// It was not as assumed.
    Conflict,
}

/// The batches.
pub trait Batches: Sync {
    /// Reads a batch as it is now.
    fn batch(&self, id: &BatchId) -> impl Future<Output = Result<Option<Batch>>> + Send;

    /// Writes a whole batch. Assumes what `assumes` says.
    fn store(&self, batch: &Batch, assumes: Assumes) -> impl Future<Output = Result<Stored>> + Send;

    /// Looks up to `limit` batches of one part of a route in the index of unfinished ones that are due before `before`,
    /// those that have been so for longest first. The index lags behind the batches.
    fn unfinished(
        &self,
        route: &RouteName,
        part: Part,
        before: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<BatchId>>> + Send;
}

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

/// The gates before calls.
pub trait Gates: Sync {
    /// Reads a gate as it is now.
    fn gate(&self, scope: &Scope) -> impl Future<Output = Result<Gate>> + Send;

    /// Writes a gate. Assumes: it is at the revision before that of `gate`.
    fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> impl Future<Output = Result<Stored>> + Send;
}

/// A count of everything that is not at rest; reads whole tables.
pub trait Census: Sync {
    /// All locks that somebody holds.
    fn held_locks(&self) -> impl Future<Output = Result<Vec<(Target, Lock)>>> + Send;

    /// All tasks that are neither succeeded nor failed.
    fn unsettled_tasks(&self) -> impl Future<Output = Result<Vec<Task>>> + Send;
}

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// elect-leader's queue.
    Elect,
    /// group-batch's queue.
    Group,
    /// batch-handler's queue.
    Handle,
    /// The queue of messages that can never be registered.
    Rejected,
    /// A queue that the routes file names for notifications.
    Notification(routes::NotificationQueue),
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
    /// Sends messages, in tens where it can. The answers are in the order of the messages.
    fn send(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Result<()>>> + Send;
}

/// Postpones the message in hand.
pub trait Inbox: Sync {
    /// Makes batch-handler's message come again in `delay_ms`, if it is not deleted before.
    fn postpone(&self, receipt: &str, delay_ms: u64) -> impl Future<Output = Result<()>> + Send;
}

/// One call to a downstream.
#[derive(Debug)]
pub struct Call<'a> {
    /// Where to and how.
    pub downstream: &'a routes::Downstream,
    /// `Idempotency-Key`: the batch.
    pub batch: &'a BatchId,
    /// The fence of the leader that made the batch.
    pub fence: Fence,
    /// Calls made for this batch, this one included.
    pub attempt: u32,
    /// The body.
    pub body: String,
}

/// What a downstream answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's status code; 200 for a Lambda function that returned.
    pub status: u16,
    /// What `Retry-After` asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection was refused or reset: worth one more try at once.
    Connection,
    /// No complete answer within the route's timeout.
    Timeout,
    /// The answer is larger than any answer may be.
    TooLarge,
    /// Anything else, for example a secret that could not be read.
    Other(Reason),
}

/// The largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The downstream batch APIs.
pub trait Downstream: Sync {
    /// Makes one call.
    fn call(&self, call: &Call<'_>) -> impl Future<Output = std::result::Result<Answer, NoAnswer>> + Send;
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
}

/// Everything a store of the protocol's state can do.
pub trait Store: Tasks + Locks + Batches + Sessions + Gates {}
impl<T: Tasks + Locks + Batches + Sessions + Gates> Store for T {}

/// Sends messages one and all, or says which error came first.
///
/// # Errors
/// The first error; some of the messages may have been sent.
pub async fn send_all(outbox: &impl Outbox, messages: Vec<Outgoing>) -> Result<()> {
    outbox.send(messages).await.into_iter().collect()
}
