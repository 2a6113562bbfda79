//! Looking: where something stands, and what it waits for.
//!
//! Everything here reads and writes nothing. What one look reads is bounded by constants, however much waits: it is for
//! a page that stays open. Indexes lag, and what is read one after the other is of different moments: what people are
//! shown may be a moment old, and nothing is decided from it.

mod allowance;
mod crowd;
mod kept;

use super::admit::gates;
use super::{CONCURRENCY, Error};
use crate::domain::batch::Status;
use crate::domain::gate::{Limits, Scope};
use crate::domain::output::Output;
use crate::domain::task;
use crate::domain::why::{Seen, Why};
use crate::domain::{Batch, BatchId, Candidate, Failed, Gate, Lane, Lock, Shard, Target, Task, TaskId};
use crate::ports::{Batches, Env, Failures, Freshness, Gates, Lanes, Locks, Tasks};
use crate::routes::{Named, Route, Routes};

use allowance::Allowance;
use crowd::Groups;
pub use crowd::{Crowd, Group};
pub use kept::Kept;

/// How many waiting tasks are counted, over all shards that are looked at.
const COUNTED: usize = 1_000;
/// Shards of a Target that are looked at.
const MOST_SHARDS: usize = 8;

/// Looks, over the ports.
#[derive(Debug)]
pub struct Looking<'a, S, E> {
    /// The tables.
    pub store: &'a S,
    /// Time.
    pub env: &'a E,
    /// The routes in force; none if nobody has pushed any.
    pub routes: Option<&'a Routes>,
}

/// A task, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTask {
    /// The task.
    pub task: Task,
    /// What is kept of its failure, if it has failed.
    pub failed: Option<Failed>,
    /// What it is grouped by, as far as that is known.
    pub target: Option<Target>,
    /// The batch that it is or was in.
    pub batch: Option<Batch>,
    /// The output that its downstream gave.
    pub output: Option<Output>,
    /// Its lane, while it waits for its turn.
    pub lane: Option<Lane>,
    /// What it waits for; `None` once it is settled.
    pub why: Option<Why>,
}

/// A batch, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneBatch {
    /// The batch.
    pub batch: Batch,
    /// What it waits for; `None` if nothing is left to do.
    pub why: Option<Why>,
}

/// A Target, and what its tasks wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTarget {
    /// The Target.
    pub target: Target,
    /// Its shards, its home first. One that has more than a few shows the first of them.
    pub shards: Vec<OneShard>,
    /// The gates that its calls pass.
    pub gates: Vec<Seen>,
    /// Its unfinished batches, of those of its route that have been due for longest.
    pub batches: Vec<OneBatch>,
    /// Its scheduled tasks, of those that fall due next, and when the first of them does.
    pub scheduled: (usize, Option<Why>),
    /// Whether its batches and scheduled tasks are all that there are.
    pub is_all: bool,
}

/// One shard of a Target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShard {
    /// Which.
    pub shard: Shard,
    /// Tasks that the index shows waiting, up to a page of them.
    pub waiting: Vec<Candidate>,
    /// Whether there are more.
    pub more: bool,
    /// Its lock.
    pub lock: Option<Lock>,
    /// Its leader's open batch.
    pub open: Option<Batch>,
    /// What its waiting tasks wait for; `None` if none waits.
    pub why: Option<Why>,
}

impl OneTarget {
    /// Tasks that wait, as far as they were counted, and whether there are more.
    pub fn waiting(&self) -> (usize, bool) {
        let count = self.shards.iter().map(|shard| shard.waiting.len()).sum();
        (count, self.shards.iter().any(|shard| shard.more))
    }

    /// Its tasks that are in a batch, open ones included.
    pub fn in_batches(&self) -> usize {
        let open = self.shards.iter().filter_map(|shard| shard.open.as_ref());
        let open = open.filter(|open| self.batches.iter().all(|one| one.batch.id != open.id));
        open.chain(self.batches.iter().map(|one| &one.batch)).map(|batch| batch.members.len()).sum()
    }

