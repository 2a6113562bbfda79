//! The tables of one list, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::id::{ListId, Token};
use groupage_core::domain::list::{
    Addition, Head, Life, List, Move, Options, Purpose, Put, Record, Reservation, Reserve, Slot, State, Tail,
};
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Moved, PutOn};

use super::io::{Answer, Op};
use super::rules::{Promise, Rule};
use super::setting::{NAME, Setting};
use crate::kept::Kept;

/// The tables.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    list: Option<Kept<List>>,
    additions: BTreeMap<String, Kept<Addition>>,
    records: BTreeMap<String, Kept<Record>>,
    slots: BTreeMap<u64, Kept<String>>,
    /// Every task that was ever put, by its token.
    put: BTreeMap<u64, Kept<String>>,
    /// The first token of what was put last and was not seen yet: what was seen once is seen ever after.
    unseen: u64,
    sent: BTreeSet<u64>,
    /// Every taking that was made, by its key, with its request.
    takings: BTreeMap<String, (Kept<Reservation>, Kept<Reserve>)>,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
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
            broken: None,
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

    /// How many takings were made.
    pub(super) fn takings(&self) -> usize {
        self.takings.len()
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

    fn purpose_of(&self, token: u64) -> Option<Purpose> {
        let holds = |taking: &Reservation| (taking.start.0..taking.end().0).contains(&token);
        self.takings.values().find(|(taking, _)| holds(taking)).map(|(taking, _)| taking.purpose)
    }

    /// Whether a read may miss what was put last.
    pub(super) fn may_lag(&self, op: &Op) -> bool {
        matches!(op, Op::Slots(_, to, _) if self.slots.range(self.unseen..to.0.max(self.unseen)).next().is_some())
    }

    /// Carries out an I/O; `lags` says that it misses what was put last.
    pub(super) fn apply(&mut self, op: &Op, lags: bool, removed: Option<Rule>) -> Answer {
        match op {
            Op::List => Answer::List(self.list.clone()),
            Op::Put(put) => Answer::Put(Kept::new(self.put(put, removed))),
            Op::Additions(keys) => {
                let found = keys.iter().filter_map(|key| self.additions.get(key));
                Answer::Additions(Kept::new(found.map(|addition| (**addition).clone()).collect()))
            }
            Op::Move(next) => Answer::Moved(Kept::new(self.move_head(next, removed))),
            Op::Record(key) => Answer::Record(self.record(key, removed)),
            Op::StoreRecord(record) => {
                let before = self.records.get(&record.key);
                let is_next = before.is_none_or(|before| before.done < record.done || before == record);
                if is_next {
                    self.records.insert(record.key.clone(), record.clone());
                }
                Answer::Stored(is_next)
            }
            Op::Slots(from, to, limit) => {
                let end = if lags { to.0.min(self.unseen).max(from.0) } else { to.0 };
                let found = self.slots.range(from.0..end).take(*limit);
                let found: Vec<Slot> =
                    found.map(|(token, body)| Slot { token: Token(*token), body: (**body).clone() }).collect();
                if let Some(last) = found.last() {
                    self.unseen = self.unseen.max(last.token.0 + 1);
                }
                if removed == Some(Rule::SentBeforeRemoved) {
                    found.iter().for_each(|slot| drop(self.slots.remove(&slot.token.0)));
                }
                Answer::Slots(Kept::new(found))
            }
            Op::RemoveSlots(tokens) => {
                tokens.iter().for_each(|token| drop(self.slots.remove(&token.0)));
                Answer::Done
            }
            Op::StoreTail(tail) => Answer::Stored(self.store_tail(tail)),
            Op::Send(body) => {
                let token = self.put.iter().find(|(_, put)| *put == body).map(|(token, _)| *token);
                match token.map(|token| (token, self.purpose_of(token))) {
                    Some((token, Some(Purpose::Release { .. }))) => drop(self.sent.insert(token)),
                    Some((_, Some(Purpose::Discard) | None)) | None => self.breaks(Promise::OnlyReleased),
                }
                Answer::Done
            }
        }
    }

    /// A copy of the n-th taking comes.
    pub(super) fn copy(&mut self, n: usize, removed: Option<Rule>) {
        if let Some((_, request)) = self.takings.values().nth(n).cloned() {
            self.move_head(&Move::Reserve((*request).clone()), removed);
        }
    }

    fn put(&mut self, put: &Put, removed: Option<Rule>) -> PutOn {
        let before: Vec<Addition> =
            put.additions.iter().filter_map(|addition| Some((**self.additions.get(&addition.key)?).clone())).collect();
        if !before.is_empty() && removed != Some(Rule::PutOnce) {
            return PutOn::Before(before);
        }
        let mut list = match self.list.as_ref().map(|list| (**list).clone()) {
            None if put.is_new() => List { tail: put.tail.clone(), head: Head::open(put.tail.life.clone()) },
            Some(list) if list.tail.revision.next() == put.tail.revision || removed == Some(Rule::TailAsRead) => list,
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

    fn move_head(&mut self, next: &Move, removed: Option<Rule>) -> Moved {
        let Some(list) = self.list.as_ref().map(|list| (**list).clone()) else { return Moved::No(None) };
        let mut assumed = list.head.clone();
        let mut next = next.clone();
        if let Move::Reserve(reserve) = &mut next {
            match removed {
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
            if removed == Some(Rule::RecordsWhoOwes) {
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

    fn record(&self, key: &str, removed: Option<Rule>) -> Option<Kept<Record>> {
        let found = self.records.get(key).cloned();
        match removed {
            Some(Rule::RememberedKey) => None,
            Some(Rule::MissingIsNotDone) => {
                let reservation = self.list.as_ref()?.head.reservations.get(key)?;
                Some(Kept::new(Record { done: reservation.end(), ..Record::of(key, *reservation) }))
            }
            Some(_) | None => found,
        }
    }

    fn store_tail(&mut self, tail: &Tail) -> bool {
        let Some(list) = self.list.as_ref().map(|list| (**list).clone()) else { return false };
        if list.tail.revision.next() != tail.revision {
            return list.tail == *tail;
        }
        let head = Head { is_closed: tail.state != State::Open, ..list.head };
        self.list = Some(Kept::new(List { tail: tail.clone(), head }));
        true
    }

    pub(super) fn breaks(&mut self, promise: Promise) {
        self.broken = self.broken.or(Some(promise));
    }
}
