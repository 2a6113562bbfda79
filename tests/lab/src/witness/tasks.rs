//! Tasks under observation: each is settled once, by the batch that it is in.

use groupage_core::domain::task::Ties;
use groupage_core::ports::{Result, Spot};

use super::Witness;
use crate::prelude::*;

impl Witness {
    pub(super) async fn task(&self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.tables.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next())
    }
}

impl layer::Tasks for Witness {
    type Cursor = Spot;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.comes(task);
        let registered = self.tables.register(task).await?;
        if registered == Registered::New {
            self.event_came(task);
        }
        Ok(registered)
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let round = match self.mutation {
            Some(Mutation::JoinsInAnyRound) => self.task(id).await?.map_or(round, |task| task.round),
            Some(_) | None => round,
        };
        self.tables.join(id, round, batch).await
    }

    async fn take_turn(&self, (id, traits): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack> {
        if self.mutation == Some(Mutation::TakesExpiredForUnended) && self.task(id).await?.is_none() {
            return Ok(PutBack::MovedOn);
        }
        let taken = self.tables.take_turn((id, traits), target, now).await?;
        if taken == PutBack::Waits {
            self.comes_in_order(id).await?;
        }
        Ok(taken)
    }

    async fn pass_over(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let passed = self.tables.pass_over(id, failure, now).await?;
        self.event_settled(passed.as_ref().and_then(|passed| passed.ties.event.as_ref()));
        Ok(passed)
    }

    async fn end(&self, id: &TaskId, round: Round, ending: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let ended = self.tables.end(id, round, ending, now).await?;
        self.event_settled(ended.as_ref().and_then(|ended| ended.ties.event.as_ref()));
        Ok(ended)
    }

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        if self.mutation == Some(Mutation::PutsBackFromAnyBatch)
            && let Some(task) = self.task(&back.member.id).await?
            && let Some(batch) = task.status.batch()
        {
            let member = &Candidate { round: task.round, ..back.member.clone() };
            return self.tables.put_back(WayBack { member, batch, ..back }).await;
        }
        if self.stays(back.member, back.batch).await? {
            return Ok(PutBack::MovedOn);
        }
        self.tables.put_back(back).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        let task = self.task(&member.id).await?;
        let ties = self.tables.settle(member, batch, settlement, now).await?;
        let after = self.task(&member.id).await?;
        if let (Some(before), Some(after)) = (task, after)
            && before.status != after.status
        {
            self.event_settled(after.event.as_ref());
            if before.status.is_settled() {
                self.note(format!("settled once: {} was settled again", member.id));
            }
            if before.round != member.round || before.status.batch() != Some(batch) {
                self.note(format!("settled once: {} was settled by a batch it is not in", member.id));
            }
        }
        Ok(ties)
    }
}
