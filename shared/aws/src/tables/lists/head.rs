//! A head's stored form. Every write of it pays for all of it, so names and values are short.

use std::collections::BTreeMap;

use groupage_core::domain::list::{Forgotten, Head, Life, Strand};
use groupage_core::domain::{ListId, Part, Timestamp, Token};
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use super::TABLE;
use super::stored::{HEAD, id_of, reservation};
use crate::dynamo::item::{Item, decode, encode, nonsense};

/// A head as its item says it, except its reservations.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredHead {
    list_id: ListId,
    slot: String,
    opened_at: Timestamp,
    taken: Token,
    discarded: u64,
    /// How many reservations there are.
    open: u64,
    closed: Option<bool>,
    active_at: Timestamp,
    part: String,
    due: Option<Timestamp>,
}

/// The attribute that holds a reservation's first token. It is set to what `Taken` was, by the write that raises that.
pub(super) fn start_attribute(key: &str) -> String {
    format!("s:{key}")
}

/// The attribute that holds the rest of a reservation.
pub(super) fn what_attribute(key: &str) -> String {
    format!("w:{key}")
}

/// The attribute that holds the highest end that was forgotten in a strand; it is not there if none was.
pub(super) const fn forgotten_attribute(strand: Strand) -> &'static str {
    const NAMES: [&str; Strand::COUNT] =
        ["F0", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "Fa", "Fb", "Fc", "Fd", "Fe", "Ff"];
    NAMES[strand.number()]
}

/// A head's item. Only a new list's is written as a whole, without reservations.
pub(super) fn new_head_item(head: &Head) -> Result<Item> {
    let stored = StoredHead {
        list_id: head.life.id.clone(),
        slot: HEAD.to_owned(),
        opened_at: head.life.opened_at,
        taken: head.taken,
        discarded: head.discarded,
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
    let end = |strand| Some(Token(item.get(forgotten_attribute(strand))?.as_n().ok()?.parse().ok()?));
    let forgotten = Forgotten::new(|strand| end(strand).unwrap_or_default());
    let stored: StoredHead = decode(TABLE, &id, item)?;
    Ok(Head {
        life: Life { id: stored.list_id, opened_at: stored.opened_at },
        taken: stored.taken,
        discarded: stored.discarded,
        is_closed: stored.closed.is_some(),
        forgotten,
        reservations,
        active_at: stored.active_at,
        due: stored.due,
    })
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::list::{Purpose, Reservation};

    use super::super::stored::what;
    use super::*;
    use crate::dynamo::item::{self, number, text};

    fn life() -> Life {
        Life { id: ListId::new("l".repeat(64)), opened_at: Timestamp(1_700_000_000_123) }
    }

    #[test]
    fn a_head_costs_one_write_unit_with_a_few_reservations_and_survives_storage() {
        let at = Timestamp(1_700_000_000_123);
        let forgotten = Forgotten::new(|strand| Token(1_000_000 + strand.number() as u64));
        let of = |n: u64, purpose| (format!("{n:036}"), Reservation { start: Token(n), count: 100, purpose, at });
        let reservations =
            (0..5).map(|n| of(n, Purpose::Release { asked: 100 })).chain([of(5, Purpose::Discard)]).collect();
        let head = Head { reservations, due: Some(at), is_closed: true, forgotten, ..Head::open(life()) };
        let mut item = new_head_item(&head).unwrap();
        for strand in Strand::all() {
            item.insert(forgotten_attribute(strand).to_owned(), number(head.forgotten.in_strand(strand).0));
        }
        for (key, Reservation { start, count, purpose, at }) in &head.reservations {
            item.insert(start_attribute(key), number(start.0));
            item.insert(what_attribute(key), text(what(*count, *purpose, *at)));
        }
        assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
        assert_eq!(head_of(item).unwrap(), head);
    }

    #[test]
    fn what_nobody_here_writes_is_no_head() {
        let mut item = new_head_item(&Head::open(life())).unwrap();
        item.insert("w:k".to_owned(), text("s1 2"));
        assert!(head_of(item).is_err());
    }
}
