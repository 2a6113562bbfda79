//! What a run costs: capacity units by table and index, SQS requests by kind.
//!
//! DynamoDB says with each answer what it consumed. With a failed condition it says nothing although it bills the write
//! by the size of the item that was there, so that is computed from the item. What the SDK repeats by itself is counted
//! once: these are the figures of a run without lost answers.

mod usage;

use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::ConsumedCapacity;
use usage::PLACES;
pub use usage::{Capacity, Place, Requests, Units, Usage};

/// A kind of SQS request. A batch of ten messages is one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqsRequest {
    /// Sending.
    Send,
    /// Receiving, whether anything came or not.
    Receive,
    /// Deleting.
    Delete,
    /// Changing how long a message stays hidden.
    ChangeVisibility,
}

/// Counts; shared by all adapters of a process.
#[derive(Debug, Default)]
pub struct Meter {
    /// In tenths of a unit, by [`Place`].
    read: [AtomicU64; PLACES],
    write: [AtomicU64; PLACES],
    refused_writes: AtomicU64,
    /// By [`SqsRequest`].
    sqs: [AtomicU64; 4],
}

/// AWS bills an SQS request once for every started chunk of this many bytes.
const SQS_CHUNK_BYTES: u64 = 64 * 1024;

impl Meter {
    /// A meter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// All counts as they are now; the difference of two is what happened between.
    pub fn snapshot(&self) -> Usage {
        let capacity = |place: usize| Capacity {
            read: Units::tenths(self.read[place].load(Ordering::Relaxed)),
            write: Units::tenths(self.write[place].load(Ordering::Relaxed)),
        };
        let requests = |kind: SqsRequest| self.sqs[kind as usize].load(Ordering::Relaxed);
        Usage {
            places: std::array::from_fn(capacity),
            refused_writes: self.refused_writes.load(Ordering::Relaxed),
            sqs: Requests {
                send: requests(SqsRequest::Send),
                receive: requests(SqsRequest::Receive),
                delete: requests(SqsRequest::Delete),
                change_visibility: requests(SqsRequest::ChangeVisibility),
            },
        }
    }

    /// Counts one SQS request that carried `bytes`, as AWS bills it; returns as how many that is.
    pub fn count_sqs(&self, kind: SqsRequest, bytes: u64) -> u64 {
        let billed = bytes.div_ceil(SQS_CHUNK_BYTES).max(1);
        self.sqs[kind as usize].fetch_add(billed, Ordering::Relaxed);
        billed
    }

    /// Counts read units that nobody reported: those of a simulated table.
    pub fn charge_read(&self, place: Place, units: Units) {
        add(&self.read, place, units);
    }

    /// Counts the units of a simulated table's write: in the table, and in its index.
    pub fn charge_write(&self, place: Place, (table, index): (Units, Units)) {
        add(&self.write, place, table);
        add(&self.write, place.index(), index);
    }

    /// Counts a write whose condition failed: DynamoDB reports no units for it, but bills them.
    pub fn charge_refused_write(&self, place: Place, units: Units) {
        self.refused_writes.fetch_add(1, Ordering::Relaxed);
        add(&self.write, place, units);
    }

    /// Counts read units of a simulated table's index.
    pub fn charge_index_read(&self, place: Place, units: Units) {
        add(&self.read, place.index(), units);
    }

    /// Counts a read's reported consumption.
    pub(crate) fn count_read<'a>(&self, place: Place, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        consumed.into_iter().for_each(|consumed| count(&self.read, place, consumed));
    }

    /// Counts a write's reported consumption.
    pub(crate) fn count_write(&self, place: Place, consumed: Option<&ConsumedCapacity>) {
        consumed.into_iter().for_each(|consumed| count(&self.write, place, consumed));
    }
}

fn count(counters: &[AtomicU64; PLACES], place: Place, consumed: &ConsumedCapacity) {
    let table = match consumed.table() {
        Some(table) => table.capacity_units(),
        // An endpoint that does not break the figure down.
        None => consumed.capacity_units(),
    };
    add(counters, place, Units::reported(table.unwrap_or_default()));
    for index in consumed.global_secondary_indexes().into_iter().flat_map(|indexes| indexes.values()) {
        add(counters, place.index(), Units::reported(index.capacity_units().unwrap_or_default()));
    }
}

fn add(counters: &[AtomicU64; PLACES], place: Place, units: Units) {
    counters[place as usize].fetch_add(units.as_tenths(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::Capacity as Consumed;

    use super::*;

    fn consumed(table: f64, index: f64) -> ConsumedCapacity {
        let units = |units| Consumed::builder().capacity_units(units).build();
        ConsumedCapacity::builder()
            .capacity_units(table + index)
            .table(units(table))
            .global_secondary_indexes("Waiting", units(index))
            .build()
    }

    #[test]
    fn halves_of_a_unit_add_up_and_differences_can_be_taken() {
        let meter = Meter::new();
        meter.count_read(Place::Tasks, [&consumed(0.5, 0.0)]);
        let before = meter.snapshot();
        meter.count_read(Place::Tasks, [&consumed(0.5, 0.0), &consumed(0.5, 0.0)]);
        assert_eq!((meter.snapshot() - before).at(Place::Tasks).read, Units::whole(1));
        assert_eq!(meter.snapshot().at(Place::Tasks).read.to_string(), "1.5");
    }

    #[test]
    fn a_table_and_its_index_are_counted_apart() {
        let meter = Meter::new();
        meter.count_write(Place::Tasks, Some(&consumed(1.0, 2.0)));
        let usage = meter.snapshot();
        assert_eq!((usage.at(Place::Tasks).write, usage.at(Place::Waiting).write), (Units::whole(1), Units::whole(2)));
        assert_eq!(usage.capacity().write, Units::whole(3));
    }

    #[test]
    fn an_sqs_request_is_billed_once_per_started_64_kib() {
        let meter = Meter::new();
        meter.count_sqs(SqsRequest::Send, 0);
        meter.count_sqs(SqsRequest::Send, 65_537);
        assert_eq!(meter.snapshot().sqs, Requests { send: 3, ..Requests::default() });
    }
}
