//! A list's stored forms: its two ends, tasks, what was put, and how far reservations are.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use super::{LIST_ID, SLOT, TABLE};
use crate::aws::item::{Item, decode, encode, nonsense, number, text};
use crate::domain::id::{ListId, Part, Revision, Token};
use crate::domain::list::{Addition, Head, Life, Options, Purpose, Record, Reservation, Slot, State, Tail};
use crate::domain::time::Timestamp;
use crate::ports::Result;

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

/// A head as its item says it, but for its reservations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredHead {
    list_id: ListId,
    slot: String,
    opened_at: Timestamp,
    taken: Token,
    discarded: u64,
    forgotten: Token,
    /// How many reservations there are.
    open: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<bool>,
    active_at: Timestamp,
    part: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
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

/// How the sort keys of everything that belongs to a list begin, but for its ends.
pub(super) fn prefixes(life: &Life) -> [String; 3] {
    ["slot", "put", "done"].map(|kind| format!("{kind}#{:012x}#", life.opened_at.0))
}

/// The sort key of a record.
pub(super) fn record_key(life: &Life, key: &str) -> String {
    format!("done#{:012x}#{key}", life.opened_at.0)
}

/// The attribute that holds a reservation's first token. It is set to what `Taken` was, by the write that raises that.
pub(super) fn start_attribute(key: &str) -> String {
    format!("s:{key}")
}

/// The attribute that holds the rest of a reservation.
pub(super) fn what_attribute(key: &str) -> String {
    format!("w:{key}")
}

/// A reservation but for its first token: as short as can be, since every write of the head pays for all of them.
pub(super) fn what(count: u64, purpose: Purpose, at: Timestamp) -> String {
    match purpose {
        Purpose::Release { asked } if asked == count => format!("r{count} {:x}", at.0),
        Purpose::Release { asked } => format!("r{count} {:x} {asked}", at.0),
        Purpose::Discard => format!("d{count} {:x}", at.0),
    }
}

fn reservation(start: Token, what: &str) -> Option<Reservation> {
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

/// A head's item. Only a new list's is written as a whole, without reservations.
pub(super) fn new_head_item(head: &Head) -> Result<Item> {
    let stored = StoredHead {
        list_id: head.life.id.clone(),
        slot: HEAD.to_owned(),
        opened_at: head.life.opened_at,
        taken: head.taken,
        discarded: head.discarded,
        forgotten: head.forgotten,
        open: 0,
        closed: head.is_closed.then_some(true),
        active_at: head.active_at,
        part: Part::of_list(&head.life.id).list_key(),
        due: head.due,
    };
    encode(TABLE, head.life.id.as_str(), &stored)
}

pub(super) fn head_of(mut item: Item) -> Result<Head> {
    let id = id_of(&item);
    let mut reservations = BTreeMap::new();
    let keys: Vec<String> = item.keys().filter_map(|name| name.strip_prefix("w:")).map(str::to_owned).collect();
    for key in keys {
        let start = item.remove(&start_attribute(&key)).and_then(|start| start.as_n().ok()?.parse().ok());
        let what = item.remove(&what_attribute(&key)).and_then(|what| what.as_s().ok().cloned());
        let found = start.zip(what).and_then(|(start, what)| reservation(Token(start), &what));
        let found = found.ok_or_else(|| nonsense(TABLE, &id, "w:…", "is no reservation's"))?;
        reservations.insert(key, found);
    }
    let stored: StoredHead = decode(TABLE, &id, item)?;
    Ok(Head {
        life: Life { id: stored.list_id, opened_at: stored.opened_at },
        taken: stored.taken,
        discarded: stored.discarded,
        is_closed: stored.closed.is_some(),
        forgotten: stored.forgotten,
        reservations,
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
    let Addition { key, start, count, digest } = addition;
    let stored = StoredAddition {
        list_id: life.id.clone(),
        slot: addition_key(life, key),
        start: *start,
        count: *count,
        digest: digest.clone(),
        ttl: until.as_secs(),
    };
    encode(TABLE, life.id.as_str(), &stored)
}

pub(super) fn addition_of(item: Item) -> Result<Addition> {
    let id = id_of(&item);
    let StoredAddition { slot, start, count, digest, .. } = decode(TABLE, &id, item)?;
    let key = key_in(&slot).ok_or_else(|| nonsense(TABLE, &id, SLOT, "is no addition's"))?;
    Ok(Addition { key, start, count, digest })
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

/// The caller's key in a sort key; it may hold a `#` of its own.
fn key_in(sort: &str) -> Option<String> {
    sort.splitn(3, '#').nth(2).map(str::to_owned)
}

/// An item's sort key.
pub(super) fn sort_key(item: &Item) -> Option<&str> {
    item.get(SLOT)?.as_s().ok().map(String::as_str)
}

fn id_of(item: &Item) -> String {
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
    use crate::aws::item;

    fn life() -> Life {
        Life { id: ListId::new("l".repeat(64)), opened_at: Timestamp(1_700_000_000_123) }
    }

    #[test]
    fn both_ends_cost_one_write_unit_with_a_few_reservations_and_survive_storage() {
        for state in [State::Open, State::Closed, State::Removing] {
            let tail = Tail::open(life(), Options { ttl_ms: Some(86_400_000) }).in_state(state, Timestamp(9));
            let item = tail_item(&tail).unwrap();
            assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
            assert_eq!(tail_of(item).unwrap(), tail);
        }
        let at = Timestamp(1_700_000_000_123);
        let of = |n: u64, purpose| (format!("{n:036}"), Reservation { start: Token(n), count: 100, purpose, at });
        let reservations =
            (0..5).map(|n| of(n, Purpose::Release { asked: 100 })).chain([of(5, Purpose::Discard)]).collect();
        let head = Head { reservations, due: Some(at), is_closed: true, ..Head::open(life()) };
        let mut item = new_head_item(&head).unwrap();
        for (key, Reservation { start, count, purpose, at }) in &head.reservations {
            item.insert(start_attribute(key), number(start.0));
            item.insert(what_attribute(key), text(what(*count, *purpose, *at)));
        }
        assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
        assert_eq!(head_of(item).unwrap(), head);
    }

    #[test]
    fn keys_and_tokens_survive_storage_whatever_they_are() {
        for key in ["k", "a#b##c", "#", &"k".repeat(128)] {
            let addition = Addition { key: key.to_owned(), start: Token(7), count: 3, digest: "d".to_owned() };
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
        let mut item = new_head_item(&Head::open(life())).unwrap();
        item.insert("w:k".to_owned(), text("s1 2"));
        assert!(head_of(item).is_err());
    }
}
