//! Tables in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::batch::{Assumes, Batch, Member};
use crate::domain::gate::{Gate, Scope};
use crate::domain::id::{BatchId, Beat, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId};
use crate::domain::lock::{self, Acquisition, Held, Lock, Term};
use crate::domain::session::Session;
use crate::domain::task::{Candidate, Status, Task};
use crate::domain::time::Timestamp;
use crate::ports::{
    Acquired, Advanced, Batches, Census, Ended, Freshness, Gates, Joined, Locks, Page, PutBack, Registered, Released,
    Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, WaitingPage,
};

/// All tables.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    tasks: HashMap<TaskId, Task>,
    /// What the index shows: waiting tasks by Target, in the order of their ids.
    waiting: BTreeMap<Target, BTreeMap<TaskId, Candidate>>,
    locks: HashMap<Target, Lock>,
    batches: HashMap<BatchId, Batch>,
    sessions: BTreeMap<SessionId, Session>,
    gates: BTreeMap<Scope, Gate>,
}

impl MemoryStore {
    /// Empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All tasks, in the order of their ids.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.tables().tasks.values().cloned().collect();
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        tasks
    }

    /// All batches, in the order of their ids.
    #[must_use]
    pub fn batches(&self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = self.tables().batches.values().cloned().collect();
        batches.sort_by(|a, b| a.id.cmp(&b.id));
        batches
    }

    /// All sessions, in the order of their ids.
    #[must_use]
    pub fn sessions_now(&self) -> Vec<Session> {
        self.tables().sessions.values().cloned().collect()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic while the lock was held left single-item writes whole; there is nothing to repair.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn show(&mut self, target: &Target, candidate: Candidate) {
        self.waiting.entry(target.clone()).or_default().insert(candidate.id.clone(), candidate);
    }

    fn hide(&mut self, target: &Target, id: &TaskId) {
        if let Some(waiting) = self.waiting.get_mut(target) {
            waiting.remove(id);
        }
    }
}

impl Tasks for MemoryStore {
    type Cursor = TaskId;

    async fn register(&self, task: &Task) -> Result<Registered> {
        let mut tables = self.tables();
        if let Some(existing) = tables.tasks.get(&task.id) {
            return Ok(Registered::Existing(existing.clone()));
        }
        if let Status::Created { target } = &task.status {
            tables.show(target, task.candidate());
        }
        tables.tasks.insert(task.id.clone(), task.clone());
        Ok(Registered::New)
    }

    async fn read(&self, ids: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        let tables = self.tables();
        Ok(ids.iter().filter_map(|id| tables.tasks.get(id).cloned()).collect())
    }

