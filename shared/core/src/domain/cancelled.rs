//! Tasks that a person cancels: they end while they wait, before any call.
//!
//! What waits for a batch, or for its turn in its lane, is ended by one write, conditional on just that. A candidate of
//! an open batch that was not moved yet misses its move, as any candidate does that is elsewhere by then. A task that
//! names a batch is left alone: its members are as good as final, and the call may begin at any moment.

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
    /// It is settled.
    #[error("it is settled: {0}")]
    Settled(&'static str),
}

/// What becomes of a task that is to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancels {
    /// It waits, and ends.
    Now,
    /// It was cancelled before.
    Before,
}

impl Task {
    /// What becomes of it if it is to be cancelled.
    pub fn cancels(&self) -> Result<Cancels, Refused> {
        match &self.status {
            Status::Queued | Status::Created { .. } => Ok(Cancels::Now),
            Status::Batched { batch } => Err(Refused::InBatch(batch.clone())),
            status if status.ended() == Some(Ended::Cancelled) => Ok(Cancels::Before),
            status @ (Status::Succeeded { .. } | Status::Failed { .. }) => Err(Refused::Settled(status.word())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{Target, TaskId};
    use crate::domain::outcome::Reason;
    use crate::domain::time::Timestamp;

    #[test]
    fn what_waits_is_cancelled_and_nothing_that_may_be_called() {
        let target = Target::new("r:t");
        let task = Task::new(TaskId::new("a"), target.clone(), "{}".to_owned(), String::new(), Timestamp(5));
        let of = |status| Task { status, ..task.clone() }.cancels();
        let batch = BatchId::new("b");
        let failed = |batch, reason| Status::Failed { batch, reason };
        assert_eq!(of(Status::Queued), Ok(Cancels::Now));
        assert_eq!(of(Status::Created { target }), Ok(Cancels::Now));
        assert_eq!(of(Status::Batched { batch: batch.clone() }), Err(Refused::InBatch(batch.clone())));
        assert_eq!(of(Status::Succeeded { batch: batch.clone() }), Err(Refused::Settled("succeeded")));
        assert_eq!(of(failed(None, Ended::Cancelled.reason())), Ok(Cancels::Before));
        // A downstream may say the same word.
        assert_eq!(of(failed(Some(batch), Ended::Cancelled.reason())), Err(Refused::Settled("failed")));
        assert_eq!(of(failed(None, Reason::new("predecessor_failed"))), Err(Refused::Settled("failed")));
    }
}
