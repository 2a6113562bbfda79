//! A store whose index of waiting tasks lags, as DynamoDB's global secondary indexes do.
//!
//! Wraps any store: every change of the index becomes visible after a random time of its own, so a task can be missing
//! from the index after its registration and linger there after it has joined a batch.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shared::domain::batch::{Assumes, Batch, Member};
use shared::domain::gate::{Gate, Scope};
use shared::domain::id::{BatchId, Beat, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId};
use shared::domain::lock::{Acquisition, Held, Lock, Term};
use shared::domain::session::Session;
use shared::domain::task::{Candidate, Status, Task};
use shared::domain::time::Timestamp;
use shared::ports::{
    Acquired, Advanced, Batches, Ended, Env, Freshness, Gates, Joined, Locks, Page, PutBack, Registered, Released,
    Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, WaitingPage,
};

/// A store with a lagging index.
#[derive(Debug)]
pub struct Lagging<S, E> {
    inner: S,
    clock: E,
    max_lag_ms: u64,
    index: Mutex<Index>,
}

#[derive(Debug)]
struct Index {
    random: StdRng,
    visible: BTreeMap<Target, BTreeMap<TaskId, Candidate>>,
    /// Changes on their way, in the order in which they become visible.
    pending: BTreeMap<(Timestamp, u64), Change>,
    changes: u64,
}

#[derive(Debug)]
enum Change {
    Show(Target, Candidate),
    Hide(TaskId, Round),
}

impl<S, E: Env> Lagging<S, E> {
    /// Wraps `inner`; each change of its index becomes visible after 0 to `max_lag_ms` of `clock`'s time.
    pub fn new(inner: S, clock: E, max_lag_ms: u64, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let index = Index { random, visible: BTreeMap::new(), pending: BTreeMap::new(), changes: 0 };
        Self { inner, clock, max_lag_ms, index: Mutex::new(index) }
    }

    /// The store inside.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    fn change(&self, change: Change) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let lag = index.random.random_range(0..=self.max_lag_ms);
        index.changes += 1;
        let key = (self.clock.now().plus_ms(lag), index.changes);
        index.pending.insert(key, change);
    }
}

impl Index {
    fn catch_up(&mut self, now: Timestamp) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Change::Show(target, candidate) => {
                    self.visible.entry(target).or_default().insert(candidate.id.clone(), candidate);
                }
                Change::Hide(id, round) => {
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
        if let (Registered::New, Status::Created { target }) = (&registered, &task.status) {
            self.change(Change::Show(target.clone(), task.candidate()));
        }
        Ok(registered)
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.inner.read(ids, freshness).await
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
        self.inner
            .waiting_long(since, segment, None, limit)
            .await
            .map(|page| WaitingPage { tasks: page.tasks, next: None })
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let joined = self.inner.join(id, round, batch).await?;
        if joined == Joined::Yes {
            self.change(Change::Hide(id.clone(), round));
        }
        Ok(joined)
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
            self.change(Change::Show(target.clone(), candidate));
        }
        Ok(put_back)
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<()> {
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

    async fn release(&self, term: &Term, signals: u64, now: Timestamp) -> Result<Released> {
        self.inner.release(term, signals, now).await
    }
}

impl<S: Batches, E: Env> Batches for Lagging<S, E> {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.inner.batch(id).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.inner.store(batch, assumes).await
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        self.inner.unfinished(route, part, before, limit).await
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