    async fn waiting(&self, target: &Target, after: Option<&TaskId>, limit: usize) -> Result<Page<TaskId>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let tables = self.tables();
        let Some(waiting) = tables.waiting.get(target) else {
            return Ok(Page { candidates: Vec::new(), next: None });
        };
        let from = after.map_or(Unbounded, Excluded);
        let candidates: Vec<Candidate> =
            waiting.range::<TaskId, _>((from, Unbounded)).take(limit).map(|(_, candidate)| candidate.clone()).collect();
        let next = (candidates.len() == limit).then(|| candidates.last().map(|last| last.id.clone())).flatten();
        Ok(Page { candidates, next })
    }

    async fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        after: Option<&TaskId>,
        limit: usize,
    ) -> Result<WaitingPage<TaskId>> {
        let tables = self.tables();
        let waiting: BTreeMap<&TaskId, (&Target, &Candidate)> = tables
            .waiting
            .iter()
            .flat_map(|(target, waiting)| waiting.iter().map(move |(id, candidate)| (id, (target, candidate))))
            .filter(|(id, _)| segment_of(id, segment.of) == segment.index && after.is_none_or(|after| *id > after))
            .collect();
        let next = if waiting.len() > limit { waiting.keys().nth(limit - 1).map(|id| (*id).clone()) } else { None };
        let long = |id: &TaskId| tables.tasks.get(id).is_some_and(|task| task.waits_since < since);
        let tasks = waiting
            .into_iter()
            .take(limit)
            .filter(|(id, _)| long(id))
            .map(|(_, (target, candidate))| (target.clone(), candidate.clone()))
            .collect();
        Ok(WaitingPage { tasks, next })
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(id).filter(|task| task.round == round) else {
            return Ok(Joined::Elsewhere);
        };
        match &task.status {
            Status::Created { target } => {
                let target = target.clone();
                task.status = Status::Batched { batch: batch.clone() };
                tables.hide(&target, id);
                Ok(Joined::Yes)
            }
            Status::Batched { batch: named } if named == batch => Ok(Joined::Yes),
            Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => Ok(Joined::Elsewhere),
        }
    }

    async fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> Result<PutBack> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(&member.id) else { return Ok(PutBack::MovedOn) };
        if task.waits_in(member.round.next()) {
            return Ok(PutBack::Waits);
        }
        if task.round != member.round || task.status != (Status::Batched { batch: batch.clone() }) {
            return Ok(PutBack::MovedOn);
        }
        task.status = Status::Created { target: target.clone() };
        task.round = member.round.next();
        task.attempts = attempts;
        task.waits_since = now;
        let candidate = task.candidate();
        tables.show(target, candidate);
        Ok(PutBack::Waits)
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, _: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        if let Some(task) = tables.tasks.get_mut(&member.id)
            && task.round == member.round
            && task.status == (Status::Batched { batch: batch.clone() })
        {
            task.status = match settlement {
                Settlement::Succeeded => Status::Succeeded { batch: batch.clone() },
                Settlement::Failed(reason) => Status::Failed { batch: batch.clone(), reason: reason.clone() },
            };
        }
        Ok(())
    }
}

impl Locks for MemoryStore {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        Ok(self.tables().locks.get(target).cloned())
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let mut tables = self.tables();
        let old = tables.locks.get(target);
        let holds = match &acquisition.assumes {
            lock::Assumes::Free => {
                old.is_none_or(|old| old.holder.is_none() && old.open.is_none() && old.fence < acquisition.next.fence)
            }
            // A signal that came meanwhile changes nothing for whoever takes over.
            lock::Assumes::Unchanged(seen) => {
                old.is_some_and(|old| Lock { signals: seen.signals, ..old.clone() } == *seen)
            }
        };
        let signals = old.map_or(0, |old| old.signals);
        let next = Lock { signals, ..acquisition.next.clone() };
        if !holds {
            // The lock as this very acquisition leaves it: the answer to an earlier try was lost.
            return Ok(if old == Some(&next) { Acquired::Yes } else { Acquired::No(old.cloned()) });
        }
        tables.locks.insert(target.clone(), next);
        Ok(Acquired::Yes)
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        let mut tables = self.tables();
        let term = Term { target: target.clone(), workflow: held.workflow.clone(), fence: held.fence };
        match tables.locks.get_mut(target) {
            Some(lock) if lock.is_led_by(&term) => {
                lock.signals += 1;
                Ok(Signalled::Yes)
            }
            other => Ok(Signalled::No(other.cloned())),
        }
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        let mut tables = self.tables();
        let Some(lock) = tables.locks.get_mut(&term.target).filter(|lock| lock.is_led_by(term)) else {
            return Ok(Advanced::Lost);
        };
        if lock.seq == seq {
            lock.seq = seq.next();
            lock.open = Some(term.batch_id(lock.seq));
            if let Some(holder) = &mut lock.holder {
                holder.lease_until = lease_until;
            }
        } else if lock.seq != seq.next() {
            return Ok(Advanced::Lost);
        }
        Ok(Advanced::Kept(lock.clone()))
    }

    async fn release(&self, term: &Term, signals: u64, _: Timestamp) -> Result<Released> {
        let mut tables = self.tables();
        match tables.locks.get_mut(&term.target) {
            Some(lock) if lock.is_led_by(term) && lock.signals != signals => Ok(Released::Signalled(lock.signals)),
            Some(lock) if lock.is_led_by(term) => {
                lock.holder = None;
                lock.open = None;
                Ok(Released::Yes)
            }
            Some(lock) if lock.holder.is_none() && lock.fence == term.fence => Ok(Released::Yes),
            Some(_) | None => Ok(Released::Lost),
        }
    }
}

