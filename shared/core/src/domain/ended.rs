//! Tasks that end without a call: a person cancels them, or the time is past until which their sender wants them.
//!
//! What waits for a batch, or for its turn in its lane, is ended by one write. What is in a batch ends if no call of
//! the batch has begun: the batch notes that it is called without it ([`Omitted`](super::batch::Omitted)). Whether it
//! ends so or so, nobody has to look into it, so it is not filed among the failed.

use serde::{Deserialize, Serialize};

use super::outcome::Reason;
use super::task::{Status, Task};
use super::time::Timestamp;

/// Why a task ended without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// A person said so.
    Cancelled,
    /// The time was past until which its sender wanted it.
    Expired,
    /// A newer task with the same collapse key is called in its place.
    Superseded,
}

impl Ended {
    /// As a task's reason.
    pub fn reason(self) -> Reason {
        match self {
            Self::Cancelled => Reason::new("cancelled"),
            Self::Expired => Reason::new("expired"),
            Self::Superseded => Reason::new("superseded"),
        }
    }

    fn of(reason: &Reason) -> Option<Self> {
        [Self::Cancelled, Self::Expired].into_iter().find(|ended| ended.reason() == *reason)
    }
}

impl Status {
    /// Why the task ended while it waited, in no batch.
    pub fn ended(&self) -> Option<Ended> {
        if let Self::Failed { batch: None, reason } = self { Ended::of(reason) } else { None }
    }
}

impl Task {
    /// Whether the time is past until which its sender wants it.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{BatchId, Target, TaskId};

    #[test]
    fn what_ended_without_a_batch_is_told_from_what_a_downstream_says() {
        let failed = |batch, reason| Status::Failed { batch, reason };
        for ended in [Ended::Cancelled, Ended::Expired] {
            assert_eq!(failed(None, ended.reason()).ended(), Some(ended));
            assert_eq!(failed(Some(BatchId::new("b")), ended.reason()).ended(), None);
        }
        assert_eq!(failed(None, Reason::new("predecessor_failed")).ended(), None);
        assert_eq!(Status::Queued.ended(), None);
    }

    #[test]
    fn a_task_expires_at_its_time_and_without_one_never() {
        let task = Task::new(TaskId::new("a"), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(5));
        assert!(!task.has_expired(Timestamp(u64::MAX)));
        let task = task.expiring(Some(Timestamp(7)));
        assert_eq!([6, 7, 8].map(|now| task.has_expired(Timestamp(now))), [false, true, true]);
    }
}
