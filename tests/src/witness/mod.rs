//! A store that notes every write that must happen once, or never.

mod express;
mod lists;
mod order;
mod streams;
mod trackers;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shared::domain::batch::{Assumes, Batch, FollowUp, Member, Status};
use shared::domain::gate::{Gate, Scope};
use shared::domain::id::{BatchId, Beat, Part, Pool, Round, RouteName, Seq, SessionId, Shard, Target, TaskId};
use shared::domain::lock::{self, Acquisition, Held, Lock, Term};
use shared::domain::outcome::Reason;
use shared::domain::session::Session;
use shared::domain::task::{self, Candidate, Task, Ties};
use shared::domain::time::Timestamp;
use shared::memory::MemoryStore;
use shared::ports::{
    Acquired, Advanced, Batches, Ended, Freshness, Gates, Joined, Locks, Page, PassedOver, PutBack, Registered,
    Released, Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, WaitingPage,
};

use tokio::time::Instant;

use crate::mutation::Mutation;

pub(crate) use lists::is_release;

/// Tables in memory under observation; or, to show that the observation bites, with one rule broken.
#[derive(Debug, Default)]
pub struct Witness {
    pub(crate) tables: MemoryStore,
    pub(crate) mutation: Option<Mutation>,
    broken: Mutex<Vec<String>>,
    /// Each batch's members as they were frozen.
    frozen: Mutex<BTreeMap<BatchId, Vec<Member>>>,
    /// Gates that were closed: which, when that was durable, and until when.
    pauses: Mutex<Vec<(Scope, Instant, Timestamp)>>,
    /// For each home's lock that is held, the tasks that waited when somebody last asked its holder to look again, with the
    /// shard of each; but for shards that have had a leader of their own since.
    signalled: Mutex<BTreeMap<Target, Vec<(Target, Candidate)>>>,
    /// Whether the index shows everything at once, so that a leader that looks again finds it.
    sees_all: bool,
    /// The tasks that were to name a batch from the beginning.
    meant: Mutex<express::Meant>,
    /// Who came to which lane, by turn.
    accepted: Mutex<order::Accepted>,
    /// Events whose tasks are on their way.
    unsettled: Mutex<streams::Unsettled>,
    /// What was seen of trackers.
    trackers: Mutex<trackers::Seen>,
    /// What was seen of lists.
    lists: Mutex<lists::Seen>,
}

impl Witness {
    /// Empty tables; `sees_all` says that no index lags.
    #[must_use]
    pub fn new(mutation: Option<Mutation>, sees_all: bool) -> Self {
        Self { mutation, sees_all, ..Self::default() }
    }

    /// The tables themselves.
    #[must_use]
    pub const fn tables(&self) -> &MemoryStore {
        &self.tables
    }

    /// The promises that were seen broken.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gates that were closed: which, when that was durable, and until when.
    #[must_use]
    pub fn pauses(&self) -> Vec<(Scope, Instant, Timestamp)> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note(&self, what: String) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Compares a batch that was written with the one it took the place of.
    fn compare(&self, old: Option<&Batch>, new: &Batch) {
        let id = &new.id;
        let settled = |batch: &Batch| matches!(batch.status, Status::Settled { .. });
        if let Some(old) = old {
            if old.status.is_final() && new.status.word() != old.status.word() {
                self.note(format!(
                    "one acknowledgement: {id} went from {} to {}",
                    old.status.word(),
                    new.status.word()
                ));
            }
            if settled(old) && settled(new) && results(old) != results(new) {
                self.note(format!("one acknowledgement: the outcome of {id} was recorded anew"));
            }
            if matches!(new.status, Status::Settled { .. }) && !settled(old) && old.claimed_by().is_none() {
                self.note(format!("one acknowledgement: {id} was settled without a claim"));
            }
        }
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if new.is_callable() || settled(new) {
            let members = frozen.entry(id.clone()).or_insert_with(|| new.members.clone());
            if *members != new.members {
                self.note(format!("members never change: {id} had {members:?} and got {:?}", new.members));
            }
        } else if frozen.contains_key(id) {
            self.note(format!("members never change: {id} went back to {}", new.status.word()));
        }
    }
}

