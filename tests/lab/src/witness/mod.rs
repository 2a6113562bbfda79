//! A store that notes every write that must happen once, or never.

mod express;
mod failures;
mod lists;
mod locks;
mod order;
mod streams;
mod tasks;
mod trackers;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use groupage_core::domain::batch::{Assumes, Status};
use groupage_core::ports::Result;
use groupage_core::routes::Route;
use tokio::time::Instant;

use crate::prelude::*;

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
    /// Gates that a person held: which, when that was durable, and when it ended.
    holds: Mutex<Vec<(Scope, Instant, Option<Instant>)>>,
    shards: BTreeMap<RouteName, u8>,
    /// Who is to be found by the holder of each home's lock.
    asked: Mutex<locks::Asked>,
    /// Whether the index shows everything at once, so that a leader that looks again finds it.
    sees_all: bool,
    /// The tasks that were to name a batch from the beginning.
    meant: Mutex<express::Meant>,
    /// Who came to which lane, by turn.
    accepted: Mutex<order::Accepted>,
    /// Events whose tasks are on their way.
    unsettled: Mutex<streams::Unsettled>,
    /// How often each task was retried.
    retried: Mutex<BTreeMap<TaskId, usize>>,
    trackers: Mutex<trackers::Seen>,
    lists: Mutex<lists::Seen>,
}

impl Witness {
    /// Empty tables; `sees_all` says that no index lags. Where versions of the routes differ in a route's shards, its
    /// leaders are watched as if it had none.
    pub fn new(mutation: Option<Mutation>, sees_all: bool, versions: &[&Routes]) -> Self {
        let of = |route: &Route| (route.name.clone(), route.shards);
        let differs = |(name, shards): &(RouteName, u8)| {
            versions.iter().filter_map(|routes| routes.get(name)).any(|route| route.shards != *shards)
        };
        let shards = versions.iter().flat_map(|routes| routes.iter()).map(of).filter(|of| !differs(of)).collect();
        Self { mutation, sees_all, shards, ..Self::default() }
    }

    /// The tables themselves.
    pub const fn tables(&self) -> &MemoryStore {
        &self.tables
    }

    /// The promises that were seen broken.
    pub fn broken(&self) -> Vec<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gates that were closed: which, when that was durable, and until when.
    pub fn pauses(&self) -> Vec<(Scope, Instant, Timestamp)> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gates that a person held: which, when that was durable, and when it ended.
    pub fn holds(&self) -> Vec<(Scope, Instant, Option<Instant>)> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn look_at_holds(&self, scope: &Scope, old: &Gate, new: &Gate) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        match (old.pauses.all.is_some(), new.pauses.all.is_some()) {
            (false, true) => holds.push((scope.clone(), Instant::now(), None)),
            (true, false) => {
                let of_gate = holds.iter_mut().filter(|(other, _, end)| other == scope && end.is_none());
                of_gate.for_each(|(_, _, end)| *end = Some(Instant::now()));
            }
            (true, true) | (false, false) => {}
        }
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
            if let (Status::Settled { results: first, .. }, Status::Settled { results, .. }) =
                (&old.status, &new.status)
                && first != results
            {
                self.note(format!("one acknowledgement: the outcome of {id} was recorded anew"));
            }
            if old.attempts > 0 && old.omitted_ids() != new.omitted_ids() {
                self.note(format!("members never change: {id} left somebody out after its first call"));
            }
            // A job was begun under a claim, and is looked at without one.
            let has_job = old.under_way().is_some();
            let is_called = old.claimed_by().is_some() || has_job || is_given_up(new) || new.omits_all();
            if has_job && (new.claimed_by().is_some() || new.attempts != old.attempts) {
                self.note(format!("one job at a time: {id} has a job and is called again"));
            }
            if matches!(new.status, Status::Settled { .. }) && !settled(old) && !is_called {
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

/// Whether a batch was settled since its downstream was away for too long, or since nobody wants it any more: then
/// nobody has to call it first.
fn is_given_up(batch: &Batch) -> bool {
    let fails = |exception: &Exception, why: fn(&str) -> bool| match exception {
        Exception::Failed { reason, .. } => why(reason.as_str()),
        Exception::Returned { .. } => false,
    };
    let Status::Settled { results, .. } = &batch.status else { return false };
    let is_outage = results.values().any(|exception| fails(exception, |reason| reason.starts_with("outage:")));
    // A batch that was called and of which some were left out before says so of all that are left.
    let is_unwanted = |(_, exception): (_, &Exception)| {
        fails(exception, |reason| ["expired", "cancelled", "superseded"].contains(&reason))
    };
    is_outage || (results.len() == batch.members.len() && results.iter().all(is_unwanted))
}

impl layer::Layer for Witness {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.tables
    }
}

impl layer::Batches for Witness {
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
            self.only_those_elsewhere_are_left_out(old.as_ref(), &batch).await?;
            self.only_the_dead_are_taken_over(old.as_ref(), &batch).await?;
        }
        Ok(stored)
    }
}

