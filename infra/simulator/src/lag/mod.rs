//! A store that shows the past, as DynamoDB does: its indexes lag, and its eventual reads come from stale replicas.
//!
//! Wraps any store: every change of an index becomes visible after a random time of its own, so a task can be missing
//! from the index after its registration and linger there after it has joined a batch. The versions of a task, a
//! tracker or a node become visible to eventual reads one after the other, each after a random time.

mod batches;
mod failures;
mod lanes;
mod lists;
mod tasks;
mod trackers;
mod versions;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use groupage_core::domain::list::Life;
use groupage_core::domain::{Batch, BatchId, Task, TaskId, Timestamp, Token};
use groupage_core::ports::{Env, Gates, Locks, Sessions, Shelves, Streams, layer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use versions::Versions;

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
    random: Mutex<StdRng>,
    index: Mutex<tasks::Index>,
    replica: Mutex<BTreeMap<TaskId, Versions<Task>>>,
    unfinished: Mutex<BTreeMap<BatchId, batches::Entries>>,
    trackers: Mutex<trackers::Replica>,
    /// When each task on a list can be read.
    pub(crate) slots: Mutex<BTreeMap<(Life, Token), Timestamp>>,
}

impl<S, E: Env> Lagging<S, E> {
    /// Wraps `inner`; everything becomes visible after a random part of `lag`, by `clock`.
    pub fn new(inner: S, clock: E, lag: Lag, seed: u64) -> Self {
        let random = Mutex::new(StdRng::seed_from_u64(seed));
        let (index, replica, unfinished) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (trackers, slots) = (Mutex::default(), Mutex::default());
        Self { inner, clock, lag, random, index, replica, unfinished, trackers, slots }
    }

    /// The store inside.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// These were written by other means than the calls of a port: tables were restored.
    pub fn were_restored(&self, tasks: &[Task], batches: &[Batch]) {
        tasks.iter().for_each(|task| self.appeared(task));
        batches.iter().for_each(|batch| self.was_stored(batch));
    }

    /// These tasks have expired.
    pub fn forget(&self, tasks: &[TaskId]) {
        let mut replica = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(|task| drop(replica.remove(task)));
    }

    pub(crate) fn visible_at(&self, max_ms: u64) -> Timestamp {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.now().plus_ms(random.random_range(0..=max_ms))
    }
}

impl<S: Sync, E: Env> layer::Layer for Lagging<S, E> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }
}

// Nothing of these lags.
impl<S: Locks, E: Env> layer::Locks for Lagging<S, E> {}
impl<S: Sessions, E: Env> layer::Sessions for Lagging<S, E> {}
impl<S: Gates, E: Env> layer::Gates for Lagging<S, E> {}
impl<S: Shelves, E: Env> layer::Shelves for Lagging<S, E> {}
impl<S: Streams, E: Env> layer::Streams for Lagging<S, E> {}
