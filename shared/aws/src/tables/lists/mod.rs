//! The list table: under each list's name its two ends, its tasks, what was put and how far reservations are; and the
//! index by which sweep finds lists.
//!
//! Each reservation is two attributes of the head, named by its caller's key: the one update that raises `Taken` sets
//! one of them to what `Taken` was before.

mod head;
mod moves;
mod stored;

use aws_sdk_dynamodb::types::ReturnValue;
use std::collections::HashSet;

use groupage_core::domain::list::{Addition, Head, Life, List, Move, Put, Record, Slot, State, Tail};
use groupage_core::domain::{ListId, Timestamp, Token};
use groupage_core::ports::{Cleared, Entries, Freshness, Lists, Look, Moved, PutOn, Result, Stored};
use head::{head_of, new_head_item};
use moves::moving;
use stored::{
    HEAD, TAIL, addition_item, addition_key, addition_of, key_item, prefixes, record_item, record_key, record_of,
    revision_before, slot_item, slot_key, slot_of, sort_key, tail_item, tail_of,
};

use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, number};
use crate::dynamo::many::REMOVED_AT_ONCE;
use crate::dynamo::transaction::{self, item_in};
use crate::dynamo::{Dynamo, Key, Written};
use crate::meter::Place;

const TABLE: &str = "list table";
const LIST_ID: &str = "ListId";
const SLOT: &str = "Slot";
const OPENED_AT: &str = "OpenedAt";
const REVISION: &str = "Revision";
const TAKEN: &str = "Taken";
const CLOSED: &str = "Closed";
const OPEN: &str = "Open";
const DUE: &str = "Due";
const DONE: &str = "Done";

impl Dynamo {
    fn list_key<'a>(&'a self, id: &'a ListId, sort: &'a str) -> Key<'a> {
        Key { sort: Some((SLOT, sort)), ..Key::of(&self.tables.lists, Place::Lists, LIST_ID, id.as_str()) }
    }
}

impl Lists for Dynamo {
    async fn list(&self, id: &ListId) -> Result<Option<List>> {
        let keys = vec![key_item(id, TAIL), key_item(id, HEAD)];
        let table = (self.tables.lists.as_str(), Place::Lists);
        let (mut tail, mut head) = (None, None);
        for item in self.read_many("look at a list", table, keys, Freshness::Latest).await? {
            if sort_key(&item) == Some(TAIL) {
                tail = Some(tail_of(item)?);
            } else {
                head = Some(head_of(item)?);
            }
        }
        // Both come and go together, but a read may fall in between; that list is not there yet, or no longer.
        Ok(tail.zip(head).map(|(tail, head)| List { tail, head }).filter(|list| list.tail.life == list.head.life))
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        const WHAT: &str = "put tasks on a list";
        let (Put { tail, additions, slots }, table) = (put, &self.tables.lists);
        let absent = [Clause::Absent(LIST_ID)];
        let unchanged =
            [Clause::Equals(REVISION, revision_before(tail)), Clause::Equals(OPENED_AT, number(tail.life.opened_at.0))];
        let assumes: &[Clause] = if put.is_new() { &absent } else { &unchanged };
        let mut writes = vec![transaction::put(WHAT, table, tail_item(tail)?, assumes)?];
        let until = tail.active_at.plus_ms(self.retention_ms);
        for addition in additions {
            writes.push(transaction::put(WHAT, table, addition_item(&tail.life, addition, until)?, &absent)?);
        }
        for slot in slots {
            writes.push(transaction::put(WHAT, table, slot_item(&tail.life, slot)?, &absent)?);
        }
        if put.is_new() {
            writes.push(transaction::put(WHAT, table, new_head_item(&Head::open(tail.life.clone()))?, &absent)?);
        }
        let Err(reasons) = self.transact(WHAT, Place::Lists, writes).await? else { return Ok(PutOn::Yes) };
        let before = reasons.iter().skip(1).take(additions.len()).filter_map(item_in).map(addition_of);
        let before: Vec<Addition> = before.collect::<Result<_>>()?;
        if !before.is_empty() {
            return Ok(PutOn::Before(before));
        }
        // An opening without tasks is our own write, whose answer was lost, if the tail is the very same. With tasks
        // their keys tell: somebody else's tail may be the same.
        match reasons.first().and_then(item_in).map(tail_of).transpose()? {
            Some(old) if additions.is_empty() && old == *tail => Ok(PutOn::Yes),
            Some(_) | None => Ok(PutOn::Conflict),
        }
    }

