//! What reads and writes of the tables cost, without the tables: for a simulation that keeps items in memory and wants
//! DynamoDB's bill all the same.
//!
//! Items are encoded by the adapters themselves, so their sizes are the real ones. The rules are those of "DynamoDB
//! read and write operations" and "Using Global Secondary Indexes" in the DynamoDB developer guide. A write is billed
//! by the larger of the item before and after. An entry of an index costs one write to appear or to go. It costs two if
//! a key changes, one if anything else in it changes, and none if nothing does.

use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::{Batch, Candidate, Lock, Session, Target, Task, Timestamp};
use groupage_core::ports::{Freshness, Result};

use crate::dynamo::item::{self, Item, WRITE_UNIT_BYTES, number, text};
use crate::meter::{Place, Units};

pub use crate::sqs::requests;

/// A read unit reads this many bytes, or twice as many if the read may be stale.
const READ_UNIT_BYTES: u64 = 4096;

/// An item as its table holds it. Only a bug makes one that cannot be encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    place: Place,
    item: Item,
}

/// The keys of a table's index, and what else an entry carries.
const fn index(of: Place) -> Option<(&'static [&'static str], &'static [&'static str])> {
    match of {
        Place::Tasks => Some((&["Target", "Status"], &["Id", "Round", "Bytes", "WaitsSince"])),
        Place::Batches => Some((&["Open", "Due"], &["BatchId"])),
        // Not simulated with their prices, or without an index.
        _ => None,
    }
}

impl Image {
    /// A task; if it is settled, as one that was settled at `now`.
    pub fn task(task: &Task, retention_ms: u64, now: Timestamp) -> Result<Self> {
        let item = crate::tables::tasks::item_of(task, retention_ms, now)?;
        Ok(Self { place: Place::Tasks, item })
    }

    /// A lock; if nobody holds it, as one that was released at `now`.
    pub fn lock(target: &Target, lock: &Lock, now: Timestamp) -> Self {
        Self { place: Place::Locks, item: crate::tables::locks::item_of(target, lock, now) }
    }

    /// A batch.
    pub fn batch(batch: &Batch, retention_ms: u64) -> Result<Self> {
        Ok(Self { place: Place::Batches, item: crate::tables::batches::item_of(batch, retention_ms)? })
    }

    /// A session.
    pub fn session(session: &Session) -> Result<Self> {
        Ok(Self { place: Place::Sessions, item: crate::tables::sessions::item_of(session)? })
    }

