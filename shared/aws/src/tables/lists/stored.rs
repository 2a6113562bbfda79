//! A list's stored forms: its two ends, tasks, what was put, and how far reservations are.

use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::domain::list::{Addition, Life, Options, Purpose, Record, Reservation, Slot, State, Tail};
use groupage_core::domain::{ItemId, ListId, Part, Revision, Timestamp, Token};
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use super::{LIST_ID, SLOT, TABLE};
use crate::dynamo::item::{Item, decode, encode, nonsense, number, text};

/// The sort key of the item that putters write.
pub(super) const TAIL: &str = "tail";
/// The sort key of the item that takers write.
pub(super) const HEAD: &str = "head";

/// A tail as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredTail {
    list_id: ListId,
    slot: String,
    opened_at: Timestamp,
    revision: Revision,
    state: String,
    given: Token,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    active_at: Timestamp,
    /// The index's keys.
    part: String,
    due: Timestamp,
}

/// A task as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredSlot {
    list_id: ListId,
    slot: String,
    body: String,
}

/// An addition as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredAddition {
    list_id: ListId,
    slot: String,
    start: Token,
    count: u64,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<ItemId>,
    /// When it may go, in seconds since 1970: no repeat comes later.
    ttl: u64,
}

/// A record as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredRecord {
    list_id: ListId,
    slot: String,
    start: Token,
    what: String,
    done: Token,
    ttl: u64,
}

/// The sort key of a task. Keys of one life lie together, in the order of their tokens.
pub(super) fn slot_key(life: &Life, token: Token) -> String {
    format!("slot#{:012x}#{:016x}", life.opened_at.0, token.0)
}

/// The sort key of what was put under a key.
pub(super) fn addition_key(life: &Life, key: &str) -> String {
    format!("put#{:012x}#{key}", life.opened_at.0)
}

/// How the sort keys of everything that belongs to a list begin, except its ends.
pub(super) fn prefixes(life: &Life) -> [String; 3] {
    ["slot", "put", "done"].map(|kind| format!("{kind}#{:012x}#", life.opened_at.0))
}

/// The sort key of a record.
pub(super) fn record_key(life: &Life, key: &str) -> String {
    format!("done#{:012x}#{key}", life.opened_at.0)
}

pub(super) fn tail_item(tail: &Tail) -> Result<Item> {
    let stored = StoredTail {
        list_id: tail.life.id.clone(),
        slot: TAIL.to_owned(),
        opened_at: tail.life.opened_at,
        revision: tail.revision,
        state: tail.state.word().to_owned(),
        given: tail.given,
        ttl_ms: tail.options.ttl_ms,
        active_at: tail.active_at,
        part: Part::of_list(&tail.life.id).list_key(),
        due: tail.due,
    };
    encode(TABLE, tail.life.id.as_str(), &stored)
}

pub(super) fn tail_of(item: Item) -> Result<Tail> {
    let id = id_of(&item);
    let stored: StoredTail = decode(TABLE, &id, item)?;
    let state = State::parse(&stored.state);
    Ok(Tail {
        life: Life { id: stored.list_id, opened_at: stored.opened_at },
        revision: stored.revision,
        state: state.ok_or_else(|| nonsense(TABLE, &id, "State", format_args!("`{}` is no state", stored.state)))?,
        given: stored.given,
        options: Options { ttl_ms: stored.ttl_ms },
        active_at: stored.active_at,
        due: stored.due,
    })
}

pub(super) fn slot_item(life: &Life, slot: &Slot) -> Result<Item> {
    let stored = StoredSlot { list_id: life.id.clone(), slot: slot_key(life, slot.token), body: slot.body.clone() };
    encode(TABLE, life.id.as_str(), &stored)
}

pub(super) fn slot_of(item: Item) -> Result<Slot> {
    let id = id_of(&item);
    let StoredSlot { slot, body, .. } = decode(TABLE, &id, item)?;
    let token = slot.rsplit_once('#').and_then(|(_, token)| u64::from_str_radix(token, 16).ok());
    let token = token.ok_or_else(|| nonsense(TABLE, &id, SLOT, "is no task's"))?;
    Ok(Slot { token: Token(token), body })
}

pub(super) fn addition_item(life: &Life, addition: &Addition, until: Timestamp) -> Result<Item> {
    let Addition { key, start, count, digest, item } = addition;
    let stored = StoredAddition {
        list_id: life.id.clone(),
        slot: addition_key(life, key),
        start: *start,
        count: *count,
        digest: digest.clone(),
        item: item.clone(),
        ttl: until.as_secs(),
    };
    encode(TABLE, life.id.as_str(), &stored)
}

pub(super) fn addition_of(item: Item) -> Result<Addition> {
    let id = id_of(&item);
    let StoredAddition { slot, start, count, digest, item, .. } = decode(TABLE, &id, item)?;
    let key = key_in(&slot).ok_or_else(|| nonsense(TABLE, &id, SLOT, "is no addition's"))?;
    Ok(Addition { key, start, count, digest, item })
}

