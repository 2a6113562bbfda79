//! Lists in memory.

use std::collections::BTreeMap;

use super::due::due;
use super::expiry::Row;
use super::{MemoryStore, Tables};
use crate::domain::list::{Addition, Head, Life, List, Move, Put, Record, Slot, State, Tail};
use crate::domain::{ListId, Part, Timestamp, Token};
use crate::ports::{Cleared, Entries, Lists, Look, Moved, PutOn, Result, Stored};

/// Everything that has one list's name.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) ends: Option<List>,
    additions: BTreeMap<(Timestamp, String), Addition>,
    records: BTreeMap<(Timestamp, String), Record>,
    slots: BTreeMap<(Timestamp, Token), String>,
}

impl Listed {
    /// The head of this life.
    fn head(&mut self, life: &Life) -> Option<&mut Head> {
        self.ends.as_mut().map(|ends| &mut ends.head).filter(|head| head.life == *life)
    }

    fn is_before(&self, next: &Tail) -> bool {
        self.ends
            .as_ref()
            .is_some_and(|List { tail, .. }| tail.life == next.life && tail.revision.next() == next.revision)
    }

    fn is_empty(&self) -> bool {
        self.additions.is_empty() && self.records.is_empty() && self.slots.is_empty()
    }
}

impl Tables {
    pub(super) fn forget_addition(&mut self, life: &Life, key: String) {
        let place = (life.opened_at, key);
        if let Some(addition) = self.lists.get_mut(&life.id).and_then(|listed| listed.additions.remove(&place)) {
            self.expiry.additions.insert((life.clone(), place.1), addition);
        }
    }

    pub(super) fn forget_record(&mut self, life: &Life, key: String) {
        self.lists.get_mut(&life.id).and_then(|listed| listed.records.remove(&(life.opened_at, key)));
    }
}

impl MemoryStore {
    /// What was put on a list under this key, also if that expired.
    pub fn addition(&self, life: &Life, key: &str) -> Option<Addition> {
        let (tables, place) = (self.tables(), (life.opened_at, key.to_owned()));
        let there = tables.lists.get(&life.id).and_then(|listed| listed.additions.get(&place));
        there.or_else(|| tables.expiry.additions.get(&(life.clone(), place.1.clone()))).cloned()
    }

    /// All lists, in the order of their names.
    pub fn lists(&self) -> Vec<List> {
        self.tables().lists.values().filter_map(|listed| listed.ends.clone()).collect()
    }

    /// Every task on any list, in the order of tokens, whether it waits or is about to be removed.
    pub fn all_slots(&self) -> Vec<(ListId, Slot)> {
        let tables = self.tables();
        let of_list = |(id, listed): (&ListId, &Listed)| -> Vec<(ListId, Slot)> {
            let slot = |((_, token), body): (&(Timestamp, Token), &String)| Slot { token: *token, body: body.clone() };
            listed.slots.iter().map(|entry| (id.clone(), slot(entry))).collect()
        };
        tables.lists.iter().flat_map(of_list).collect()
    }
}

impl Lists for MemoryStore {
    async fn list(&self, id: &ListId) -> Result<Option<List>> {
        Ok(self.tables().lists.get(id).and_then(|listed| listed.ends.clone()))
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        let Put { tail, additions, slots } = put;
        let mut guard = self.tables();
        let tables = &mut *guard;
        let listed = tables.lists.entry(tail.life.id.clone()).or_default();
        let opened_at = tail.life.opened_at;
        let before = |addition: &Addition| listed.additions.get(&(opened_at, addition.key.clone())).cloned();
        let before: Vec<Addition> = additions.iter().filter_map(before).collect();
        if !before.is_empty() {
            return Ok(PutOn::Before(before));
        }
        match &mut listed.ends {
            None if put.is_new() => {
                listed.ends = Some(List { tail: tail.clone(), head: Head::open(tail.life.clone()) });
            }
            Some(ends) if ends.tail.life == tail.life && ends.tail.revision.next() == tail.revision => {
                ends.tail = tail.clone();
            }
            Some(_) | None => return Ok(PutOn::Conflict),
        }
        let keyed = additions.iter().map(|addition| ((opened_at, addition.key.clone()), addition.clone()));
        listed.additions.extend(keyed);
        let until = tail.active_at.plus_ms(tables.expiry.keeps.retention_ms);
        for Addition { key, .. } in additions {
            tables.expiry.keep(Row::Addition(tail.life.clone(), key.clone()), Some(until));
        }
        listed.slots.extend(slots.iter().map(|slot| ((opened_at, slot.token), slot.body.clone())));
        Ok(PutOn::Yes)
    }

