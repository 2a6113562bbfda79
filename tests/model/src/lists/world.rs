//! The tables of one list, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::list::{
    Addition, Head, Life, Move, Options, Purpose, Put, Record, Reservation, Reserve, Slot, State, Tail,
};
use groupage_core::ports::{Moved, PutOn};

use super::setting::{NAME, Promise, Rule, Setting};
use crate::prelude::*;

/// The tables.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    pub(super) list: Option<Kept<List>>,
    pub(super) additions: BTreeMap<String, Kept<Addition>>,
    pub(super) records: BTreeMap<String, Kept<Record>>,
    pub(super) slots: BTreeMap<u64, Kept<String>>,
    /// Every task that was ever put, by its token.
    pub(super) put: BTreeMap<u64, Kept<String>>,
    /// The first token of what was put last and was not seen yet: what was seen once is seen ever after.
    pub(super) unseen: u64,
    pub(super) sent: BTreeSet<u64>,
    /// Every taking that was made, by its key, with its request.
    pub(super) takings: BTreeMap<String, (Kept<Reservation>, Kept<Reserve>)>,
}

impl World {
    pub(super) fn of(setting: &Setting) -> Self {
        let mut world = Self {
            list: None,
            additions: BTreeMap::new(),
            records: BTreeMap::new(),
            slots: BTreeMap::new(),
            put: BTreeMap::new(),
            unseen: 0,
            sent: BTreeSet::new(),
            takings: BTreeMap::new(),
        };
        if setting.waiting > 0 {
            let life = Life { id: ListId::new(NAME), opened_at: Timestamp(0) };
            let tail = Tail::open(life.clone(), Options::default()).grown(setting.waiting, true, Timestamp(0));
            world.list = Some(Kept::new(List { tail, head: Head::open(life) }));
            world.slots = (0..setting.waiting).map(|n| (n, Kept::new(format!("waits {n}")))).collect();
            world.put = world.slots.clone();
            world.unseen = setting.waiting;
        }
        world
    }

    /// Whether the write that this key stands for is made.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.additions.contains_key(key) || self.takings.contains_key(key)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.tail.state == State::Closed)
    }

    /// Whether nothing is under way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.list.as_ref().is_none_or(|list| list.head.reservations.is_empty())
    }

    /// Whether everything that was released is sent, and what waits is there.
    pub(super) fn is_whole(&self) -> bool {
        self.put.keys().all(|token| match self.purpose_of(*token) {
            Some(Purpose::Release { .. }) => self.sent.contains(token) && !self.slots.contains_key(token),
            Some(Purpose::Discard) => !self.slots.contains_key(token),
            None => self.slots.contains_key(token),
        })
    }

    pub(super) fn purpose_of(&self, token: u64) -> Option<Purpose> {
        let holds = |taking: &Reservation| (taking.start.0..taking.end().0).contains(&token);
        self.takings.values().find(|(taking, _)| holds(taking)).map(|(taking, _)| taking.purpose)
    }
}

