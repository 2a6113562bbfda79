//! Ports that fail just before or just after they did their work, as if the process had died or the answer were lost.
//!
//! Every call of every port asks a [`Plan`] first, so a call that is added to a step is covered by itself.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shared::domain::batch::{Assumes, Batch, Member};
use shared::domain::gate::{Gate, Scope};
use shared::domain::id::{BatchId, Beat, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId};
use shared::domain::lock::{Acquisition, Held, Lock, Term};
use shared::domain::session::Session;
use shared::domain::task::{Candidate, Task};
use shared::domain::time::Timestamp;
use shared::ports::{
    Acquired, Advanced, Batches, Ended, Error, Freshness, Gates, Inbox, Joined, Locks, Outbox, Outgoing, Page, PutBack,
    Registered, Released, Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, WaitingPage,
};

/// Where a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Before anything was done.
    Before,
    /// After everything was done.
    After,
}

/// Decides which calls fail.
#[derive(Clone, Debug)]
pub struct Plan(Arc<Mutex<Dice>>);

#[derive(Debug)]
struct Dice {
    random: StdRng,
    chance: f64,
    faults: usize,
}

impl Plan {
    /// Each call fails with this chance, before or after its work.
    pub fn random(seed: u64, chance: f64) -> Self {
        Self(Arc::new(Mutex::new(Dice { random: StdRng::seed_from_u64(seed), chance, faults: 0 })))
    }

    /// How many calls have failed.
    pub fn faults(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).faults
    }

    fn next(&self) -> Option<Fault> {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chance = dice.chance;
        if !dice.random.random_bool(chance) {
            return None;
        }
        dice.faults += 1;
        Some(if dice.random.random_bool(0.5) { Fault::Before } else { Fault::After })
    }

    async fn around<T>(&self, what: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let died = || Error::Unavailable { what, why: "injected".to_owned() };
        match self.next() {
            None => call.await,
            Some(Fault::Before) => Err(died()),
            Some(Fault::After) => {
                call.await?;
                Err(died())
            }
        }
    }
}

/// Ports whose calls fail by a plan.
#[derive(Debug)]
pub struct Faulty<P> {
    /// The ports inside.
    pub inner: P,
    plan: Plan,
}

impl<P> Faulty<P> {
    /// Wraps `inner`.
    pub const fn new(inner: P, plan: Plan) -> Self {
        Self { inner, plan }
    }
}

impl<S: Tasks> Tasks for Faulty<S> {
    type Cursor = S::Cursor;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.plan.around("register", self.inner.register(task)).await
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.plan.around("read", self.inner.read(ids, freshness)).await
    }

    async fn waiting(&self, target: &Target, after: Option<&S::Cursor>, limit: usize) -> Result<Page<S::Cursor>> {
        self.plan.around("waiting", self.inner.waiting(target, after, limit)).await
    }

    async fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        after: Option<&S::Cursor>,
        limit: usize,
    ) -> Result<WaitingPage<S::Cursor>> {
        self.plan.around("waiting_long", self.inner.waiting_long(since, segment, after, limit)).await
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        self.plan.around("join", self.inner.join(id, round, batch)).await
    }

    async fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> Result<PutBack> {
        self.plan.around("put_back", self.inner.put_back(member, batch, target, attempts, now)).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<()> {
        self.plan.around("settle", self.inner.settle(member, batch, settlement, now)).await
    }
}

impl<S: Locks> Locks for Faulty<S> {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.plan.around("lock", self.inner.lock(target)).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.plan.around("acquire", self.inner.acquire(target, acquisition)).await
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        self.plan.around("signal", self.inner.signal(target, held)).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        self.plan.around("advance", self.inner.advance(term, seq, lease_until)).await
    }

    async fn release(&self, term: &Term, signals: u64, now: Timestamp) -> Result<Released> {
        self.plan.around("release", self.inner.release(term, signals, now)).await
    }
}

impl<S: Batches> Batches for Faulty<S> {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.plan.around("batch", self.inner.batch(id)).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.plan.around("store", self.inner.store(batch, assumes)).await
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        self.plan.around("unfinished", self.inner.unfinished(route, part, before, limit)).await
    }
}

impl<S: Sessions> Sessions for Faulty<S> {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.plan.around("open_session", self.inner.open_session(session)).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.plan.around("renew", self.inner.renew(session)).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.plan.around("end_session", self.inner.end_session(id, beat)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.plan.around("session", self.inner.session(id)).await
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        self.plan.around("sessions", self.inner.sessions(pool, limit)).await
    }
}

impl<S: Gates> Gates for Faulty<S> {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.plan.around("gate", self.inner.gate(scope)).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        self.plan.around("store_gate", self.inner.store_gate(scope, gate, now)).await
    }
}

impl<Q: Outbox> Outbox for Faulty<Q> {
    /// A message of several can be sent while another is not.
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let send = async { self.inner.send(vec![message]).await.into_iter().collect() };
            answers.push(self.plan.around("send", send).await);
        }
        answers
    }
}

impl<Q: Inbox> Inbox for Faulty<Q> {
    async fn postpone(&self, receipt: &str, delay_ms: u64) -> Result<()> {
        self.plan.around("postpone", self.inner.postpone(receipt, delay_ms)).await
    }
}
