//! What is noted of lists: who took which tokens, and that nothing is taken or forgotten that may not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use groupage_core::domain::list::{Head, Life, Move, Put, Record, Reservation, Reserve, Slot, State, Tail};
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

/// What was seen of lists so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Every taking, by its caller's key.
    takings: BTreeMap<(ListId, String), Reservation>,
    /// The requests that made them.
    requests: Vec<(Life, Reserve)>,
    /// Lists whose closing was answered.
    closed: BTreeSet<ListId>,
}

impl Witness {
    /// The ranges of a list that were taken, and what for.
    pub fn takings(&self, id: &ListId) -> Vec<Reservation> {
        let seen = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        seen.takings.iter().filter(|((list, _), _)| list == id).map(|(_, taking)| *taking).collect()
    }

    /// Looks at a taking that was made.
    fn is_taken(&self, before: &List, made: &Reserve, after: &Head) {
        let (id, taken) = (&before.tail.life.id, before.head.taken);
        let Reserve { key, purpose, count, at, .. } = made;
        if after.taken != taken.plus(*count) || after.taken > before.tail.given {
            self.note(format!("no token is taken before it is given: {key} took {count} of {id} from {taken:?}"));
        }
        let mut seen = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let is_closed = seen.closed.contains(id);
        let taking = Reservation { start: taken, count: *count, purpose: *purpose, at: *at };
        seen.requests.push((before.tail.life.clone(), made.clone()));
        let earlier = seen.takings.insert((id.clone(), key.clone()), taking);
        drop(seen);
        if is_closed && !purpose.is_discard() {
            self.note(format!("closed is closed: {key} released {count} of {id}"));
        }
        if let Some(earlier) = earlier {
            self.note(format!("a call takes once: {key} took {earlier:?} of {id} and then {taking:?}"));
        }
    }

    /// A reservation may be forgotten when its record says that it is done, and nothing of it is left.
    async fn may_be_forgotten(&self, life: &Life, key: &str, before: &Head) -> Result<()> {
        let Some(reservation) = before.reservations.get(key) else { return Ok(()) };
        let left = self.tables.slots(life, reservation.start, reservation.end(), 1).await?;
        let record = self.tables.record(life, key).await?;
        if !left.is_empty() || !record.is_some_and(|record| record.is_done()) {
            self.note(format!("a release is forgotten when it is done: {key} of {} was not", life.id));
        }
        Ok(())
    }

    /// The network carries a copy of every taking once more, after something was forgotten: none is made again.
    async fn late_copies_come(&self, life: &Life) -> Result<()> {
        let requests = self.lists.lock().unwrap_or_else(PoisonError::into_inner).requests.clone();
        for (_, copy) in requests.into_iter().filter(|(of, _)| of == life) {
            let before = self.tables.list(&life.id).await?.map(|list| list.head.taken);
            self.tables.move_head(life, &Move::Reserve(copy.clone())).await?;
            if self.tables.list(&life.id).await?.map(|list| list.head.taken) != before {
                self.note(format!("a call takes once: a late copy of {copy:?} took tokens of {}", life.id));
            }
        }
        Ok(())
    }

    /// What becomes of a head's write where a rule is not kept.
    fn mutated_move(&self, next: &Move) -> Move {
        match (self.mutation, next) {
            (Some(Mutation::TakesPastTheTail), Move::Reserve(reserve)) => {
                Move::Reserve(Reserve { most_taken: Token(u64::MAX), ..reserve.clone() })
            }
            (Some(Mutation::AdmitsLateCopies), Move::Reserve(reserve)) => {
                Move::Reserve(Reserve { seen: Token(u64::MAX), ..reserve.clone() })
            }
            _ => next.clone(),
        }
    }
}

impl layer::Lists for Witness {
    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        let mut put = put.clone();
        match self.mutation {
            Some(Mutation::PutsWithoutItsKey) => {
                let (life, revision) = (put.tail.life.clone(), put.tail.revision.0);
                for addition in &mut put.additions {
                    if !self.tables.additions(&life, std::slice::from_ref(&addition.key)).await?.is_empty() {
                        addition.key += &format!("@{revision}");
                    }
                }
            }
            Some(Mutation::PutsUnconditionally) => {
                if let Some(list) = self.tables.list(&put.tail.life.id).await? {
                    put.tail = Tail { life: list.tail.life, revision: list.tail.revision.next(), ..put.tail };
                }
            }
            Some(_) | None => {}
        }
        self.tables.put_on_list(&put).await
    }

    async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
        let before = self.tables.list(&life.id).await?.filter(|list| list.head.life == *life);
        let next = &self.mutated_move(next);
        let moved = self.tables.move_head(life, next).await?;
        let (Some(before), Moved::Yes(after)) = (before, &moved) else { return Ok(moved) };
        match next {
            Move::Reserve(made) if *after != before.head => {
                self.is_taken(&before, made, after);
                if self.mutation == Some(Mutation::ForgetsAtOnce)
                    && let Some(forget) = after.forgetting(&made.key)
                {
                    self.tables.move_head(life, &forget).await?;
                }
            }
            Move::Forget { key, .. } => {
                self.may_be_forgotten(life, key, &before.head).await?;
                self.late_copies_come(life).await?;
            }
            Move::Reserve(_) | Move::Look { .. } => {}
        }
        Ok(moved)
    }

    async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
        let record = self.tables.record(life, key).await?;
        let under_way = async || {
            let list = self.tables.list(&life.id).await?.filter(|list| list.head.life == *life);
            let found = list.and_then(|list| list.head.reservations.get(key).copied());
            Ok(found.map(|found| Record { done: found.end(), ..Record::of(key, found) }))
        };
        match self.mutation {
            Some(Mutation::ForgetsKeys) => Ok(None),
            Some(Mutation::TakesMissingForDone) if record.is_none() => under_way().await,
            Some(_) | None => Ok(record),
        }
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        let slots = self.tables.slots(life, from, to, limit).await?;
        if self.mutation == Some(Mutation::RemovesBeforeSending) {
            let tokens: Vec<Token> = slots.iter().map(|slot| slot.token).collect();
            self.tables.remove_slots(life, &tokens).await?;
        }
        Ok(slots)
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        let is_dropped = self.mutation == Some(Mutation::DropsClosings) && tail.state == State::Closed;
        let stored = if is_dropped { Stored::Yes } else { self.tables.store_tail(tail).await? };
        if stored == Stored::Yes {
            let mut seen = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
            match tail.state {
                State::Open => seen.closed.remove(&tail.life.id),
                State::Closed | State::Removing => seen.closed.insert(tail.life.id.clone()),
            };
        }
        Ok(stored)
    }
}

/// Whether tokens of this range are released, and not discarded.
pub(crate) fn is_release(taking: &Reservation) -> bool {
    matches!(taking.purpose, Purpose::Release { .. })
}
