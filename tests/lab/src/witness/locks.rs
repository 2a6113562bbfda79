//! Locks under observation: one leader at a time, who leaves nobody behind.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::lock::Acquisition;
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

/// For each home's lock that is held, the tasks that waited when somebody last asked its holder to look again, with the
/// shard of each, except shards that have had a leader of their own since.
pub(super) type Asked = BTreeMap<Target, Vec<(Target, Candidate)>>;

impl Witness {
    /// All tasks that wait for a Target's leader, in shards that it comes to and that have no leader of their own.
    async fn waiting_for_home(&self, home: &Target) -> Result<Vec<(Target, Candidate)>> {
        let shards = self.shards.get(&home.route()).copied().unwrap_or(1);
        let mut waiting = Vec::new();
        for task in self.tables.tasks() {
            if let task::Status::Created { target } = &task.status
                && target.whole() == *home
                && (target == home || !target.stands_alone(shards))
                && (target == home || self.tables.lock(target).await?.is_none_or(|lock| lock.holder.is_none()))
            {
                waiting.push((target.clone(), task.candidate()));
            }
        }
        Ok(waiting)
    }

    /// A leader that was asked to look again leaves nobody behind who had come before that.
    async fn nobody_is_left_behind(&self, target: &Target) -> Result<()> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(target).unwrap_or_default();
        for (_, candidate) in asked {
            if let Some(task) = self.task(&candidate.id).await?
                && task.waits_in(candidate.round)
            {
                self.note(format!("one leader: {target} was released, and {} had asked for another look", task.id));
            }
        }
        Ok(())
    }
}

impl layer::Locks for Witness {
    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let held = self.tables.lock(target).await?;
        let mut acquisition = acquisition.clone();
        if let (Some(Mutation::AcquiresHeldLocks), Some(held)) = (self.mutation, &held) {
            acquisition.assumes = lock::Assumes::Unchanged(held.clone());
        }
        let acquired = self.tables.acquire(target, &acquisition).await?;
        if acquired == Acquired::Yes {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.remove(target);
            if let Some(of_home) = asked.get_mut(&target.whole()) {
                of_home.retain(|(shard, _)| shard != target);
            }
        }
        if let (Some(held), Some(now)) = (held, self.tables.lock(target).await?)
            && now.fence < held.fence
        {
            self.note(format!("one leader: the fence of {target} fell"));
        }
        Ok(acquired)
    }

    async fn signal(&self, term: &Term) -> Result<Signalled> {
        let target = &term.target;
        // A shard's leader leaves what fills no batch to the home's.
        let is_watched = self.sees_all && target.shard() == Shard::HOME;
        let waiting = if is_watched { Some(self.waiting_for_home(target).await?) } else { None };
        let signalled = match self.mutation {
            Some(Mutation::LosersDoNotSignal) => Signalled::Yes,
            Some(_) | None => self.tables.signal(term).await?,
        };
        // One that is refused asks for nothing.
        if let (Some(waiting), Signalled::Yes) = (waiting, &signalled) {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(target.clone(), waiting);
        }
        Ok(signalled)
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        if self.mutation == Some(Mutation::AdvancesWithoutTheFence)
            && let Some(lock) = self.tables.lock(&term.target).await?
            && let Some(holder) = &lock.holder
        {
            let term = Term { workflow: holder.workflow.clone(), fence: lock.fence, ..term.clone() };
            return self.tables.advance(&term, lock.seq, lease_until).await;
        }
        self.tables.advance(term, seq, lease_until).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        let signals = match self.mutation {
            Some(Mutation::ReleasesWithoutLookingAtSignals) => {
                self.tables.lock(&term.target).await?.map_or(signals, |lock| lock.signals)
            }
            Some(_) | None => signals,
        };
        let released = self.tables.release(term, seq, signals, now).await?;
        if released == Released::Yes {
            self.nobody_is_left_behind(&term.target).await?;
        }
        Ok(released)
    }
}