fn results(batch: &Batch) -> Option<&shared::domain::outcome::Results> {
    match &batch.status {
        Status::Settled { results, .. } => Some(results),
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Empty
        | Status::Void => None,
    }
}

impl Batches for Witness {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        Ok(self.express_look(id, self.tables.batch(id).await?))
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let Some(batch) = &self.express_write(batch, assumes) else { return Ok(Stored::Yes) };
        let old = self.tables.batch(&batch.id).await?;
        let (batch, assumes) = match self.mutation.map(|mutation| mutation.of_store(batch, assumes, old.as_ref())) {
            Some(None) => return Ok(Stored::Yes),
            Some(Some((batch, assumes))) => (batch, assumes),
            None => (batch.clone(), assumes),
        };
        let stored = self.tables.store(&batch, assumes).await?;
        let fresh = old.as_ref() != Some(&batch);
        if stored == Stored::Yes && fresh {
            self.compare(old.as_ref(), &batch);
            self.only_the_leader_adds(&batch).await?;
            self.only_the_dead_are_taken_over(old.as_ref(), &batch).await?;
        }
        Ok(stored)
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        self.tables.unfinished(route, part, before, limit).await
    }
}

impl Tasks for Witness {
    type Cursor = TaskId;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.comes(task);
        let registered = self.tables.register(task).await?;
        if registered == Registered::New {
            self.event_came(task);
        }
        Ok(registered)
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.tables.read(ids, freshness).await
    }

    async fn waiting(&self, target: &Target, after: Option<&TaskId>, limit: usize) -> Result<Page<TaskId>> {
        self.tables.waiting(target, after, limit).await
    }

    async fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        after: Option<&TaskId>,
        limit: usize,
    ) -> Result<WaitingPage<TaskId>> {
        self.tables.waiting_long(since, segment, after, limit).await
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let round = match self.mutation {
            Some(Mutation::JoinsInAnyRound) => self.task(id).await?.map_or(round, |task| task.round),
            Some(_) | None => round,
        };
        self.tables.join(id, round, batch).await
    }

    async fn take_turn(&self, id: &TaskId, target: &Target, now: Timestamp) -> Result<PutBack> {
        let taken = self.tables.take_turn(id, target, now).await?;
        if taken == PutBack::Waits {
            self.comes_in_order(id).await?;
        }
        Ok(taken)
    }

    async fn pass_over(&self, id: &TaskId, reason: &Reason, now: Timestamp) -> Result<Option<PassedOver>> {
        let passed = self.tables.pass_over(id, reason, now).await?;
        self.event_settled(passed.as_ref().and_then(|passed| passed.ties.event.as_ref()));
        Ok(passed)
    }

    async fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> Result<PutBack> {
        if self.mutation == Some(Mutation::PutsBackFromAnyBatch)
            && let Some(task) = self.task(&member.id).await?
            && let Some(named) = task.status.batch()
        {
            let member = Candidate { round: task.round, ..member.clone() };
            return self.tables.put_back(&member, named, target, attempts, now).await;
        }
        if self.stays(member, batch).await? {
            return Ok(PutBack::MovedOn);
        }
        self.tables.put_back(member, batch, target, attempts, now).await
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

impl Witness {
    /// Candidates are written by whoever leads, or into the batch that the lock still names.
    async fn only_the_leader_adds(&self, batch: &Batch) -> Result<()> {
        let lock = self.tables.lock(&batch.target).await?;
        if let (Status::Open { .. }, Some(lock)) = (&batch.status, lock)
            && lock.fence > batch.fence
            && lock.open.as_ref() != Some(&batch.id)
        {
            self.note(format!(
                "one leader: {} of fence {:?} got candidates under {:?}",
                batch.id, batch.fence, lock.fence
            ));
        }
        Ok(())
    }

    /// Who takes a claim over has ended the session that held it, or found it gone.
    async fn only_the_dead_are_taken_over(&self, old: Option<&Batch>, new: &Batch) -> Result<()> {
        let Some((holder, next)) = old.and_then(Batch::claimed_by).zip(new.claimed_by()) else { return Ok(()) };
        if holder != next && self.tables.session(holder).await?.is_some() {
            self.note(format!("only the dead are taken over: {} of {holder} by {next}", new.id));
        }
        Ok(())
    }

    /// Everybody who waits for a Target, in shards that have no leader of their own.
    async fn waiting_for_home(&self, home: &Target) -> Result<Vec<(Target, Candidate)>> {
        let mut waiting = Vec::new();
        for task in self.tables.tasks() {
            if let task::Status::Created { target } = &task.status
                && target.whole() == *home
                && (target == home || self.tables.lock(target).await?.is_none_or(|lock| lock.holder.is_none()))
            {
                waiting.push((target.clone(), task.candidate()));
            }
        }
        Ok(waiting)
    }

    /// A leader that was asked to look again leaves nobody behind who had come before that.
    async fn nobody_is_left_behind(&self, target: &Target) -> Result<()> {
        let asked = self.signalled.lock().unwrap_or_else(PoisonError::into_inner).remove(target).unwrap_or_default();
        for (_, candidate) in asked {
            if let Some(task) = self.task(&candidate.id).await?
                && task.waits_in(candidate.round)
            {
                self.note(format!("one leader: {target} was released, and {} had asked for another look", task.id));
            }
        }
        Ok(())
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.tables.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next())
    }
}

