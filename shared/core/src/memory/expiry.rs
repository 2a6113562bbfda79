//! What expires, in memory: each write says until when its record is kept, as on AWS.
//!
//! Nothing expires by itself: a test says when DynamoDB deletes what is due, and what of it comes late.

use std::collections::BTreeMap;

use super::{MemoryStore, Tables};
use crate::domain::batch::Batch;
use crate::domain::gate::Scope;
use crate::domain::list::{Addition, Life};
use crate::domain::shelf::Shelf;
use crate::domain::task::{RETENTION_DAYS, Task};
use crate::domain::time::{DAY_MS, IDLE_MS, Timestamp};
use crate::domain::{BatchId, LaneId, SessionId, Target, TaskId};

/// How long records are kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// Settled tasks, finished batches, idle lanes, and what is remembered of calls to lists.
    pub retention_ms: u64,
    /// Gates, locks and bookmarks that are not used.
    pub idle_ms: u64,
    /// Sessions that are over.
    pub session_ms: u64,
}

impl Default for Keeps {
    fn default() -> Self {
        Self { retention_ms: RETENTION_DAYS * DAY_MS, idle_ms: IDLE_MS, session_ms: DAY_MS }
    }
}

/// A record that may expire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Task(TaskId),
    Batch(BatchId),
    Outputs(String),
    Lock(Target),
    Gate(Scope),
    Session(SessionId),
    Bookmarks(Shelf),
    Lane(LaneId),
    Addition(Life, String),
    Record(Life, String),
}

/// When which record expires, and what has expired.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiry {
    pub(super) keeps: Keeps,
    due: BTreeMap<Row, Timestamp>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) batches: BTreeMap<BatchId, Batch>,
    pub(super) additions: BTreeMap<(Life, String), Addition>,
}

impl Expiry {
    /// A record is kept until then; `None`: for ever.
    pub(super) fn keep(&mut self, row: Row, until: Option<Timestamp>) {
        match until {
            Some(until) => self.due.insert(row, until),
            None => self.due.remove(&row),
        };
    }

    /// The records of tables that were copied at different moments, in the order of [`Copies`](super::Copies).
    pub(super) fn of_copies(copies: [&Self; 5]) -> Self {
        let its = |(n, copy): (usize, &Self)| -> Vec<(Row, Timestamp)> {
            copy.due.iter().filter(|(row, _)| row.copy() == n).map(|(row, until)| (row.clone(), *until)).collect()
        };
        Self { due: copies.into_iter().enumerate().flat_map(its).collect(), ..copies[4].clone() }
    }
}

impl Row {
    fn task(self) -> Option<TaskId> {
        if let Self::Task(id) = self { Some(id) } else { None }
    }

    const fn copy(&self) -> usize {
        match self {
            Self::Task(_) => 0,
            Self::Batch(_) | Self::Outputs(_) => 1,
            Self::Lock(_) | Self::Gate(_) | Self::Bookmarks(_) => 2,
            Self::Session(_) => 3,
            Self::Lane(_) | Self::Addition(..) | Self::Record(..) => 4,
        }
    }
}

impl MemoryStore {
    /// Empty tables that keep records for so long.
    pub fn keeping(keeps: Keeps) -> Self {
        let store = Self::new();
        store.tables().expiry.keeps = keeps;
        store
    }

    /// Deletes the records that are due by `now`, as DynamoDB does, except those that it `comes_late` to. Returns the
    /// tasks among them.
    pub fn expire(&self, now: Timestamp, mut comes_late: impl FnMut() -> bool) -> Vec<TaskId> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let due = tables.expiry.due.iter().filter(|(_, until)| **until < now).map(|(row, _)| row.clone());
        let rows: Vec<Row> = due.filter(|_| !comes_late()).collect();
        for row in &rows {
            tables.expiry.due.remove(row);
            tables.delete(row.clone());
        }
        rows.into_iter().filter_map(Row::task).collect()
    }
}

impl Tables {
    fn delete(&mut self, row: Row) {
        match row {
            Row::Task(id) => {
                self.failures.remove(&id);
                self.expiry.tasks.extend(self.tasks.remove_entry(&id));
            }
            Row::Batch(id) => self.expiry.batches.extend(self.batches.remove_entry(&id)),
            Row::Outputs(key) => drop(self.outputs.remove(&key)),
            Row::Lock(target) => drop(self.locks.remove(&target)),
            Row::Gate(scope) => drop(self.gates.remove(&scope)),
            Row::Session(id) => drop(self.sessions.remove(&id)),
            Row::Bookmarks(shelf) => drop(self.bookmarks.remove(&shelf)),
            Row::Lane(id) => self.forget_lane(&id),
            Row::Addition(life, key) => self.forget_addition(&life, key),
            Row::Record(life, key) => self.forget_record(&life, key),
        }
    }
}