impl Act<'_, Setting> {
    /// A copy of the n-th taking comes.
    pub(super) fn copy(&mut self, n: usize) {
        if let Some((_, request)) = self.takings.values().nth(n).cloned() {
            self.move_head(&Move::Reserve((*request).clone()));
        }
    }

    pub(super) fn put(&mut self, put: &Put) -> PutOn {
        let before: Vec<Addition> =
            put.additions.iter().filter_map(|addition| Some((**self.additions.get(&addition.key)?).clone())).collect();
        if !before.is_empty() && !self.without(Rule::PutOnce) {
            return PutOn::Before(before);
        }
        let mut list = match self.list.as_ref().map(|list| (**list).clone()) {
            None if put.is_new() => List { tail: put.tail.clone(), head: Head::open(put.tail.life.clone()) },
            Some(list) if list.tail.revision.next() == put.tail.revision || self.without(Rule::TailAsRead) => list,
            Some(_) | None => return PutOn::Conflict,
        };
        list.tail = put.tail.clone();
        self.unseen = put.slots.first().map_or(self.unseen, |slot| slot.token.0);
        for Slot { token, body } in &put.slots {
            let body = Kept::new(body.clone());
            if self.put.values().any(|other| *other == body) {
                self.breaks(Promise::PutOnce);
            }
            if self.put.insert(token.0, body.clone()).is_some_and(|other| other != body) {
                self.breaks(Promise::OneTaskAToken);
            }
            self.slots.insert(token.0, body);
        }
        let additions = put.additions.iter().map(|own| (own.key.clone(), Kept::new(own.clone())));
        self.additions.extend(additions);
        self.list = Some(Kept::new(list));
        PutOn::Yes
    }

    pub(super) fn move_head(&mut self, next: &Move) -> Moved {
        let Some(list) = self.list.as_ref().map(|list| (**list).clone()) else { return Moved::No(None) };
        let mut assumed = list.head.clone();
        let mut next = next.clone();
        if let Move::Reserve(reserve) = &mut next {
            match self.removed {
                Some(Rule::NotPastTheTail) => reserve.most_taken = Token(u64::MAX),
                Some(Rule::LateCopyRefused) => reserve.seen = Token(u64::MAX),
                Some(Rule::ClosedToReleases) => assumed.is_closed = false,
                Some(_) | None => {}
            }
        }
        let Some(after) = assumed.after(&next) else {
            return if list.head.shows(&next) { Moved::Yes(list.head) } else { Moved::No(Some(list.head)) };
        };
        let mut kept = Head { is_closed: list.head.is_closed, ..after.clone() };
        if let Move::Reserve(reserve) = &next {
            self.take(&list, &after, reserve);
            if self.without(Rule::RecordsWhoOwes) {
                kept.reservations.remove(&reserve.key);
            }
        }
        self.list = Some(Kept::new(List { head: kept, ..list }));
        Moved::Yes(after)
    }

    fn take(&mut self, before: &List, after: &Head, reserve: &Reserve) {
        if after.taken > before.tail.given {
            self.breaks(Promise::TakenOfGiven);
        }
        if before.head.is_closed && !reserve.purpose.is_discard() {
            self.breaks(Promise::ClosedIsClosed);
        }
        let Some(made) = after.reservations.get(&reserve.key) else { return };
        let taking = (Kept::new(*made), Kept::new(reserve.clone()));
        if self.takings.insert(reserve.key.clone(), taking).is_some() {
            self.breaks(Promise::TakenOnce);
        }
    }

    pub(super) fn slots(&mut self, from: Token, to: Token, limit: usize) -> Kept<Vec<Slot>> {
        let end = if self.shown { to.0.min(self.unseen).max(from.0) } else { to.0 };
        self.left.lags -= u8::from(self.shown);
        let found = self.slots.range(from.0..end).take(limit);
        let found: Vec<Slot> =
            found.map(|(token, body)| Slot { token: Token(*token), body: (**body).clone() }).collect();
        if let Some(last) = found.last() {
            self.unseen = self.unseen.max(last.token.0 + 1);
        }
        if self.without(Rule::SentBeforeRemoved) {
            found.iter().for_each(|slot| drop(self.slots.remove(&slot.token.0)));
        }
        Kept::new(found)
    }

    pub(super) fn record(&self, key: &str) -> Option<Kept<Record>> {
        let found = self.records.get(key).cloned();
        match self.removed {
            Some(Rule::RememberedKey) => None,
            Some(Rule::MissingIsNotDone) => {
                let reservation = self.list.as_ref()?.head.reservations.get(key)?;
                Some(Kept::new(Record { done: reservation.end(), ..Record::of(key, *reservation) }))
            }
            Some(_) | None => found,
        }
    }

    pub(super) fn store_tail(&mut self, tail: &Tail) -> Stored {
        let Some(list) = self.list.as_ref().map(|list| (**list).clone()) else { return Stored::Conflict };
        if list.tail.revision.next() != tail.revision {
            return if list.tail == *tail { Stored::Yes } else { Stored::Conflict };
        }
        let head = Head { is_closed: tail.state != State::Open, ..list.head };
        self.list = Some(Kept::new(List { tail: tail.clone(), head }));
        Stored::Yes
    }
}
