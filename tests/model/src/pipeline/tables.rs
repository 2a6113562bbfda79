//! The tables: one item of each kind at a time, under the preconditions that the ports promise.

use groupage_core::domain::batch::{FollowUp, Status};

use crate::harness::kept::fresh_name;
use crate::prelude::*;
use crate::steps::sessions::Sessions;

/// The fresh names of events, from the first to before the last: of these are the ids of batches that need no leader.
pub const EXPRESS_NAMES: (u8, u8) = (8, 16);

/// All tables, for one Target and its shards.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Tables {
    /// The tasks, by number.
    pub tasks: Vec<Row>,
    /// The locks, by the number of the shard.
    pub locks: Vec<Led>,
    /// The batches, in the order of their ids.
    pub batches: Vec<Kept<Batch>>,
    /// The sessions.
    pub sessions: Sessions,
}

/// A shard's lock, with what nobody in the protocol sees.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Led {
    /// The lock, once somebody has written it.
    pub lock: Option<Kept<Lock>>,
    /// The open batch that its present holder found when it took over.
    pub inherited: Option<BatchId>,
    /// Where the holder must look before it releases: a bit for each shard.
    pub unseen: u8,
}

impl Led {
    /// Whether somebody holds the lock and is left alone.
    pub fn lives(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.is_led(Timestamp(0)))
    }

    /// The lock's lease is over.
    pub fn end_lease(&mut self) {
        if let Some(mut lock) = self.lock.as_deref().cloned() {
            if let Some(holder) = &mut lock.holder {
                holder.lease_until = Timestamp(0);
            }
            self.lock = Some(Kept::new(lock));
        }
    }
}

/// A task, and what a read that lags may still show of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Row {
    pub now: Kept<Task>,
    /// As it was before its latest write.
    pub before: Before,
}

/// What a read that lags shows.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Before {
    /// Just what there is: reads lag no more.
    Same,
    /// No task.
    Absent,
    Was(Kept<Task>),
}

impl Row {
    /// The task as a read shows it.
    pub fn shown(&self, lagging: bool) -> Option<&Kept<Task>> {
        match &self.before {
            Before::Absent if lagging => None,
            Before::Was(task) if lagging => Some(task),
            Before::Same | Before::Absent | Before::Was(_) => Some(&self.now),
        }
    }

    /// The task as the index of waiting tasks shows it, with its shard.
    pub fn indexed(&self, lagging: bool) -> Option<(Target, Candidate)> {
        let task = self.shown(lagging)?;
        task.status.waits_for().map(|target| (target.clone(), task.candidate()))
    }

    fn write(&mut self, task: Task, lags: bool) {
        let old = std::mem::replace(&mut self.now, Kept::new(task));
        self.before = if lags { Before::Was(old) } else { Before::Same };
    }
}

impl Tables {
    pub fn row(&self, id: &TaskId) -> Option<&Row> {
        self.tasks.iter().find(|row| row.now.id == *id)
    }

    pub fn batch(&self, id: &BatchId) -> Option<&Kept<Batch>> {
        self.batches.iter().find(|batch| batch.id == *id)
    }

    /// Writes a task; `lags` says that reads may go on showing what it was.
    pub fn put_task(&mut self, task: Task, lags: bool) {
        if let Some(row) = self.tasks.iter_mut().find(|row| row.now.id == task.id) {
            row.write(task, lags);
        }
    }

    /// Puts a task that was not there.
    pub fn add_task(&mut self, task: Task, lags: bool) {
        let at = self.tasks.partition_point(|row| row.now.id < task.id);
        let before = if lags { Before::Absent } else { Before::Same };
        self.tasks.insert(at, Row { now: Kept::new(task), before });
    }

    /// From now on every read shows what there is.
    pub fn catch_up(&mut self) {
        for row in &mut self.tasks {
            row.before = Before::Same;
        }
    }

    /// A shard's lock.
    pub fn led(&self, target: &Target) -> Option<&Led> {
        self.locks.get(usize::from(target.shard().0))
    }

    /// A shard's lock, to write; the model has as many as its setting has shards.
    pub fn led_mut(&mut self, target: &Target) -> &mut Led {
        let at = usize::from(target.shard().0);
        if at >= self.locks.len() {
            self.locks.resize_with(at + 1, Led::default);
        }
        &mut self.locks[at]
    }

    /// Writes a batch.
    pub fn put_batch(&mut self, batch: Kept<Batch>) {
        match self.batches.binary_search_by(|other| other.id.cmp(&batch.id)) {
            Ok(at) => self.batches[at] = batch,
            Err(at) => self.batches.insert(at, batch),
        }
    }

    /// Whether the batch's claim is that of a live session.
    pub fn claim_lives(&self, batch: &Batch) -> bool {
        match &batch.status {
            Status::InProgress { claim } => self.sessions.get(&claim.session).is_some_and(|session| lives(session)),
            _ => false,
        }
    }

    /// The fresh names that occur in the tables.
    pub fn names(&self) -> Names {
        let batches = self.batches.iter().map(Kept::names);
        let sessions = self.sessions.values().map(Kept::names);
        let locks = self.locks.iter().filter_map(|led| led.lock.as_ref()).map(Kept::names);
        batches.chain(sessions).chain(locks).fold(0, |all, names| all | names)
    }

    /// Whether every task is settled, nobody holds a lock (but a dead leader that nobody knows of), and what follows
    /// from each outcome was done. (That all members have returned may be marked late, by sweep.)
    pub fn is_at_rest(&self, orphaned: bool) -> bool {
        let is_free = |lock: &Kept<Lock>| lock.holder.is_none() && lock.open.is_none();
        let free = orphaned || self.locks.iter().filter_map(|led| led.lock.as_ref()).all(is_free);
        let pending =
            |batch: &Kept<Batch>| matches!(batch.status, Status::Settled { follow_up: FollowUp::Pending, .. });
        free && !self.batches.iter().any(pending) && self.tasks.iter().all(|row| row.now.status.is_settled())
    }
}

/// Whether a session is not over.
pub fn lives(session: &Session) -> bool {
    session.expires_at > Timestamp(0)
}

/// A batch as it is when its window or its pause is over, if it waits for that.
pub fn after_waiting(batch: &Batch) -> Option<Batch> {
    let status = match &batch.status {
        Status::Open { until } if until.0 > 0 => Status::Open { until: Timestamp(0) },
        Status::Paused { until } if until.0 > 0 => Status::Paused { until: Timestamp(0) },
        _ => return None,
    };
    Some(Batch { status, ..batch.clone() })
}

/// Whether a batch takes candidates.
pub const fn is_open(batch: &Batch) -> bool {
    matches!(batch.status, Status::Open { .. })
}

/// Whether a batch is one that no leader made.
pub fn is_express(id: &BatchId) -> bool {
    (EXPRESS_NAMES.0..EXPRESS_NAMES.1).any(|n| BatchId::express(&fresh_name(n)) == *id)
}
