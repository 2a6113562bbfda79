//! The ports in memory, for tests, simulation and the benchmark of the protocol itself.
//!
//! One mutex holds all tables, so each call is atomic, as DynamoDB's single-item writes are; one file for each table
//! says what its calls do. The index never lags and nothing fails: the tests wrap the store for that.

mod batches;
mod due;
mod expiry;
mod failures;
mod gates;
mod lanes;
mod lists;
mod locks;
mod nodes;
mod queues;
mod sessions;
mod shelves;
mod streams;
mod tasks;
mod trackers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::batch::{Batch, ByPosition};
use crate::domain::gate::{Breaker, Gate, Scope};
use crate::domain::lock::Lock;
use crate::domain::session::Session;
use crate::domain::shelf::{Bookmarks, Shelf};
use crate::domain::stream::{Life, Stream};
use crate::domain::task::Task;
use crate::domain::{BatchId, LaneId, ListId, SessionId, StreamId, Target, TaskId, Timestamp, TrackerId};
use crate::ports::{Census, Queue, Result};
use expiry::Expiry;

pub use batches::listed;
pub use due::{due, in_segment};
pub use expiry::Keeps;
pub use queues::{Delivery, MemoryQueues};

/// Copies of which tables are taken, each from its own.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'a> {
    /// The tasks, with their index and what is kept of those that failed.
    pub tasks: &'a MemoryStore,
    /// The batches.
    pub batches: &'a MemoryStore,
    /// The locks, with the gates and sweeps' bookmarks, which lie in the same table.
    pub locks: &'a MemoryStore,
    /// The sessions.
    pub sessions: &'a MemoryStore,
    /// All others.
    pub others: &'a MemoryStore,
}

/// All tables.
#[derive(Debug, Default)]
#[must_use]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    tasks: HashMap<TaskId, Task>,
    /// What the index shows: waiting tasks by Target.
    waiting: BTreeMap<Target, Queue>,
    /// Scheduled tasks, by when they are due.
    due: BTreeSet<(Timestamp, TaskId)>,
    /// What is kept of each failed task's failure, and whether it is filed.
    failures: HashMap<TaskId, failures::Kept>,
    locks: HashMap<Target, Lock>,
    batches: HashMap<BatchId, Batch>,
    /// Parts of batches' outputs, by their keys.
    outputs: HashMap<String, ByPosition>,
    sessions: BTreeMap<SessionId, Session>,
    gates: BTreeMap<Scope, Gate>,
    bookmarks: BTreeMap<Shelf, Bookmarks>,
    trackers: BTreeMap<TrackerId, trackers::Tracked>,
    lists: BTreeMap<ListId, lists::Listed>,
    lanes: BTreeMap<LaneId, lanes::InLane>,
    streams: BTreeMap<StreamId, Stream>,
    streamed: BTreeMap<Life, streams::Streamed>,
    expiry: Expiry,
}

impl MemoryStore {
    /// Empty tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tables with what is in these now.
    pub fn copy(&self) -> Self {
        Self { tables: Mutex::new(self.tables().clone()) }
    }

    /// Puts what is in a copy in place of everything.
    pub fn restore(&self, copy: &Self) {
        let restored = copy.tables().clone();
        *self.tables() = restored;
    }

    /// Tables that were copied at different moments.
    pub fn of_copies(copies: Copies<'_>) -> Self {
        let [tasks, batches, locks, sessions, others] =
            [copies.tasks, copies.batches, copies.locks, copies.sessions, copies.others]
                .map(|copy| copy.tables().clone());
        let expiry = Expiry::of_copies([&tasks, &batches, &locks, &sessions, &others].map(|copy| &copy.expiry));
        let Tables { tasks, waiting, failures, .. } = tasks;
        let Tables { locks, gates, bookmarks, .. } = locks;
        let (Tables { batches, outputs, .. }, sessions) = (batches, sessions.sessions);
        let of_tasks = Tables { tasks, waiting, failures, ..others };
        let tables = Tables { locks, batches, outputs, sessions, gates, bookmarks, expiry, ..of_tasks };
        Self { tables: Mutex::new(tables) }
    }

    /// All tasks, also those that expired, in the order of their ids.
    pub fn tasks(&self) -> Vec<Task> {
        let tables = self.tables();
        let mut all = tables.expiry.tasks.clone();
        all.extend(tables.tasks.iter().map(|(id, task)| (id.clone(), task.clone())));
        all.into_values().collect()
    }

    /// Tasks that ended while they waited, and of which somebody may not have heard, in the order of their ids.
    pub fn untold(&self) -> Vec<TaskId> {
        let mut untold: Vec<TaskId> = self.tables().untold().map(|(_, id, ..)| id.clone()).collect();
        untold.sort();
        untold
    }

    /// All gates that were ever written.
    pub fn gates(&self) -> Vec<(Scope, Gate)> {
        self.tables().gates.iter().map(|(scope, gate)| (scope.clone(), gate.clone())).collect()
    }

    /// All batches, also those that expired, in the order of their ids.
    pub fn batches(&self) -> Vec<Batch> {
        let tables = self.tables();
        let mut all = tables.expiry.batches.clone();
        all.extend(tables.batches.iter().map(|(id, batch)| (id.clone(), batch.clone())));
        all.into_values().collect()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic while the lock was held left single-item writes whole; there is nothing to repair.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Census for MemoryStore {
    async fn gates_to_tell_of(&self) -> Result<Vec<(Scope, Gate)>> {
        let tables = self.tables();
        let told = tables.gates.iter().filter(|(_, gate)| gate.breaker != Breaker::default());
        Ok(told.map(|(scope, gate)| (scope.clone(), gate.clone())).collect())
    }

    async fn held_locks(&self) -> Result<Vec<(Target, Lock)>> {
        let tables = self.tables();
        let held = tables.locks.iter().filter(|(_, lock)| lock.holder.is_some());
        Ok(held.map(|(target, lock)| (target.clone(), lock.clone())).collect())
    }

    async fn unsettled_tasks(&self) -> Result<Vec<Task>> {
        Ok(self.tasks().into_iter().filter(|task| !task.status.is_settled()).collect())
    }

    async fn tasks_that(&self, are_wanted: &(dyn Fn(&Task) -> bool + Sync)) -> Result<Vec<TaskId>> {
        let tables = self.tables();
        let mut wanted: Vec<_> =
            tables.tasks.values().filter(|task| are_wanted(task)).map(|task| task.id.clone()).collect();
        wanted.sort();
        Ok(wanted)
    }
}