    async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        let tables = self.tables();
        let Some(listed) = tables.lists.get(&life.id) else { return Ok(Vec::new()) };
        let found = keys.iter().filter_map(|key| listed.additions.get(&(life.opened_at, key.clone())));
        Ok(found.cloned().collect())
    }

    async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
        let mut tables = self.tables();
        let Some(head) = tables.lists.get_mut(&life.id).and_then(|listed| listed.head(life)) else {
            return Ok(Moved::No(None));
        };
        match head.after(next) {
            Some(after) => {
                *head = after.clone();
                Ok(Moved::Yes(after))
            }
            None if head.shows(next) => Ok(Moved::Yes(head.clone())),
            None => Ok(Moved::No(Some(head.clone()))),
        }
    }

    async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
        let tables = self.tables();
        Ok(tables.lists.get(&life.id).and_then(|listed| listed.records.get(&(life.opened_at, key.to_owned())).cloned()))
    }

    async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let records = &mut tables.lists.entry(life.id.clone()).or_default().records;
        let key = (life.opened_at, record.key.clone());
        if records.get(&key).is_some_and(|before| before.done >= record.done && before != record) {
            return Ok(Stored::Conflict);
        }
        records.insert(key, record.clone());
        let until = now.plus_ms(tables.expiry.keeps.retention_ms);
        tables.expiry.keep(Row::Record(life.clone(), record.key.clone()), Some(until));
        Ok(Stored::Yes)
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        let tables = self.tables();
        let Some(listed) = tables.lists.get(&life.id).filter(|_| from < to) else { return Ok(Vec::new()) };
        let range = listed.slots.range((life.opened_at, from)..(life.opened_at, to)).take(limit);
        Ok(range.map(|((_, token), body)| Slot { token: *token, body: body.clone() }).collect())
    }

    async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()> {
        if let Some(listed) = self.tables().lists.get_mut(&life.id) {
            for token in tokens {
                listed.slots.remove(&(life.opened_at, *token));
            }
        }
        Ok(())
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        let mut tables = self.tables();
        let listed = tables.lists.entry(tail.life.id.clone()).or_default();
        let is_before = listed.is_before(tail);
        match &mut listed.ends {
            Some(ends) if is_before => {
                ends.tail = tail.clone();
                ends.head.is_closed = tail.state != State::Open;
                Ok(Stored::Yes)
            }
            Some(ends) if ends.tail == *tail => Ok(Stored::Yes),
            Some(_) | None => Ok(Stored::Conflict),
        }
    }

    async fn due_lists(&self, look: Look<'_>) -> Result<Entries<ListId>> {
        let tables = self.tables();
        let ends = tables.lists.values().filter_map(|listed| listed.ends.as_ref());
        let first_due = |ends: &List| ends.head.due.map_or(ends.tail.due, |due| due.min(ends.tail.due));
        let of_part = ends.filter(|ends| Part::of_list(&ends.tail.life.id) == look.part);
        Ok(due(of_part.map(|ends| (first_due(ends), &ends.tail.life.id)), look))
    }

    async fn clear_list(&self, life: &Life) -> Result<Cleared> {
        if let Some(listed) = self.tables().lists.get_mut(&life.id) {
            listed.additions.retain(|(opened_at, _), _| *opened_at != life.opened_at);
            listed.records.retain(|(opened_at, _), _| *opened_at != life.opened_at);
            listed.slots.retain(|(opened_at, _), _| *opened_at != life.opened_at);
        }
        Ok(Cleared::All)
    }

    async fn remove_list(&self, tail: &Tail) -> Result<Stored> {
        let mut tables = self.tables();
        let Some(listed) = tables.lists.get_mut(&tail.life.id) else { return Ok(Stored::Yes) };
        let is_other = |ends: &List| ends.tail.life != tail.life || ends.tail.revision != tail.revision;
        if listed.ends.as_ref().is_some_and(is_other) {
            return Ok(Stored::Conflict);
        }
        listed.ends = None;
        if listed.is_empty() {
            tables.lists.remove(&tail.life.id);
        }
        Ok(Stored::Yes)
    }
}