    /// A gate as it is written at `now`.
    pub fn gate(scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Self> {
        Ok(Self { place: Place::Locks, item: crate::tables::gates::item_of(&scope.key(), gate, now)? })
    }

    /// An item with these attributes, for steps that store other items than ours.
    pub fn other(place: Place, texts: &[(&str, &str)], numbers: &[(&str, u64)]) -> Self {
        let texts = texts.iter().map(|(name, value)| ((*name).to_owned(), text(*value)));
        let numbers = numbers.iter().map(|(name, value)| ((*name).to_owned(), number(value)));
        Self { place, item: texts.chain(numbers).collect() }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        item::size(&self.item)
    }

    /// The size of its entry in the table's index; 0 if it has none.
    pub fn entry_bytes(&self) -> u64 {
        self.entry().as_ref().map_or(0, item::size)
    }

    /// What the index shows of it. It is sparse: an item without one of the keys is not in it.
    fn entry(&self) -> Option<Item> {
        let (keys, carried) = index(self.place)?;
        let taken = |name: &&str| Some(((*name).to_owned(), self.item.get(*name)?.clone()));
        let mut entry: Item = keys.iter().map(taken).collect::<Option<_>>()?;
        entry.extend(carried.iter().filter_map(taken));
        Some(entry)
    }

    fn has_keys_of(&self, other: &Self) -> bool {
        let keys = index(self.place).map_or(&[][..], |(keys, _)| keys);
        keys.iter().all(|key| self.item.get(*key) == other.item.get(*key))
    }
}

/// What a write costs that finds `old` and leaves `new`: in the table, and in its index if that changes.
pub fn write(place: Place, old: Option<&Image>, new: Option<&Image>) -> (Units, Units) {
    let table = old.map_or(0, Image::bytes).max(new.map_or(0, Image::bytes));
    let of = |entry: &Item| item::size(entry).div_ceil(WRITE_UNIT_BYTES).max(1);
    let entries = (old.and_then(Image::entry), new.and_then(Image::entry));
    let index = match (&entries, old.zip(new)) {
        ((None, None), _) => 0,
        ((Some(one), None) | (None, Some(one)), _) => of(one),
        ((Some(old), Some(new)), _) if old == new => 0,
        ((Some(before), Some(after)), Some((old, new))) if old.has_keys_of(new) => of(before).max(of(after)),
        ((Some(before), Some(after)), _) => of(before) + of(after),
    };
    debug_assert!(old.into_iter().chain(new).all(|image| image.place == place), "one table");
    (Units::whole(table.div_ceil(WRITE_UNIT_BYTES).max(1)), Units::whole(index))
}

/// What a write costs whose condition failed: billed by the item that was there, and at least one unit.
pub fn refused_write(old: Option<&Image>) -> Units {
    item::refused(old.map(|image| &image.item))
}

/// What reading this many bytes at once costs: one item, or a page of a query.
pub fn read(bytes: u64, freshness: Freshness) -> Units {
    let units = bytes.div_ceil(READ_UNIT_BYTES).max(1);
    match freshness {
        Freshness::Latest => Units::whole(units),
        Freshness::Eventual => Units::halves(units),
    }
}

/// The size of a waiting task's entry in the index.
pub fn waiting_bytes(target: &Target, candidate: &Candidate, since: Timestamp) -> u64 {
    let Candidate { id, round, bytes, traits } = candidate;
    item::size(&Item::from([
        ("Target".to_owned(), text(target.as_str())),
        ("Status".to_owned(), text(traits.waiting_word())),
        ("Id".to_owned(), text(id.as_str())),
        ("Round".to_owned(), number(round)),
        ("Bytes".to_owned(), number(bytes)),
        ("WaitsSince".to_owned(), number(since.0)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(texts: &[(&str, &str)]) -> Image {
        Image::other(Place::Tasks, texts, &[])
    }

    fn units(old: Option<&Image>, new: Option<&Image>) -> (u64, u64) {
        let (table, index) = write(Place::Tasks, old, new);
        (table.count() as u64, index.count() as u64)
    }

    #[test]
    fn an_entry_costs_a_write_to_come_or_go_and_two_to_change_its_key() {
        let waits = image(&[("Id", "a"), ("Target", "t"), ("Status", "created")]);
        let moved = image(&[("Id", "a"), ("Status", "batched")]);
        let again = image(&[("Id", "a"), ("Target", "t"), ("Status", "batched")]);
        let later = image(&[("Id", "a"), ("Target", "t"), ("Status", "created"), ("WaitsSince", "9")]);
        let other = image(&[("Id", "a"), ("Target", "t"), ("Status", "created"), ("Payload", "{}")]);
        assert_eq!(units(None, Some(&waits)), (1, 1));
        assert_eq!(units(Some(&waits), Some(&moved)), (1, 1));
        assert_eq!(units(Some(&waits), Some(&again)), (1, 2));
        assert_eq!(units(Some(&waits), Some(&later)), (1, 1));
        assert_eq!(units(Some(&waits), Some(&other)), (1, 0));
        assert_eq!(units(Some(&moved), None), (1, 0));
    }

    #[test]
    fn a_write_is_billed_by_the_larger_item() {
        let (small, large) = (image(&[("Id", "a")]), image(&[("Id", &"x".repeat(2_000))]));
        assert_eq!(units(Some(&small), Some(&large)).0, 2);
        assert_eq!(units(Some(&large), Some(&small)).0, 2);
        assert_eq!(refused_write(Some(&large)), Units::whole(2));
        assert_eq!(refused_write(None), Units::whole(1));
    }

    #[test]
    fn a_stale_read_costs_half() {
        assert_eq!(read(4_097, Freshness::Latest), Units::whole(2));
        assert_eq!(read(4_097, Freshness::Eventual), Units::whole(1));
        assert_eq!(read(0, Freshness::Eventual).to_string(), "0.5");
    }
}
