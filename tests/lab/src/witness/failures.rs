//! Failed tasks under observation: a retry is a new round of a task that has failed, and overtakes nobody in its lane.

use std::sync::PoisonError;

use groupage_core::domain::failed::Retry;
use groupage_core::domain::task::Status;
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

impl Witness {
    /// How often a task was retried.
    pub fn retries(&self, id: &TaskId) -> usize {
        self.retried.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied().unwrap_or_default()
    }
}

impl layer::Failures for Witness {
    async fn retry(&self, retry: &Retry) -> Result<Stored> {
        let before = self.task(&retry.id).await?;
        let mut written = retry.clone();
        if let (Some(Mutation::ForgetsRetriesOfLanes), Some(lane)) = (self.mutation, &mut written.lane) {
            *lane = Lane { since: Round(0), ..lane.clone() };
        }
        let stored = self.tables.retry(&written).await?;
        let after = self.task(&retry.id).await?;
        if let (Some(before), Some(after)) = (before, after)
            && before.status != after.status
        {
            *self.retried.lock().unwrap_or_else(PoisonError::into_inner).entry(retry.id.clone()).or_default() += 1;
            if !matches!(before.status, Status::Failed { .. }) || after.round != before.round.next() {
                self.note(format!("a retry is a new round: {} was {before:?} and is {after:?}", retry.id));
            }
            self.overtakes_nobody(&retry.id);
        }
        Ok(stored)
    }
}