impl Witness {
    /// Candidates are written by the leader, or into the batch that the lock still names.
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

    /// An open batch leaves candidates out only if they can never join it.
    async fn only_those_elsewhere_are_left_out(&self, old: Option<&Batch>, new: &Batch) -> Result<()> {
        let Some(old) = old.filter(|_| matches!(new.status, Status::Open { .. })) else { return Ok(()) };
        for member in old.members.iter().filter(|member| !new.members.contains(member)) {
            for task in self.tables.read(std::slice::from_ref(&member.id), Freshness::Latest).await? {
                let names = task.round == member.round && task.status.batch() == Some(&new.id);
                if names || task.waits_in(member.round) {
                    self.note(format!(
                        "no task is lost: {} leaves {} out, which is {:?}",
                        new.id, task.id, task.status
                    ));
                }
            }
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
}

impl layer::Sessions for Witness {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        if self.mutation == Some(Mutation::TakesOverFromTheLiving) {
            return Ok(None);
        }
        self.tables.session(id).await
    }
}

impl layer::Gates for Witness {
    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        let old = self.tables.gate(scope).await?;
        let written = match self.mutation {
            Some(Mutation::WritesGatesUnconditionally) => Gate { revision: old.revision.next(), ..gate.clone() },
            Some(Mutation::ReservesNoStart) => Gate { rate: old.rate.clone(), ..gate.clone() },
            Some(Mutation::DropsPauses) => Gate { paused_until: old.paused_until, ..gate.clone() },
            Some(_) | None => gate.clone(),
        };
        let stored = self.tables.store_gate(scope, &written, now).await?;
        if stored == Stored::Yes {
            self.look_at_holds(scope, &old, gate);
        }
        if stored == Stored::Yes && gate.paused_until > old.paused_until {
            let pause = (scope.clone(), Instant::now(), gate.paused_until);
            self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(pause);
        }
        Ok(stored)
    }

    async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>> {
        let taken = self.tables.take_ticket(scope, flow, behind).await?;
        self.shorten_pause(scope).await?;
        Ok(taken)
    }

    async fn give_back(
        &self,
        scope: &Scope,
        batch: &BatchId,
        lease: Timestamp,
        ended: Option<Timestamp>,
    ) -> Result<Stored> {
        let given_back = self.tables.give_back(scope, batch, lease, ended).await?;
        self.shorten_pause(scope).await?;
        Ok(given_back)
    }
}

impl Witness {
    async fn shorten_pause(&self, scope: &Scope) -> Result<()> {
        if self.mutation == Some(Mutation::PartialWritesShortenPauses)
            && let Some(held) = self.tables.gate(scope).await?.pauses.all
        {
            self.tables.keep_gate_as(scope, &Gate::default(), held.since);
        }
        Ok(())
    }
}

impl layer::Shelves for Witness {}
