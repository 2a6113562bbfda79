//! One unit of work and where it stands.

use serde::{Deserialize, Serialize};

use super::id::{BatchId, Round, Target, TaskId};
use super::outcome::Reason;
use super::time::Timestamp;

/// Where a task stands.
///
/// A task whose batch is being called is *shown* as in progress ([`Shown`]), from its batch, without a write per task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waits for a batch, in the index under `target`. A leader's [`join`](crate::ports::Tasks::join) moves it to
    /// `Batched`.
    Created {
        /// What it is grouped by.
        target: Target,
    },
    /// Named by a batch as its member, or about to be. The batch's outcome moves it to `Succeeded`, `Failed`, or, for
    /// another attempt, back to `Created` in the next round.
    Batched {
        /// The batch.
        batch: BatchId,
    },
    /// Settled: the downstream accepted it. Final.
    Succeeded {
        /// The batch that settled it.
        batch: BatchId,
    },
    /// Settled: refused for good, or its attempts are used up. Final.
    Failed {
        /// The batch that settled it.
        batch: BatchId,
        /// Why.
        reason: Reason,
    },
}

impl Status {
    /// The word stored in the `Status` attribute.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Created { .. } => CREATED,
            Self::Batched { .. } => BATCHED,
            Self::Succeeded { .. } => SUCCEEDED,
            Self::Failed { .. } => FAILED,
        }
    }

    /// The batch it is or was in.
    #[must_use]
    pub const fn batch(&self) -> Option<&BatchId> {
        match self {
            Self::Created { .. } => None,
            Self::Batched { batch } | Self::Succeeded { batch } | Self::Failed { batch, .. } => Some(batch),
        }
    }

    /// Whether nothing more will happen to the task.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        matches!(self, Self::Succeeded { .. } | Self::Failed { .. })
    }
}

/// The stored word for [`Status::Created`].
pub const CREATED: &str = "created";
/// The stored word for [`Status::Batched`].
pub const BATCHED: &str = "batched";
/// The stored word for [`Status::Succeeded`].
pub const SUCCEEDED: &str = "succeeded";
/// The stored word for [`Status::Failed`].
pub const FAILED: &str = "failed";

/// A task as its table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Where it stands.
    pub status: Status,
    /// How often it has returned to waiting.
    pub round: Round,
    /// Calls it was part of in earlier rounds.
    pub attempts: u32,
    /// The payload as the sender wrote it, less insignificant white space.
    pub payload: String,
    /// [`digest`](super::id::digest) of the payload: tells a repeat from another task under the same id.
    pub digest: String,
    /// When it was registered.
    pub created_at: Timestamp,
}

impl Task {
    /// A task as registration first writes it.
    #[must_use]
    pub fn new(id: TaskId, target: Target, payload: String, digest: String, now: Timestamp) -> Self {
        Self { id, status: Status::Created { target }, round: Round(0), attempts: 0, payload, digest, created_at: now }
    }

    /// What grouping needs to know of it.
    #[must_use]
    pub fn candidate(&self) -> Candidate {
        Candidate { id: self.id.clone(), round: self.round, bytes: payload_bytes(&self.payload) }
    }

    /// Whether it waits, in just this round.
    #[must_use]
    pub fn waits_in(&self, round: Round) -> bool {
        self.round == round && matches!(self.status, Status::Created { .. })
    }
}

/// A task that may become a batch's member: carried by messages and by the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The task.
    pub id: TaskId,
    /// The round it was seen waiting in; its move is conditional on it.
    pub round: Round,
    /// Bytes of its payload.
    pub bytes: u32,
}

/// A payload's size as batch limits count it, in bytes.
#[must_use]
pub fn payload_bytes(payload: &str) -> u32 {
    u32::try_from(payload.len()).unwrap_or(u32::MAX)
}

/// What a repeated registration means, given the task that is already there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Other content under the same id: refuse the newcomer.
    Conflict,
    /// Still waiting: drive it on with an election message.
    Waiting {
        /// What it is grouped by.
        target: Target,
        /// What to elect for.
        candidate: Candidate,
    },
    /// In a batch: that batch decides what drives it on.
    InBatch {
        /// The batch.
        batch: BatchId,
    },
    /// Nothing is left to do.
    Settled,
}

/// Decides what the second registration of an id must do.
#[must_use]
pub fn decide_repeat(existing: &Task, digest: &str) -> Repeat {
    if existing.digest != digest {
        return Repeat::Conflict;
    }
    match &existing.status {
        Status::Created { target } => Repeat::Waiting { target: target.clone(), candidate: existing.candidate() },
        Status::Batched { batch } => Repeat::InBatch { batch: batch.clone() },
        Status::Succeeded { .. } | Status::Failed { .. } => Repeat::Settled,
    }
}

/// Where a task stands as people see it: [`Status`] plus what only its batch knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// Waits for a batch.
    Created,
    /// In a batch that is not being called yet, or waits for its next attempt.
    Batched,
    /// Its batch is claimed and being called.
    InProgress,
    /// Settled well.
    Succeeded,
    /// Settled badly.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RouteName;

    fn task() -> Task {
        let target = Target::of(&RouteName::new("r"), "t");
        Task::new(TaskId::new("a"), target, "{}".into(), "d1".into(), Timestamp(5))
    }

    #[test]
    fn the_same_id_with_other_content_is_a_conflict_whatever_its_status() {
        let mut task = task();
        assert_eq!(decide_repeat(&task, "d2"), Repeat::Conflict);
        task.status = Status::Succeeded { batch: BatchId::new("b") };
        assert_eq!(decide_repeat(&task, "d2"), Repeat::Conflict);
    }

    #[test]
    fn a_repeat_of_a_waiting_task_elects_again_in_its_present_round() {
        let mut task = task();
        task.round = Round(2);
        let Repeat::Waiting { candidate, .. } = decide_repeat(&task, "d1") else { panic!("must elect") };
        assert_eq!(candidate.round, Round(2));
    }

    #[test]
    fn a_repeat_of_a_settled_task_does_nothing() {
        let mut task = task();
        task.status = Status::Succeeded { batch: BatchId::new("b") };
        assert_eq!(decide_repeat(&task, "d1"), Repeat::Settled);
    }
}