    /// Whether anything is known of it beside its route.
    pub fn is_known(&self) -> bool {
        !self.batches.is_empty()
            || self.scheduled.0 > 0
            || self.shards.iter().any(|shard| shard.lock.is_some() || !shard.waiting.is_empty())
    }
}

impl<S: Tasks + Failures + Batches + Locks + Gates + Lanes, E: Env> Looking<'_, S, E> {
    /// A task, if it is there. Its item may be as large as a message, so a page that stays open reads it at half the
    /// price, a moment old.
    pub async fn task(&self, id: &TaskId, freshness: Freshness) -> Result<Option<OneTask>, Error> {
        let Some((task, failed)) = self.store.with_failure(id, freshness).await? else { return Ok(None) };
        let batch = match task.status.batch() {
            Some(batch) => self.store.batch(batch).await?,
            None => None,
        };
        let in_batch = batch.as_ref().map(|batch| batch.target.whole());
        let (mut lane, mut target) = (None, in_batch);
        let why = match &task.status {
            task::Status::Queued => {
                if let Some(id) = &task.lane {
                    lane = self.store.lane(id).await?;
                }
                Some(Why::Turn)
            }
            task::Status::Scheduled { target: groups_by, due } => {
                target = Some(groups_by.whole());
                Some(Why::NotBefore { due: *due })
            }
            task::Status::Created { target: waits_for } => {
                target = Some(waits_for.whole());
                let (lock, open) = self.lock(&waits_for.whole()).await?;
                Some(self.waits_for(waits_for, lock.as_ref(), open.as_ref()))
            }
            task::Status::Batched { .. } => match &batch {
                Some(batch) => self.why(batch).await?,
                // Its leader has named it, and is about to write it.
                None => Some(Why::Freezing),
            },
            task::Status::Succeeded { .. } | task::Status::Failed { .. } => None,
        };
        let output = match &batch {
            Some(batch) => self.store.output(batch, id).await?,
            None => None,
        };
        Ok(Some(OneTask { task, failed, target, batch, output, lane, why }))
    }
}

