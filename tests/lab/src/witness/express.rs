//! Tasks that name a batch from the beginning, and what becomes of that batch where a rule is broken.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::batch::{Assumes, Status};
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

/// The tasks that were to name each batch, whether they were there already or not.
pub(super) type Meant = BTreeMap<BatchId, Vec<Member>>;

impl Witness {
    /// A task is about to be put.
    pub(super) fn comes(&self, task: &Task) {
        if let task::Status::Batched { batch } = &task.status {
            let mut meant = self.meant.lock().unwrap_or_else(PoisonError::into_inner);
            let member = Member { id: task.id.clone(), round: task.round };
            meant.entry(batch.clone()).or_default().push(member);
        }
    }

    fn meant(&self, batch: &BatchId) -> Option<Vec<Member>> {
        self.meant.lock().unwrap_or_else(PoisonError::into_inner).get(batch).cloned()
    }

    /// The same write of a batch, or another one; `None` if it is not made.
    pub(super) fn express_write(&self, batch: &Batch, assumes: Assumes) -> Option<Batch> {
        let meant = self.meant(&batch.id).filter(|_| assumes == Assumes::Absent);
        match (self.mutation, meant, &batch.status) {
            (Some(Mutation::WritesExpressWithRepeats), Some(members), Status::Frozen) => {
                Some(Batch { members, ..batch.clone() })
            }
            (Some(Mutation::LeavesNoExpressVoid), Some(_), Status::Void) => None,
            _ => Some(batch.clone()),
        }
    }

    /// The same look at a batch, or another one.
    pub(super) fn express_look(&self, id: &BatchId, found: Option<Batch>) -> Option<Batch> {
        if self.mutation != Some(Mutation::TakesUnwrittenForDone) || found.is_some() {
            return found;
        }
        self.meant(id)?;
        let unwritten = Batch::void(id.clone(), Target::new("r:t"), Timestamp(0));
        Some(Batch { status: Status::Empty, ..unwritten })
    }

    /// Whether a task stays where it is instead of going back to waiting.
    pub(super) async fn stays(&self, task: &Candidate, batch: &BatchId) -> Result<bool> {
        if self.mutation != Some(Mutation::KeepsOutsiders) || self.meant(batch).is_none() {
            return Ok(false);
        }
        let lacks = |batch: Batch| batch.status != Status::Void && !is_in(&batch, &task.id);
        Ok(self.tables.batch(batch).await?.is_some_and(lacks))
    }
}

fn is_in(batch: &Batch, task: &TaskId) -> bool {
    batch.members.iter().any(|member| member.id == *task)
}
