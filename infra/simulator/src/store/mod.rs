//! The tables as one execution environment sees them: every call takes its time, and what DynamoDB would bill is
//! counted.
//!
//! Units are computed from the items before and after each write, by `groupage_aws::price`; the tables inside are those
//! in memory, whose calls never wait, so nothing comes between the looks and the write. Failed tasks, trackers, lists,
//! lanes, streams, outputs and sweep's bookmarks are handed on without a price: no scenario uses them, and what sweep
//! reads costs by the minute.

mod batches;
mod locks;
mod sessions;
mod tasks;

use std::sync::{Arc, Mutex, PoisonError};

use groupage_aws::price::{self, Image};
use groupage_aws::{ATTEMPTS, Meter, Units};
use groupage_core::domain::time::Timestamp;
use groupage_core::memory::MemoryStore;
use groupage_core::ports::{Env, Freshness, Result, layer};

use crate::clock::TestEnv;
use crate::keys::Keys;
use crate::lag::Lagging;
use crate::latency::Hop;
use crate::limits::Capacity;
use crate::machine::Machine;
use crate::report::GateRequests;

/// How long a settled task and its batch stay readable: as deployed.
const RETENTION_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// The tables, shared by all environments.
#[derive(Clone, Debug)]
pub struct Tables {
    inner: Arc<Lagging<MemoryStore, TestEnv>>,
    env: TestEnv,
    meter: Arc<Meter>,
    capacity: Option<Arc<Capacity>>,
    gate_requests: Arc<Mutex<GateRequests>>,
}

impl Tables {
    /// Empty tables whose indexes lag as `inner` says; with limits, if any are simulated.
    pub fn new(
        inner: Lagging<MemoryStore, TestEnv>,
        env: TestEnv,
        meter: Arc<Meter>,
        capacity: Option<Arc<Capacity>>,
    ) -> Self {
        Self { inner: Arc::new(inner), env, meter, capacity, gate_requests: Arc::default() }
    }

    /// Reads and writes of gates so far.
    pub fn gate_requests(&self) -> GateRequests {
        *self.gate_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_gate(&self, count: impl FnOnce(&mut GateRequests)) {
        count(&mut self.gate_requests.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The tables as one environment sees them.
    pub fn seen_by(&self, machine: Machine) -> Store {
        Store { inner: Arc::clone(&self.inner), tables: self.clone(), machine }
    }
}

/// The tables as one environment sees them.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Lagging<MemoryStore, TestEnv>>,
    tables: Tables,
    machine: Machine,
}

impl Store {
    fn memory(&self) -> &MemoryStore {
        self.inner.inner()
    }

    fn now(&self) -> Timestamp {
        self.tables.env.now()
    }

    /// Waits until a request is through.
    ///
    /// # Errors
    /// A partition refused it once too often.
    pub async fn call(&self, hop: Hop, keys: Keys<'_>) -> Result<()> {
        self.attempt(hop, keys, ATTEMPTS).await
    }

    /// The same with this many `attempts` at most.
    async fn attempt(&self, hop: Hop, keys: Keys<'_>, attempts: u32) -> Result<()> {
        self.machine.call(hop).await;
        match &self.tables.capacity {
            Some(capacity) => capacity.admit(&self.machine, &self.tables.env, hop, keys, attempts).await,
            None => Ok(()),
        }
    }

    /// Makes a read of one item and counts it. `image` looks at the item.
    async fn look<T>(
        &self,
        keys: Keys<'_>,
        image: impl Future<Output = Result<Option<Image>>>,
        read: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.call(Hop::Read, keys).await?;
        let bytes = image.await?.map_or(0, |image| image.bytes());
        self.read(keys, bytes, Freshness::Latest);
        read.await
    }

    /// Makes a write of one item and counts it, by whether it `did` change the item. `image` looks at the item.
    async fn write<T, I: Future<Output = Result<Option<Image>>>>(
        &self,
        keys: Keys<'_>,
        image: impl Fn() -> I,
        write: impl Future<Output = Result<T>>,
        did: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        self.call(Hop::Write, keys).await?;
        let old = image().await?;
        let outcome = write.await?;
        if did(&outcome) {
            self.wrote(keys, old.as_ref(), image().await?.as_ref());
        } else {
            self.refused(keys, old.as_ref());
        }
        Ok(outcome)
    }

    /// Counts a write that found `old` and left `new`.
    pub fn wrote(&self, keys: Keys<'_>, old: Option<&Image>, new: Option<&Image>) {
        let (table, index) = price::write(keys.place(), old, new);
        self.tables.meter.charge_write(keys.place(), (table, index));
        self.consume(keys, Hop::Write, table, index);
    }

    /// Counts a write that `old` refused.
    pub fn refused(&self, keys: Keys<'_>, old: Option<&Image>) {
        let units = price::refused_write(old);
        self.tables.meter.charge_refused_write(keys.place(), units);
        self.consume(keys, Hop::Write, units, Units::default());
    }

    /// Counts a read of an item.
    pub fn read(&self, keys: Keys<'_>, bytes: u64, freshness: Freshness) {
        let units = price::read(bytes, freshness);
        self.tables.meter.charge_read(keys.place(), units);
        self.consume(keys, Hop::Read, units, Units::default());
    }

    /// Counts a page of an index.
    pub fn paged(&self, keys: Keys<'_>, bytes: u64) {
        let units = price::read(bytes, Freshness::Eventual);
        self.tables.meter.charge_index_read(keys.place(), units);
        self.consume(keys, Hop::Page, Units::default(), units);
    }

    fn consume(&self, keys: Keys<'_>, hop: Hop, table: Units, index: Units) {
        if let Some(capacity) = &self.tables.capacity {
            capacity.consume(keys, hop, table, index);
        }
    }
}

impl layer::Layer for Store {
    type Inner = Lagging<MemoryStore, TestEnv>;

    fn inner(&self) -> &Self::Inner {
        &self.inner
    }
}

groupage_core::hand_on!(Store: Failures, Lanes, Trackers, Lists, Streams, Shelves);