pub(super) fn record_item(life: &Life, record: &Record, until: Timestamp) -> Result<Item> {
    let Record { key, reservation: Reservation { start, count, purpose, at }, done } = record;
    let stored = StoredRecord {
        list_id: life.id.clone(),
        slot: record_key(life, key),
        start: *start,
        what: what(*count, *purpose, *at),
        done: *done,
        ttl: until.as_secs(),
    };
    encode(TABLE, life.id.as_str(), &stored)
}

pub(super) fn record_of(item: Item) -> Result<Record> {
    let id = id_of(&item);
    let StoredRecord { slot, start, what, done, .. } = decode(TABLE, &id, item)?;
    let key = key_in(&slot).ok_or_else(|| nonsense(TABLE, &id, SLOT, "is no record's"))?;
    let reservation = reservation(start, &what).ok_or_else(|| nonsense(TABLE, &id, "What", "is no reservation's"))?;
    Ok(Record { key, reservation, done })
}

/// A reservation except its first token: as short as can be, since every write of the head pays for all of them.
pub(super) fn what(count: u64, purpose: Purpose, at: Timestamp) -> String {
    match purpose {
        Purpose::Release { asked } if asked == count => format!("r{count} {:x}", at.0),
        Purpose::Release { asked } => format!("r{count} {:x} {asked}", at.0),
        Purpose::Discard => format!("d{count} {:x}", at.0),
    }
}

/// A reservation that starts at `start`, with the rest as [`what`] writes it.
pub(super) fn reservation(start: Token, what: &str) -> Option<Reservation> {
    let mut words = what.split(' ');
    let (purpose, count) = words.next()?.split_at_checked(1)?;
    let (count, at) = (count.parse().ok()?, Timestamp(u64::from_str_radix(words.next()?, 16).ok()?));
    let purpose = match purpose {
        "r" => Purpose::Release { asked: words.next().map_or(Some(count), |asked| asked.parse().ok())? },
        "d" => Purpose::Discard,
        _ => return None,
    };
    Some(Reservation { start, count, purpose, at })
}

/// The caller's key in a sort key; it may hold a `#` of its own.
fn key_in(sort: &str) -> Option<String> {
    sort.splitn(3, '#').nth(2).map(str::to_owned)
}

/// An item's sort key.
pub(super) fn sort_key(item: &Item) -> Option<&str> {
    item.get(SLOT)?.as_s().ok().map(String::as_str)
}

pub(super) fn id_of(item: &Item) -> String {
    item.get(LIST_ID).and_then(|id| id.as_s().ok()).cloned().unwrap_or_default()
}

/// A key of the table.
pub(super) fn key_item(id: &ListId, sort: &str) -> Item {
    Item::from([(LIST_ID.to_owned(), text(id.as_str())), (SLOT.to_owned(), text(sort))])
}

/// The revision before a tail's own, as a condition wants it.
pub(super) fn revision_before(tail: &Tail) -> AttributeValue {
    number(tail.revision.0.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;

    fn life() -> Life {
        Life { id: ListId::new("l".repeat(64)), opened_at: Timestamp(1_700_000_000_123) }
    }

    #[test]
    fn a_tail_costs_one_write_unit_and_survives_storage() {
        for state in [State::Open, State::Closed, State::Removing] {
            let tail = Tail::open(life(), Options { ttl_ms: Some(86_400_000) }).in_state(state, Timestamp(9));
            let item = tail_item(&tail).unwrap();
            assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
            assert_eq!(tail_of(item).unwrap(), tail);
        }
    }

    #[test]
    fn keys_and_tokens_survive_storage_whatever_they_are() {
        for key in ["k", "a#b##c", "#", &"k".repeat(128)] {
            let item = ItemId::parse("t:0:3").ok();
            let addition = Addition { key: key.to_owned(), start: Token(7), count: 3, digest: "d".to_owned(), item };
            assert_eq!(addition_of(addition_item(&life(), &addition, Timestamp(1)).unwrap()).unwrap(), addition);
            for purpose in [Purpose::Release { asked: 9 }, Purpose::Discard] {
                let reservation = Reservation { start: Token(4), count: 5, purpose, at: Timestamp(6) };
                let record = Record { done: Token(8), ..Record::of(key, reservation) };
                assert_eq!(record_of(record_item(&life(), &record, Timestamp(1)).unwrap()).unwrap(), record);
            }
        }
        for token in [0, 1, u64::MAX] {
            let slot = Slot { token: Token(token), body: "{}".to_owned() };
            assert_eq!(slot_of(slot_item(&life(), &slot).unwrap()).unwrap(), slot);
        }
    }

    #[test]
    fn tasks_lie_in_the_order_of_their_tokens_and_lives_do_not_meet() {
        let next = Life { opened_at: Timestamp(1_700_000_000_124), ..life() };
        let keys = [(life(), 9), (life(), 10), (life(), u64::MAX), (next, 0)];
        assert!(keys.map(|(life, token)| slot_key(&life, Token(token))).is_sorted());
    }

    #[test]
    fn what_nobody_here_writes_names_table_item_and_attribute() {
        let tail = Tail::open(life(), Options::default());
        let mut item = tail_item(&tail).unwrap();
        item.insert("State".to_owned(), text("melted"));
        let said = tail_of(item).unwrap_err().to_string();
        assert!(said.contains("list table") && said.contains("`State`") && said.contains("melted"), "{said}");
    }
}
