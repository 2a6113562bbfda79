//! Tasks that a person cancels: they end while they wait, before any call.
//!
//! What waits for a batch, for its turn in its lane or for its time, is ended by one write, conditional on just that. A
//! candidate of an open batch that was not moved yet misses its move, as any candidate does that is elsewhere by then.
//! What is in a batch whose call has not begun is left out of that call, also while the batch takes more tasks: its
//! leader's next write is refused then, and the leader reads the batch again. From the first call on a task is left
//! alone.

use super::batch::{Batch, Member, Status as Stands};
use super::ended::Ended;
use super::id::BatchId;
use super::task::{Status, Task};

/// Why a task is not cancelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is none of this id.
    #[error("no task with this id is known: it was not registered (yet), waits on a list, or was settled long ago")]
    Unknown,
    /// Its call may have begun.
    #[error("it is in batch {0}, whose call may have begun")]
    InBatch(BatchId),
    /// It is between two batches, or its batch is about to be written.
    #[error("it is on its way into or out of batch {0}: cancel it again in a moment")]
    OnItsWay(BatchId),
    /// It is settled.
    #[error("it is settled: {0}")]
    Settled(&'static str),
}

/// What becomes of a task that is to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancels {
    /// It waits, and ends.
    Now,
    /// It is or was in this batch, which says.
    AsItsBatchSays(BatchId),
    /// It was cancelled before.
    Before,
}

impl Task {
    /// What becomes of it if it is to be cancelled.
    pub fn cancels(&self) -> Result<Cancels, Refused> {
        match &self.status {
            Status::Scheduled { .. } | Status::Queued | Status::Created { .. } => Ok(Cancels::Now),
            Status::Batched { batch } => Ok(Cancels::AsItsBatchSays(batch.clone())),
            // A downstream may say the same word.
            Status::Failed { batch: Some(batch), reason } if *reason == Ended::Cancelled.reason() => {
                Ok(Cancels::AsItsBatchSays(batch.clone()))
            }
            status if status.ended() == Some(Ended::Cancelled) => Ok(Cancels::Before),
            status @ (Status::Succeeded { .. } | Status::Failed { .. }) => Err(Refused::Settled(status.word())),
        }
    }
}

/// What becomes of a batch's member that is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The batch is called without the one in this position.
    Now(usize),
    /// It was cancelled before.
    Before,
}

impl Batch {
    /// What becomes of a task that names this batch, if it is to be cancelled.
    ///
    /// # Errors
    /// Why it is not.
    pub fn cancels(&self, task: &Task) -> Result<Leaves, Refused> {
        let position = self.position(&Member { id: task.id.clone(), round: task.round });
        if let Some(omission) = position.and_then(|position| self.omission(position)) {
            return match omission.ended {
                Ended::Cancelled => Ok(Leaves::Before),
                Ended::Expired => Err(Refused::Settled("expired")),
                Ended::Superseded => Err(Refused::Settled("superseded")),
            };
        }
        if task.status.is_settled() {
            return Err(Refused::Settled(task.status.word()));
        }
        match (position, &self.status) {
            (Some(position), Stands::Open { .. } | Stands::Closing) => Ok(Leaves::Now(position)),
            (Some(position), _) if self.is_uncalled() => Ok(Leaves::Now(position)),
            (Some(_), Stands::Frozen | Stands::InProgress { .. } | Stands::Paused { .. } | Stands::Settled { .. }) => {
                Err(Refused::InBatch(self.id.clone()))
            }
            (None, _) | (_, Stands::Empty | Stands::Void) => Err(Refused::OnItsWay(self.id.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Claim;
    use crate::domain::id::{Fence, Round, SessionId, Target, TaskId};
    use crate::domain::outcome::Reason;
    use crate::domain::outcome::Results;
    use crate::domain::time::Timestamp;

    #[test]
    fn what_waits_is_cancelled_and_nothing_that_may_be_called() {
        let target = Target::new("r:t");
        let task = Task::new(TaskId::new("a"), target.clone(), "{}".to_owned(), String::new(), Timestamp(5));
        let of = |status| Task { status, ..task.clone() }.cancels();
        let batch = BatchId::new("b");
        let failed = |batch, reason| Status::Failed { batch, reason };
        assert_eq!(of(Status::Queued), Ok(Cancels::Now));
        assert_eq!(of(Status::Scheduled { target: target.clone(), due: Timestamp(9) }), Ok(Cancels::Now));
        assert_eq!(of(Status::Created { target }), Ok(Cancels::Now));
        let in_batch = Ok(Cancels::AsItsBatchSays(batch.clone()));
        assert_eq!(of(Status::Batched { batch: batch.clone() }), in_batch);
        assert_eq!(of(Status::Succeeded { batch: batch.clone() }), Err(Refused::Settled("succeeded")));
        assert_eq!(of(failed(None, Ended::Cancelled.reason())), Ok(Cancels::Before));
        assert_eq!(of(failed(Some(batch), Ended::Cancelled.reason())), in_batch);
        assert_eq!(of(failed(None, Reason::new("predecessor_failed"))), Err(Refused::Settled("failed")));
    }

    #[test]
    fn a_member_is_left_out_of_a_batch_until_its_first_call_begins() {
        let task = Task::new(TaskId::new("a"), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(5));
        let open = Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &[task.candidate()], Timestamp(5), 9);
        let task = task.batched_in(open.id.clone());
        let frozen = open.frozen(open.members.clone());
        assert_eq!(open.cancels(&task), Ok(Leaves::Now(0)), "its window is open");
        assert_eq!(open.closing().cancels(&task), Ok(Leaves::Now(0)));
        assert_eq!(frozen.cancels(&task), Ok(Leaves::Now(0)));
        assert_eq!(frozen.paused(Timestamp(9)).cancels(&task), Ok(Leaves::Now(0)), "its downstream is away");
        let called = frozen.claimed(Claim { session: SessionId::new("r/s") });
        let settled = called.settled(Results::new(), Timestamp(9));
        for late in [&called, &called.paused(Timestamp(9)), &settled] {
            assert_eq!(late.cancels(&task), Err(Refused::InBatch(open.id.clone())), "{:?}", late.status);
        }
        let other = Task { round: Round(1), ..task.clone() };
        assert_eq!(frozen.cancels(&other), Err(Refused::OnItsWay(open.id.clone())), "it is no member");
        let without = |ended| frozen.clone().leaving_out([(0, 0)], ended, Timestamp(9));
        assert_eq!(without(Ended::Cancelled).cancels(&task), Ok(Leaves::Before));
        assert_eq!(without(Ended::Expired).cancels(&task), Err(Refused::Settled("expired")));
        let status = Status::Failed { batch: Some(open.id), reason: Ended::Cancelled.reason() };
        let said = Task { status, ..task };
        assert_eq!(without(Ended::Cancelled).cancels(&said), Ok(Leaves::Before));
        assert_eq!(called.cancels(&said), Err(Refused::Settled("failed")), "the downstream said so");
    }
}