    async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        let keys = keys.iter().map(|key| key_item(&life.id, &addition_key(life, key))).collect();
        let table = (self.tables.lists.as_str(), Place::Lists);
        let found = self.read_many("find what was put", table, keys, Freshness::Latest).await?;
        found.into_iter().map(addition_of).collect()
    }

    async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
        let (change, clauses) = moving(life, next);
        let key = self.list_key(&life.id, HEAD);
        match self.update("move a list's head", key, change, &clauses, ReturnValue::AllNew).await? {
            Written::Done(Some(item)) => head_of(item).map(Moved::Yes),
            Written::Done(None) | Written::Refused(None) => Ok(Moved::No(None)),
            Written::Refused(Some(item)) => {
                let head = head_of(item)?;
                Ok(match head.life == *life {
                    true if head.shows(next) => Moved::Yes(head),
                    true => Moved::No(Some(head)),
                    false => Moved::No(None),
                })
            }
        }
    }

    async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
        let sort = record_key(life, key);
        self.get("find a reservation's record", self.list_key(&life.id, &sort)).await?.map(record_of).transpose()
    }

    async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored> {
        let sort = record_key(life, &record.key);
        let item = record_item(life, record, now.plus_ms(self.retention_ms))?;
        let assumes = [Clause::AbsentOrBelow(DONE, number(record.done.0))];
        let key = self.list_key(&life.id, &sort);
        self.replace("write a reservation's record", key, (record, item), &assumes, record_of).await
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let (from, last) = (slot_key(life, from), slot_key(life, Token(to.0 - 1)));
        let range = (self.list_key(&life.id, &from), last.as_str());
        let found = self.range("read a list's tasks", range, limit, Freshness::Latest).await?;
        found.into_iter().map(slot_of).collect()
    }

    async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()> {
        let keys: Vec<Item> = tokens.iter().map(|token| key_item(&life.id, &slot_key(life, *token))).collect();
        self.remove_many("remove a list's tasks", (&self.tables.lists, Place::Lists), &keys).await
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        const WHAT: &str = "write a list's ends";
        let same_life = Clause::Equals(OPENED_AT, number(tail.life.opened_at.0));
        let unchanged = [Clause::Equals(REVISION, revision_before(tail)), same_life.clone()];
        let closed = (tail.state != State::Open).then_some(aws_sdk_dynamodb::types::AttributeValue::Bool(true));
        let head = self.list_key(&tail.life.id, HEAD);
        let writes = vec![
            transaction::put(WHAT, &self.tables.lists, tail_item(tail)?, &unchanged)?,
            transaction::update(WHAT, head, Change::default().set_or_remove(CLOSED, closed), &[same_life])?,
        ];
        let Err(reasons) = self.transact(WHAT, Place::Lists, writes).await? else { return Ok(Stored::Yes) };
        // The very same content is our own write, whose answer was lost.
        let old = reasons.first().and_then(item_in).map(tail_of).transpose()?;
        Ok(Stored::when(old.as_ref() == Some(tail)))
    }

    async fn due_lists(&self, look: Look<'_>) -> Result<Entries<ListId>> {
        let part = look.part.list_key();
        let part = Key::of(&self.tables.lists, Place::Lists, "Part", &part);
        let index = (Tables::DUE_INDEX, LIST_ID, ListId::new as fn(String) -> ListId);
        let mut lists = self.due("query the lists that are due", part, index, look).await?;
        // Both ends of a list may be due.
        let mut seen = HashSet::new();
        lists.found.retain(|list| seen.insert(list.what.clone()));
        Ok(lists)
    }

    async fn clear_list(&self, life: &Life) -> Result<Cleared> {
        for prefix in prefixes(life) {
            // What comes after the prefix is visible ASCII.
            let last = format!("{prefix}\u{7f}");
            let range = (self.list_key(&life.id, &prefix), last.as_str());
            let parts = self.keys_in("find what belongs to a list", range, &[LIST_ID, SLOT], REMOVED_AT_ONCE).await?;
            if !parts.is_empty() {
                let table = (self.tables.lists.as_str(), Place::Lists);
                self.remove_many("remove what belongs to a list", table, &parts).await?;
                return Ok(Cleared::Some);
            }
        }
        Ok(Cleared::All)
    }

    async fn remove_list(&self, tail: &Tail) -> Result<Stored> {
        const WHAT: &str = "remove a list";
        let revision = Clause::AbsentOrEquals(REVISION, number(tail.revision.0));
        let life = Clause::AbsentOrEquals(OPENED_AT, number(tail.life.opened_at.0));
        let writes = vec![
            transaction::delete(WHAT, self.list_key(&tail.life.id, TAIL), &[revision, life.clone()])?,
            transaction::delete(WHAT, self.list_key(&tail.life.id, HEAD), &[life])?,
        ];
        Ok(Stored::when(self.transact(WHAT, Place::Lists, writes).await?.is_ok()))
    }
}
