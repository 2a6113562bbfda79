//! A store that shows the past, as DynamoDB does: its indexes lag, and its eventual reads come from stale replicas.
//!
//! Wraps any store: every change of an index becomes visible after a random time of its own, so a task can be missing
//! from the index after its registration and linger there after it has joined a batch. The versions of a task, a tracker
//! or a node become visible to eventual reads one after the other, each after a random time.

mod lanes;
mod lists;
mod streams;
mod trackers;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shared::domain::batch::{Assumes, Batch, Member};
use shared::domain::gate::{Gate, Scope};
use shared::domain::id::{BatchId, Beat, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId, Token};
use shared::domain::list::Life;
use shared::domain::lock::{Acquisition, Held, Lock, Term};
use shared::domain::outcome::Reason;
use shared::domain::session::Session;
use shared::domain::task::{Candidate, Status, Task, Ties};
use shared::domain::time::Timestamp;
use shared::ports::{
    Acquired, Advanced, Batches, Ended, Env, Freshness, Gates, Joined, Locks, Page, PassedOver, PutBack, Registered,
    Released, Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, WaitingPage,
};

/// How far behind a store may show things, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Its indexes.
    pub index_ms: u64,
    /// Its eventual reads of tasks and trackers; 0 leaves them to the store inside.
    pub read_ms: u64,
    /// Tasks on lists, behind the tail that gave them their tokens: reads see a transaction's writes one by one.
    pub slots_ms: u64,
}

/// A store with lagging indexes and stale replicas.
#[derive(Debug)]
pub struct Lagging<S, E> {
    pub(crate) inner: S,
    pub(crate) clock: E,
    pub(crate) lag: Lag,
    index: Mutex<Index>,
    replica: Mutex<BTreeMap<TaskId, Versions>>,
    unfinished: Mutex<BTreeMap<BatchId, Entries>>,
    trackers: Mutex<trackers::Replica>,
    /// When each task on a list can be read.
    pub(crate) slots: Mutex<BTreeMap<(Life, Token), Timestamp>>,
}

/// A task's versions, each with the moment from which a stale replica shows it.
type Versions = Vec<(Timestamp, Task)>;
/// A batch's entries in its index, likewise; `None` after it has left.
type Entries = Vec<(Timestamp, Option<(Target, Part, Timestamp)>)>;

#[derive(Debug)]
struct Index {
    random: StdRng,
    visible: BTreeMap<Target, BTreeMap<TaskId, Candidate>>,
    /// Changes on their way, in the order in which they become visible.
    pending: BTreeMap<(Timestamp, u64), Shift>,
    changes: u64,
}

#[derive(Debug)]
enum Shift {
    Show(Target, Candidate),
    Hide(TaskId, Round),
}

impl<S, E: Env> Lagging<S, E> {
    /// Wraps `inner`; everything becomes visible after a random part of `lag`, by `clock`.
    pub fn new(inner: S, clock: E, lag: Lag, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let index = Index { random, visible: BTreeMap::new(), pending: BTreeMap::new(), changes: 0 };
        let (index, replica, unfinished) = (Mutex::new(index), Mutex::default(), Mutex::default());
        let (trackers, slots) = (Mutex::default(), Mutex::default());
        Self { inner, clock, lag, index, replica, unfinished, trackers, slots }
    }

    /// The store inside.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    fn change(&self, change: Shift) {
        let at = self.visible_at(self.lag.index_ms);
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.changes += 1;
        let key = (at, index.changes);
        index.pending.insert(key, change);
    }

    pub(crate) fn visible_at(&self, max_ms: u64) -> Timestamp {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.now().plus_ms(index.random.random_range(0..=max_ms))
    }

    /// A task was written for the first time.
    pub(crate) fn appeared(&self, task: &Task) {
        if let Status::Created { target } = &task.status {
            self.change(Shift::Show(target.clone(), task.candidate()));
        }
        self.version(&task.id, |_| Some(task.clone()));
    }

    /// Adds a version of a task, made from the latest one.
    fn version(&self, id: &TaskId, next: impl FnOnce(Option<&Task>) -> Option<Task>) {
        if self.lag.read_ms == 0 {
            return;
        }
        let at = self.visible_at(self.lag.read_ms);
        let mut replica = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = replica.entry(id.clone()).or_default();
        let last = versions.last();
        if let Some(task) = next(last.map(|(_, task)| task)) {
            let at = last.map_or(at, |(earlier, _)| at.max(*earlier));
            versions.push((at, task));
        }
    }
}

impl Index {
    fn catch_up(&mut self, now: Timestamp) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Shift::Show(target, candidate) => {
                    self.visible.entry(target).or_default().insert(candidate.id.clone(), candidate);
                }
                Shift::Hide(id, round) => {
                    for waiting in self.visible.values_mut() {
                        if waiting.get(&id).is_some_and(|candidate| candidate.round <= round) {
                            waiting.remove(&id);
                        }
                    }
                }
            }
        }
    }
}

impl<S: Tasks, E: Env> Tasks for Lagging<S, E> {
    type Cursor = TaskId;

