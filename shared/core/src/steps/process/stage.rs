//! What the stages hand on, and how a batch's way may end.

use std::collections::HashMap;

use super::settle::Counts;
use crate::domain::batch::Member;
use crate::domain::gate::{FailureClass, Scope};
use crate::domain::outcome::{Fault, Reply, TIMEOUT};
use crate::domain::trace::Traces;
use crate::domain::{Batch, Reason, Task, TaskId, Timestamp};
use crate::ports::{self, Freshness, Tasks};
use crate::steps::Error;
use crate::steps::admit::{Held, Wait};
use crate::steps::heartbeat::Lost;

/// The result of one pass of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its outcome is recorded, by this pass. While a notice is unsent, or if the follow-up was interrupted, the pass
    /// must be repeated.
    Settled(Counts),
    /// Another worker recorded the outcome; this pass derived once more what follows.
    FollowedUp(Counts),
    /// The call failed for now; the batch is paused.
    CallAgain {
        /// Why.
        reason: Reason,
        /// When the pause is over.
        until: Timestamp,
        /// Whether this failure opened the circuit breaker.
        begins_outage: bool,
    },
    /// Its call has begun a job that has not ended; the batch comes back then for a look at it.
    UnderWay {
        /// When.
        until: Timestamp,
    },
    /// It waits for a permit, a pause's end or another worker; no call was made.
    Waits(Wait),
    /// Its downstream is away, or a person holds calls back; it comes back then.
    Away(Timestamp),
    /// Another worker has taken the claim over, or this one's session is over: the call's result is dropped.
    ClaimLost,
    /// There was nothing to do.
    Nothing,
}

impl Outcome {
    /// Returns whether the batch's message must stay, and so comes again: the worker that has the claim may be dead, or
    /// the follow-up is not finished.
    pub const fn keeps_its_message(&self) -> bool {
        match self {
            Self::ClaimLost => true,
            Self::Settled(counts) | Self::FollowedUp(counts) => counts.untold > 0 || counts.interrupted.is_some(),
            Self::CallAgain { .. } | Self::UnderWay { .. } | Self::Waits(_) | Self::Away(_) | Self::Nothing => false,
        }
    }
}

/// Why a stage hands nothing on.
#[derive(Debug, derive_more::From)]
pub(in crate::steps) enum Stop {
    /// The path ends here.
    #[from]
    Ended(Outcome),
    /// The outcome is recorded already: without a call, since nobody is left to be called or no attempt is left.
    Recorded(Recorded),
    /// A port did not answer, or another worker wrote the batch meanwhile.
    #[from(Error, ports::Error)]
    Failed(Error),
}

/// The result of a stage.
pub(in crate::steps) type Stage<T> = Result<T, Stop>;

impl From<Lost> for Stop {
    fn from(_: Lost) -> Self {
        Self::Ended(Outcome::ClaimLost)
    }
}

/// A batch that its limits let through.
pub(super) struct Admitted {
    pub(super) batch: Batch,
    pub(super) held: Vec<Held>,
    /// When its call may start.
    pub(super) start: Timestamp,
    /// When the circuit breaker was seen to let it through.
    pub(super) seen_open: Timestamp,
    /// The limiters that want to hear of an answer, since calls before it failed.
    pub(super) in_trouble: Vec<Scope>,
    /// Its calls end before. Permits last for longer if it waited for one, but its function's time does not.
    pub(super) deadline: Timestamp,
}

/// A batch that this worker has claimed. Its call comes next.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// As its claim left it.
    pub batch: Batch,
    /// Its members' tasks.
    pub(in crate::steps) tasks: Members,
    pub(in crate::steps) held: Vec<Held>,
    /// Its calls end before, and so before the leases of its permits.
    pub(in crate::steps) deadline: Timestamp,
    /// The limiters that want to hear of an answer, since calls before it failed.
    pub(super) in_trouble: Vec<Scope>,
}

impl Claimed {
    /// The tasks of its members, in their order, except those that the batch is called without. One that somebody
    /// deleted is left out.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let members = self.batch.members.iter().enumerate();
        let called = members.filter(|(position, _)| self.batch.omission(*position).is_none());
        called.filter_map(|(_, member)| self.tasks.get(&member.id))
    }
}

/// Returns the scopes of these permits.
pub(in crate::steps) fn scopes(held: &[Held]) -> Vec<Scope> {
    held.iter().map(|permit| permit.scope.clone()).collect()
}

/// The members' tasks, by id.
pub(in crate::steps) type Members = HashMap<TaskId, Task>;

/// The result of a claim's calls.
pub(super) struct Called {
    /// The batch as it is now; on its way to being taken apart, if that is not over.
    pub(super) batch: Batch,
    /// What was answered, or why not, with what that means to the breaker. `None`: parts are left to be called under
    /// another claim, since there is no time for more.
    pub(super) reply: Option<(Reply, FailureClass)>,
}

impl Called {
    /// Returns whether exactly one call reached the downstream, so that its hold time says how long calls take.
    pub(super) fn is_one_call(&self) -> bool {
        let is_made = match &self.reply {
            Some((Reply::Unavailable(failure), _)) => !matches!(failure.fault, Fault::Ours | Fault::Call),
            Some((Reply::PerMember(_) | Reply::Refused(_), _)) => true,
            Some((Reply::Begun(_), _)) | None => false,
        };
        is_made && self.batch.apart.is_none()
    }

    /// Returns whether the downstream works on and will answer later.
    pub(super) const fn has_begun_job(&self) -> bool {
        matches!(&self.reply, Some((Reply::Begun(_), _)))
    }

    /// Returns whether the downstream may still be at work on the last call.
    pub(super) fn timed_out(&self) -> bool {
        matches!(&self.reply, Some((Reply::Unavailable(failure), _)) if failure.reason.as_str() == TIMEOUT)
    }
}

/// A batch whose outcome this pass recorded. What follows from it is still to be done.
#[derive(Debug)]
pub(in crate::steps) struct Recorded {
    pub(super) batch: Box<Batch>,
    /// The traces of its members.
    pub(super) traces: Traces,
}

/// Reads a batch's members. Payloads never change, so half-price reads do; a member that a replica does not show yet,
/// or shows in an earlier round with fewer attempts, is read again at full price.
pub(super) async fn members(store: &impl Tasks, batch: &Batch) -> Result<Members, Error> {
    let ids: Vec<TaskId> = batch.members.iter().map(|member| member.id.clone()).collect();
    let found = store.read(&ids, Freshness::Eventual).await?;
    let mut tasks: Members = found.into_iter().map(|task| (task.id.clone(), task)).collect();
    let stale = |member: &&Member| tasks.get(&member.id).is_none_or(|task| task.round < member.round);
    let stale: Vec<TaskId> = batch.members.iter().filter(stale).map(|member| member.id.clone()).collect();
    if !stale.is_empty() {
        let found = store.read(&stale, Freshness::Latest).await?;
        tasks.extend(found.into_iter().map(|task| (task.id.clone(), task)));
    }
    Ok(tasks)
}
