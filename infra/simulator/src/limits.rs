//! What DynamoDB's partitions bear, and what becomes of requests beyond that.
//!
//! A partition serves 1,000 write units and 3,000 read units a second (developer guide, *Designing partition keys to
//! distribute your workload*); an index has partitions of its own, and one that is over its limit throttles the writes
//! of its table (*Global secondary index write throttling*). A request is let in while its partition has units left and
//! is charged for what it then consumes. Who is throttled tries again by the SDK's rules, as often as the adapters say:
//! full jitter, and a budget of tokens for all requests of one client.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use groupage_aws::{INITIAL_BACKOFF, MAX_BACKOFF, Place, Units};
use groupage_core::ports::{Env, Error, Result};
use tokio::time::{Instant, sleep};

use crate::clock::TestEnv;
use crate::keys::Keys;
use crate::latency::Hop;
use crate::machine::Machine;

/// How much a table bears.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Partitions of each table and of each index. A new on-demand table has four (developer guide, *On-demand capacity
    /// mode*: 4,000 write units and 12,000 read units at once); one that was warmed has more.
    pub partitions: u64,
    /// Whether each key of an index lies on a partition of its own. DynamoDB splits partitions that are at their limit,
    /// and isolates keys that are used much, after some time of which it says no more (developer guide, *Burst and
    /// adaptive capacity*, *Key range throughput exceeded*).
    pub isolated: bool,
    /// Write units that a partition serves in a second.
    pub write_units: f64,
    /// Read units that a partition serves in a second.
    pub read_units: f64,
    /// Seconds of unused capacity that a partition saves up for bursts: up to 300 on AWS, which promises none of it.
    pub saved_s: f64,
    /// Write units that a whole table or index serves in a second: the default quota of an account.
    pub table_write_units: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            partitions: 4,
            isolated: false,
            write_units: 1_000.0,
            read_units: 3_000.0,
            saved_s: 1.0,
            table_write_units: 40_000.0,
        }
    }
}

/// The partitions of all tables and what they have left.
#[derive(Debug)]
pub(crate) struct Capacity {
    limits: Limits,
    /// Decides which key lies where.
    seed: u64,
    buckets: Mutex<HashMap<Shelf, Bucket>>,
    throttled: AtomicU64,
}

/// A partition of a table or an index; none stands for the whole.
type Shelf = (&'static str, Option<u64>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    write: f64,
    read: f64,
    at: Instant,
}

impl Capacity {
    /// Partitions that nobody has used yet; which key lies on which follows from the seed.
    pub(crate) fn new(limits: Limits, seed: u64) -> Self {
        Self { limits, seed, buckets: Mutex::default(), throttled: AtomicU64::new(0) }
    }

    /// Requests that were refused so far, each attempt counted.
    pub(crate) fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Waits until a request is let in, or gives up after this many `attempts`, as the SDK does.
    pub(crate) async fn admit(
        &self,
        machine: &Machine,
        dice: &TestEnv,
        hop: Hop,
        keys: Keys<'_>,
        attempts: u32,
    ) -> Result<()> {
        for attempt in 1..=attempts {
            if self.has_room(hop, keys) {
                machine.succeeded(attempt);
                return Ok(());
            }
            self.throttled.fetch_add(1, Ordering::Relaxed);
            if attempt == attempts || !machine.may_retry() {
                break;
            }
            let longest = (INITIAL_BACKOFF * 2_u32.pow(attempt - 1)).min(MAX_BACKOFF);
            sleep(longest.mul_f64(dice.random())).await;
            machine.call(hop).await;
        }
        Err(Error::Throttled { what: "reach a partition", why: "throttled".to_owned() })
    }

    /// Charges what a request came to.
    pub(crate) fn consume(&self, keys: Keys<'_>, hop: Hop, table: Units, index: Units) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (shelf, units) in self.shelves(keys).into_iter().zip([table, table, index, index]) {
            let Some(shelf) = shelf else { continue };
            let bucket = self.bucket(&mut buckets, shelf);
            match hop {
                Hop::Read | Hop::Page => bucket.read -= units.count(),
                Hop::Write | Hop::Request | Hop::Delivery | Hop::Invocation => bucket.write -= units.count(),
            }
        }
    }

    fn has_room(&self, hop: Hop, keys: Keys<'_>) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        self.shelves(keys).into_iter().flatten().all(|shelf| {
            let bucket = self.bucket(&mut buckets, shelf);
            match hop {
                Hop::Read | Hop::Page => bucket.read > 0.0,
                Hop::Write | Hop::Request | Hop::Delivery | Hop::Invocation => bucket.write > 0.0,
            }
        })
    }

    /// The item's partition and its table, the entry's and its index.
    fn shelves(&self, keys: Keys<'_>) -> [Option<Shelf>; 4] {
        let (table, index) = match keys.place() {
            Place::Tasks => ("tasks", "waiting"),
            Place::Batches => ("batches", "unfinished"),
            Place::Sessions => ("sessions", ""),
            _ => ("locks", ""),
        };
        let lies = |on: &'static str, key: &str, partitions: u64| {
            let mut hasher = DefaultHasher::new();
            (self.seed, on, key).hash(&mut hasher);
            (on, Some(hasher.finish() % partitions.max(1)))
        };
        let Limits { partitions, isolated, .. } = self.limits;
        let of_index = if isolated { u64::MAX } else { partitions };
        let entry = keys.entry();
        [
            Some(lies(table, keys.item(), partitions)),
            Some((table, None)),
            entry.map(|key| lies(index, key, of_index)),
            entry.map(|_| (index, None)),
        ]
    }

    /// A bucket with what has flowed in since it was last looked at.
    fn bucket<'a>(&self, buckets: &'a mut HashMap<Shelf, Bucket>, shelf: Shelf) -> &'a mut Bucket {
        let Limits { write_units, read_units, saved_s, table_write_units, .. } = self.limits;
        let write_rate = if shelf.1.is_some() { write_units } else { table_write_units };
        let read_rate = if shelf.1.is_some() { read_units } else { table_write_units };
        let now = Instant::now();
        let full = Bucket { write: write_rate * saved_s, read: read_rate * saved_s, at: now };
        let bucket = buckets.entry(shelf).or_insert(full);
        let elapsed_s = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.write = (bucket.write + write_rate * elapsed_s).min(full.write);
        bucket.read = (bucket.read + read_rate * elapsed_s).min(full.read);
        bucket.at = now;
        bucket
    }
}