    async fn register(&self, task: &Task) -> Result<Registered> {
        let registered = self.inner.register(task).await?;
        if registered == Registered::New {
            self.appeared(task);
        }
        Ok(registered)
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        if freshness == Freshness::Latest || self.lag.read_ms == 0 {
            return self.inner.read(ids, freshness).await;
        }
        let now = self.clock.now();
        let replica = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |id| replica.get(id).and_then(|versions| versions.iter().rfind(|(at, _)| *at <= now));
        Ok(ids.iter().filter_map(|id| shown(id).map(|(_, task)| task.clone())).collect())
    }

    async fn waiting(&self, target: &Target, after: Option<&TaskId>, limit: usize) -> Result<Page<TaskId>> {
        use std::ops::Bound::{Excluded, Unbounded};
        // The inner index is read as well, so that its cost is counted.
        self.inner.waiting(target, None, limit).await?;
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.catch_up(self.clock.now());
        let from = after.map_or(Unbounded, Excluded);
        let candidates: Vec<Candidate> = index
            .visible
            .get(target)
            .into_iter()
            .flat_map(|waiting| waiting.range::<TaskId, _>((from, Unbounded)))
            .take(limit)
            .map(|(_, candidate)| candidate.clone())
            .collect();
        let next = (candidates.len() == limit).then(|| candidates.last().map(|last| last.id.clone())).flatten();
        Ok(Page { candidates, next })
    }

    async fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        _after: Option<&TaskId>,
        limit: usize,
    ) -> Result<WaitingPage<TaskId>> {
        // What has waited for long was there long ago, whatever the lag.
        let page = self.inner.waiting_long(since, segment, None, limit).await?;
        Ok(WaitingPage { tasks: page.tasks, next: None })
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let joined = self.inner.join(id, round, batch).await?;
        if joined == Joined::Yes {
            self.change(Shift::Hide(id.clone(), round));
            let status = Status::Batched { batch: batch.clone() };
            self.version(id, |task| task.map(|task| Task { status, ..task.clone() }));
        }
        Ok(joined)
    }

    async fn take_turn(&self, id: &TaskId, target: &Target, now: Timestamp) -> Result<PutBack> {
        let taken = self.inner.take_turn(id, target, now).await?;
        if taken == PutBack::Waits
            && let Some(task) = self.inner.read(std::slice::from_ref(id), Freshness::Latest).await?.pop()
        {
            self.change(Shift::Show(target.clone(), task.candidate()));
            self.version(id, |_| Some(task));
        }
        Ok(taken)
    }

    async fn pass_over(&self, id: &TaskId, reason: &Reason, now: Timestamp) -> Result<Option<PassedOver>> {
        self.inner.pass_over(id, reason, now).await
    }

    async fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> Result<PutBack> {
        let put_back = self.inner.put_back(member, batch, target, attempts, now).await?;
        if put_back == PutBack::Waits {
            let candidate = Candidate { round: member.round.next(), ..member.clone() };
            self.change(Shift::Show(target.clone(), candidate));
            let (status, round) = (Status::Created { target: target.clone() }, member.round.next());
            self.version(&member.id, |task| {
                task.map(|task| Task { status, round, attempts, waits_since: now, ..task.clone() })
            });
        }
        Ok(put_back)
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        self.inner.settle(member, batch, settlement, now).await
    }
}

impl<S: Locks, E: Env> Locks for Lagging<S, E> {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.inner.lock(target).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.inner.acquire(target, acquisition).await
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        self.inner.signal(target, held).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        self.inner.advance(term, seq, lease_until).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        self.inner.release(term, seq, signals, now).await
    }
}

impl<S: Batches, E: Env> Batches for Lagging<S, E> {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.inner.batch(id).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let stored = self.inner.store(batch, assumes).await?;
        if stored == Stored::Yes {
            let entry = batch.unfinished().map(|due| (batch.target.clone(), batch.part(), due));
            let at = self.visible_at(self.lag.index_ms);
            let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
            let entries = unfinished.entry(batch.id.clone()).or_default();
            let at = entries.last().map_or(at, |(earlier, _)| at.max(*earlier));
            entries.push((at, entry));
        }
        Ok(stored)
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        // The inner index is read as well, so that its cost is counted.
        self.inner.unfinished(route, part, before, limit).await?;
        let now = self.clock.now();
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |entries: &Entries| entries.iter().rfind(|(at, _)| *at <= now).and_then(|(_, entry)| entry.clone());
        let mut due: Vec<(Timestamp, BatchId)> = unfinished
            .iter()
            .filter_map(|(id, entries)| shown(entries).map(|entry| (entry, id.clone())))
            .filter(|((target, shelf, due), _)| target.route() == *route && *shelf == part && *due < before)
            .map(|((_, _, due), id)| (due, id))
            .collect();
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, id)| id).collect())
    }
}

impl<S: Sessions, E: Env> Sessions for Lagging<S, E> {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.inner.open_session(session).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.inner.renew(session).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.inner.end_session(id, beat).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.inner.session(id).await
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        self.inner.sessions(pool, limit).await
    }
}

impl<S: Gates, E: Env> Gates for Lagging<S, E> {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.inner.gate(scope).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        self.inner.store_gate(scope, gate, now).await
    }
}