impl Locks for Witness {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.tables.lock(target).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let held = self.tables.lock(target).await?;
        let mut acquisition = acquisition.clone();
        if let (Some(Mutation::AcquiresHeldLocks), Some(held)) = (self.mutation, &held) {
            acquisition.assumes = lock::Assumes::Unchanged(held.clone());
        }
        let acquired = self.tables.acquire(target, &acquisition).await?;
        if acquired == Acquired::Yes {
            let mut signalled = self.signalled.lock().unwrap_or_else(PoisonError::into_inner);
            signalled.remove(target);
            if let Some(asked) = signalled.get_mut(&target.whole()) {
                asked.retain(|(shard, _)| shard != target);
            }
        }
        if let (Some(held), Some(now)) = (held, self.tables.lock(target).await?)
            && now.fence < held.fence
        {
            self.note(format!("one leader: the fence of {target} fell"));
        }
        Ok(acquired)
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        // A shard's leader leaves what fills no batch to the home's.
        if self.sees_all && target.shard() == Shard::HOME {
            let waiting = self.waiting_for_home(target).await?;
            self.signalled.lock().unwrap_or_else(PoisonError::into_inner).insert(target.clone(), waiting);
        }
        if self.mutation == Some(Mutation::LosersDoNotSignal) {
            return Ok(Signalled::Yes);
        }
        self.tables.signal(target, held).await
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

impl Sessions for Witness {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.tables.open_session(session).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.tables.renew(session).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.tables.end_session(id, beat).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        if self.mutation == Some(Mutation::TakesOverFromTheLiving) {
            return Ok(None);
        }
        self.tables.session(id).await
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        self.tables.sessions(pool, limit).await
    }
}

impl Gates for Witness {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.tables.gate(scope).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        let old = self.tables.gate(scope).await?;
        let written = match self.mutation {
            Some(Mutation::WritesGatesUnconditionally) => Gate { revision: old.revision.next(), ..gate.clone() },
            Some(Mutation::DropsPauses) => Gate { paused_until: old.paused_until, ..gate.clone() },
            Some(_) | None => gate.clone(),
        };
        let stored = self.tables.store_gate(scope, &written, now).await?;
        if stored == Stored::Yes && gate.paused_until > old.paused_until {
            let pause = (scope.clone(), Instant::now(), gate.paused_until);
            self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(pause);
        }
        Ok(stored)
    }
}

/// What a batch's follow-up says of it.
#[must_use]
pub const fn follow_up(batch: &Batch) -> Option<FollowUp> {
    match batch.status {
        Status::Settled { follow_up, .. } => Some(follow_up),
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Empty
        | Status::Void => None,
    }
}