impl Batches for MemoryStore {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        Ok(self.tables().batches.get(id).cloned())
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.batches.get(&batch.id);
        let holds = match assumes {
            Assumes::Absent => old.is_none(),
            Assumes::At(revision) => old.is_some_and(|old| old.revision == revision),
        };
        if holds {
            tables.batches.insert(batch.id.clone(), batch.clone());
            Ok(Stored::Yes)
        } else if old == Some(batch) {
            Ok(Stored::Yes)
        } else {
            Ok(Stored::Conflict)
        }
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        let tables = self.tables();
        let mut due: Vec<(Timestamp, &BatchId)> = tables
            .batches
            .values()
            .filter(|batch| batch.target.route() == *route && Part::of(&batch.id) == part)
            .filter_map(|batch| batch.unfinished().map(|due| (due, &batch.id)))
            .filter(|(due, _)| *due < before)
            .collect();
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, id)| id.clone()).collect())
    }
}

impl Sessions for MemoryStore {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        let mut tables = self.tables();
        match tables.sessions.get(&session.id) {
            Some(old) if old == session => Ok(Stored::Yes),
            Some(_) => Ok(Stored::Conflict),
            None => {
                tables.sessions.insert(session.id.clone(), session.clone());
                Ok(Stored::Yes)
            }
        }
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        let mut tables = self.tables();
        match tables.sessions.get_mut(&session.id) {
            Some(old) if old.beat.next() == session.beat => {
                *old = session.clone();
                Ok(Renewed::Kept)
            }
            Some(old) if old == session => Ok(Renewed::Kept),
            Some(_) | None => Ok(Renewed::Lost),
        }
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        let mut tables = self.tables();
        match tables.sessions.get(id) {
            Some(session) if session.beat != beat => Ok(Ended::Lives(session.clone())),
            Some(_) | None => {
                tables.sessions.remove(id);
                Ok(Ended::Yes)
            }
        }
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        Ok(self.tables().sessions.get(id).cloned())
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        let tables = self.tables();
        let pooled = tables.sessions.values().filter(|session| session.id.pool() == *pool);
        Ok(pooled.take(limit).cloned().collect())
    }
}

impl Gates for MemoryStore {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        Ok(self.tables().gates.get(scope).cloned().unwrap_or_default())
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, _: Timestamp) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.gates.get(scope).cloned().unwrap_or_default();
        if old.revision.next() == gate.revision {
            tables.gates.insert(scope.clone(), gate.clone());
            Ok(Stored::Yes)
        } else if old == *gate {
            Ok(Stored::Yes)
        } else {
            Ok(Stored::Conflict)
        }
    }
}

impl Census for MemoryStore {
    async fn held_locks(&self) -> Result<Vec<(Target, Lock)>> {
        let tables = self.tables();
        let held = tables.locks.iter().filter(|(_, lock)| lock.holder.is_some());
        Ok(held.map(|(target, lock)| (target.clone(), lock.clone())).collect())
    }

    async fn unsettled_tasks(&self) -> Result<Vec<Task>> {
        Ok(self.tasks().into_iter().filter(|task| !task.status.is_settled()).collect())
    }
}

/// The segment that a task lies in when a scan is split into `of`.
fn segment_of(id: &TaskId, of: u8) -> u8 {
    id.as_str().bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) % of.max(1)
}
