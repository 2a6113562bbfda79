//! Where a task stands as people see it.

use serde::{Deserialize, Serialize};

use super::batch::{self, Batch, Member};
use super::ended::Ended;
use super::task::{Status, Task};

/// Where a task stands as people see it: [`Status`] plus what only its batch knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// Waits for its time.
    Scheduled,
    /// Waits for its turn in its lane.
    Queued,
    /// Waits for a batch.
    Created,
    /// In a batch that is not being called yet, or waits for its next attempt.
    Batched,
    /// Its batch is claimed and being called, or the job that its call has begun is under way.
    InProgress,
    /// Settled well.
    Succeeded,
    /// Settled badly.
    Failed,
    /// Ended by a person while it waited, before a call.
    Cancelled,
    /// Ended before a call, since nobody wanted it any more.
    Expired,
    /// Ended before a call, since a newer task with the same collapse key is called in its place.
    Superseded,
}

impl Shown {
    /// How a task stands, given its batch if it is in one.
    pub fn of(task: &Task, batch: Option<&Batch>) -> Self {
        match &task.status {
            Status::Scheduled { .. } => Self::Scheduled,
            Status::Queued => Self::Queued,
            Status::Created { .. } => Self::Created,
            Status::Batched { .. } => ended(task, batch).unwrap_or(match batch.map(|batch| &batch.status) {
                Some(batch::Status::InProgress { .. }) => Self::InProgress,
                Some(_) if batch.is_some_and(|batch| batch.under_way().is_some()) => Self::InProgress,
                Some(_) | None => Self::Batched,
            }),
            Status::Succeeded { .. } => Self::Succeeded,
            Status::Failed { .. } => ended(task, batch).unwrap_or(Self::Failed),
        }
    }
}

/// Why a task ended without a call: in no batch, or in one that was called without it.
fn ended(task: &Task, batch: Option<&Batch>) -> Option<Shown> {
    let ended = task.status.ended().or_else(|| {
        let member = Member { id: task.id.clone(), round: task.round };
        batch.and_then(|batch| batch.omission(batch.position(&member)?)).map(|omission| omission.ended)
    });
    ended.map(|ended| match ended {
        Ended::Cancelled => Shown::Cancelled,
        Ended::Expired => Shown::Expired,
        Ended::Superseded => Shown::Superseded,
    })
}
