//! Tasks of which somebody had the contents erased: what is left is that their ids were used.
//!
//! The tombstone has the id, the status, the reason of a failure, and who is tied to the task: enough for a late copy
//! of its message to be taken for a repeat, and nothing of what it said. It takes no part in anything that is still to
//! be done, so only a settled task of which everybody has heard is erased. A task that waits is cancelled before.

use super::batch::Batch;
use super::id::{BatchId, Target};
use super::task::{Status, Task};

/// What stands where a Target stood that nobody may read any more.
const ERASED: &str = "erased";

/// Why a task is not erased now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is none of this id.
    #[error("no task with this id is known: it was not registered (yet), waits on a list, or was settled long ago")]
    Unknown,
    /// Its call may be under way, and reads the payload.
    #[error("it is in batch {0}, whose call may be under way: repeat this when the batch is settled")]
    InBatch(BatchId),
    /// Notices and acks are still to come, and read the task.
    #[error("others are still being told of its outcome: repeat this in a minute")]
    Untold,
}

/// What becomes of a task that is to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erases {
    /// Its contents go.
    Now,
    /// They are gone already.
    Before,
    /// It waits: it is cancelled first.
    OnceCancelled,
}

impl Task {
    /// Whether its contents were erased. A payload is a JSON object, so it is never empty by itself.
    pub const fn is_erased(&self) -> bool {
        self.payload.is_empty()
    }

    /// Whether a message with this digest is a repeat of the one that it came by. What an erased task said is not known
    /// any more: whatever comes under its id counts as a repeat, and is dropped.
    pub fn is_repeated_by(&self, digest: &str) -> bool {
        self.is_erased() || self.digest == digest
    }

    /// What becomes of it if it is to be erased, given the batch that settled it if that is still there.
    pub fn erases(&self, batch: Option<&Batch>) -> Result<Erases, Refused> {
        match &self.status {
            Status::Scheduled { .. } | Status::Queued | Status::Created { .. } => Ok(Erases::OnceCancelled),
            Status::Batched { batch } => Err(Refused::InBatch(batch.clone())),
            Status::Succeeded { .. } | Status::Failed { .. } if self.is_erased() => Ok(Erases::Before),
            Status::Succeeded { .. } | Status::Failed { .. } => match batch.and_then(Batch::unfinished) {
                Some(_) => Err(Refused::Untold),
                None => Ok(Erases::Now),
            },
        }
    }
}

impl Batch {
    /// The batch without what its calls were answered and without its job, since an answer and a URL may quote a
    /// payload, and without its Target if no member has one any more. `None` if nothing is left to erase, or something
    /// is left to do.
    pub fn erased(&self, is_nobodys: bool) -> Option<Self> {
        let target = if is_nobodys { Target::of(&self.target.route(), ERASED) } else { self.target.clone() };
        let says_more = self.answers.is_some() || self.job.is_some() || target != self.target;
        let is_done = self.unfinished().is_none() && says_more;
        let revision = self.revision.next();
        is_done.then(|| Self { target, answers: None, job: None, revision, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::{FollowUp, Status as BatchStatus};
    use crate::domain::ended::Ended;
    use crate::domain::id::{Fence, RouteName, TaskId};
    use crate::domain::outcome::Results;
    use crate::domain::time::Timestamp;

    fn target() -> Target {
        Target::of(&RouteName::new("r"), "somebody's address")
    }

    fn task(status: Status) -> Task {
        let task = Task::new(TaskId::new("a"), target(), "{}".to_owned(), "d".to_owned(), Timestamp(5));
        Task { status, ..task }
    }

    fn batch(follow_up: FollowUp) -> Batch {
        let members = [task(Status::Queued).candidate()];
        let open = Batch::open(BatchId::new("b"), target(), Fence(1), &members, Timestamp(5), 0);
        Batch { status: BatchStatus::Settled { at: Timestamp(6), results: Results::new(), follow_up }, ..open }
    }

    #[test]
    fn only_a_settled_task_of_which_everybody_has_heard_is_erased() {
        let id = BatchId::new("b");
        let (done, pending) = (batch(FollowUp::Done), batch(FollowUp::Pending));
        let succeeded = task(Status::Succeeded { batch: id.clone() });
        assert_eq!(succeeded.erases(Some(&done)), Ok(Erases::Now));
        assert_eq!(succeeded.erases(None), Ok(Erases::Now), "its batch has expired");
        assert_eq!(succeeded.erases(Some(&pending)), Err(Refused::Untold));
        assert_eq!(Task { payload: String::new(), ..succeeded }.erases(Some(&done)), Ok(Erases::Before));
        let cancelled = task(Status::Failed { batch: None, reason: Ended::Cancelled.reason() });
        assert_eq!(cancelled.erases(None), Ok(Erases::Now));
        assert_eq!(task(Status::Batched { batch: id.clone() }).erases(Some(&done)), Err(Refused::InBatch(id)));
        let scheduled = Status::Scheduled { target: target(), due: Timestamp(9) };
        for waits in [scheduled, Status::Queued, Status::Created { target: target() }] {
            assert_eq!(task(waits).erases(None), Ok(Erases::OnceCancelled));
        }
    }

    #[test]
    fn whatever_comes_under_the_id_of_an_erased_task_is_a_repeat() {
        let kept = task(Status::Queued);
        assert!(kept.is_repeated_by("d") && !kept.is_repeated_by("e"));
        assert!(Task { payload: String::new(), digest: String::new(), ..kept }.is_repeated_by("e"));
    }

    #[test]
    fn a_batch_keeps_its_target_while_a_member_has_one_and_nothing_is_taken_from_one_that_is_not_done() {
        let done = batch(FollowUp::Done);
        assert_eq!(done.erased(false), None, "there is nothing to erase");
        let erased = done.erased(true).unwrap();
        assert_eq!((erased.target.as_str(), erased.revision), ("r:erased", done.revision.next()));
        assert_eq!(erased.erased(true), None, "a repeat writes nothing");
        assert_eq!(batch(FollowUp::Pending).erased(true), None);
    }
}