impl<S: Tasks + Batches + Locks + Gates + Lanes, E: Env> Looking<'_, S, E> {
    /// A batch, if it is there.
    pub async fn batch(&self, id: &BatchId) -> Result<Option<OneBatch>, Error> {
        match self.store.batch(id).await? {
            Some(batch) => Ok(Some(OneBatch { why: self.why(&batch).await?, batch })),
            None => Ok(None),
        }
    }

    /// A Target, if it is one of a route, or anything else is known of it.
    pub async fn target(&self, target: &Target) -> Result<Option<OneTarget>, Error> {
        let target = target.whole();
        let route = self.route(&target);
        let mut shards = Vec::new();
        let looked_at: Vec<Target> = target.shards(self.shards(&target)).take(MOST_SHARDS).collect();
        let of_each = COUNTED / looked_at.len().max(1);
        let mut allowance = Allowance::default();
        for shard in looked_at {
            let (lock, open) = self.lock_within(&shard, &mut allowance).await?;
            let page = self.store.waiting(&shard, None, of_each).await?;
            let waits = !page.candidates.is_empty();
            let why = waits.then(|| self.waits_for(&shard, lock.as_ref(), open.as_ref()));
            let (shard, more) = (shard.shard(), page.next.is_some());
            shards.push(OneShard { shard, waiting: page.candidates, more, lock, open, why });
        }
        let gates = self.gates(&target).await?;
        let name = target.route();
        let is_pulled = route.is_none_or(Route::is_pulled);
        let (of_route, are_found) = self.unfinished(&[(&name, is_pulled)], crowd::PARTS).await?;
        let (mut batches, are_read) = self.batches(&of_route, &mut allowance).await?;
        batches.retain(|one| one.batch.target.whole() == target);
        let mut scheduled = Groups::new();
        let are_scheduled = self.scheduled(&|of| *of == name, &mut scheduled).await?;
        let scheduled = scheduled.remove(&target).map_or((0, None), |group| (group.scheduled, group.due));
        let is_all = are_found && are_read && are_scheduled;
        let one = OneTarget { target, shards, gates, batches, scheduled, is_all };
        Ok((route.is_some() || one.is_known()).then_some(one))
    }

    /// Returns how many shards a Target has, as its route says.
    pub fn shards(&self, target: &Target) -> u8 {
        self.route(target).map_or(1, |route| route.shards)
    }

    /// The gates that the calls for a Target pass, as they are now. What a person says of a Target is in its route's.
    pub async fn gates(&self, target: &Target) -> Result<Vec<Seen>, Error> {
        let target = &target.whole();
        let (mut own, mut of_route, mut named) = (None, None, Vec::new());
        for (scope, limits) in self.route(target).into_iter().flat_map(|route| gates(route, target)) {
            let seen = Seen { gate: self.store.gate(&scope).await?, of: scope, limits };
            match seen.of {
                Scope::Target(_) => own = Some(seen),
                Scope::Route(_) => of_route = Some(seen),
                Scope::Limit(_) => named.push(seen),
            }
        }
        if let Some(route) = of_route.as_ref().map(|seen| &seen.gate) {
            let of = Scope::Target(target.clone());
            let unasked = || Seen { of, limits: Limits::default(), gate: Gate::default() };
            let own_or_held = own.or_else(|| route.pauses.targets.contains_key(target).then(unasked));
            own = own_or_held.map(|seen| Seen { gate: seen.gate.of_target(target, route), ..seen });
        }
        Ok(own.into_iter().chain(of_route).chain(named).collect())
    }

    /// The gate before all calls of a route.
    pub async fn route_gate(&self, route: &Route) -> Result<Seen, Error> {
        let of = Scope::Route(route.name.clone());
        Ok(Seen { gate: self.store.gate(&of).await?, limits: route.limits(), of })
    }

    /// The gate of a limit that routes share.
    pub async fn named_gate(&self, Named { name, limits }: &Named) -> Result<Seen, Error> {
        let of = Scope::Limit(name.clone());
        Ok(Seen { gate: self.store.gate(&of).await?, limits: *limits, of })
    }

    /// What a batch waits for. The gates are read only if it may stand before them.
    async fn why(&self, batch: &Batch) -> Result<Option<Why>, Error> {
        if self.is_gone(&batch.target) && batch.unfinished().is_some() {
            return Ok(Some(Why::Route));
        }
        let gates = match batch.status {
            Status::Frozen | Status::Paused { .. } => self.gates(&batch.target).await?,
            Status::Open { .. }
            | Status::Closing
            | Status::InProgress { .. }
            | Status::Settled { .. }
            | Status::Empty
            | Status::Void => Vec::new(),
        };
        Ok(batch.waits_for(&gates, self.env.now()))
    }

    /// A lock, and the batch that it names as open.
    async fn lock(&self, target: &Target) -> Result<(Option<Lock>, Option<Batch>), Error> {
        let lock = self.store.lock(target).await?;
        let open = match lock.as_ref().and_then(|lock| lock.open.as_ref()) {
            Some(open) => self.store.batch(open).await?,
            None => None,
        };
        Ok((lock, open))
    }

    /// The same, without the batch if the allowance is used up: its tasks are then said to wait for their leader.
    async fn lock_within(
        &self,
        target: &Target,
        allowance: &mut Allowance,
    ) -> Result<(Option<Lock>, Option<Batch>), Error> {
        if !allowance.covers_one() {
            return Ok((self.store.lock(target).await?, None));
        }
        let (lock, open) = self.lock(target).await?;
        open.iter().for_each(|batch| allowance.take(batch));
        Ok((lock, open))
    }

    /// What a Target's waiting tasks wait for, if this is its lock and this the batch that the lock names as open.
    fn waits_for(&self, target: &Target, lock: Option<&Lock>, open: Option<&Batch>) -> Why {
        if self.is_gone(target) { Why::Route } else { Why::of_waiting(lock, open, self.env.now()) }
    }

    /// Whether the routes file does not have its route.
    fn is_gone(&self, target: &Target) -> bool {
        self.routes.is_some() && self.route(target).is_none()
    }

    fn route(&self, target: &Target) -> Option<&Route> {
        self.routes.and_then(|routes| routes.get(&target.route()))
    }
}
