//! How much fits into one call.

use std::collections::VecDeque;

use super::load::{Load, MAX_MEMBERS};
use crate::domain::gate::{Rate, Rates, Unit};
use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;

/// How much one call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members.
    pub max_items: usize,
    /// Bytes of payloads, all members together.
    pub max_bytes: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    pub wait_ms: u64,
    /// A batch with this many members, or more, does not wait for the end of its window.
    pub min_items: Option<usize>,
    /// A batch to which nothing has come for so long, in milliseconds, does not wait for the end of its window.
    pub quiet_ms: Option<u64>,
    /// What all members together may weigh.
    pub max_weight: Option<u64>,
    /// Whether a task may close its batch.
    pub closes: bool,
    /// Whether tasks may replace others.
    pub collapses: bool,
    /// Whether tasks may be more urgent than others.
    pub urgent_first: bool,
}

impl Default for Limits {
    /// What a route has that says nothing of them.
    fn default() -> Self {
        Self {
            max_items: 100,
            max_bytes: 1_000_000,
            wait_ms: 1_000,
            min_items: None,
            quiet_ms: None,
            max_weight: None,
            closes: false,
            collapses: false,
            urgent_first: false,
        }
    }
}

impl Limits {
    /// These limits, within the bursts of rates: a batch that costs more could never be called.
    pub fn within(mut self, rates: &Rates) -> Self {
        for Rate { of, burst, .. } in rates.iter() {
            match of {
                Unit::Calls => {}
                Unit::Items => self.max_items = self.max_items.min(usize::try_from(burst).unwrap_or(usize::MAX)),
                Unit::Bytes => self.max_bytes = self.max_bytes.min(burst),
                Unit::Weight => self.max_weight = Some(self.max_weight.unwrap_or(burst).min(burst)),
            }
        }
        self
    }

    /// The room of an empty batch.
    pub fn room(&self) -> Room {
        self.room_beside(Load::default())
    }

    /// Carves batches that wait for nobody from the front of `candidates`, in their order: full ones, and a last one
    /// that is large enough. Who is in none of them is left for a batch that waits for more. A batch is full as a
    /// leader's is ([`Room::take`]).
    ///
    /// None is made of tasks that concern those which wait already: one that closes a batch closes it with all that
    /// waits, and one that replaces others replaces those that wait. A leader sees them all.
    pub fn carve(&self, candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
        if self.collapses || candidates.iter().any(|candidate| candidate.traits.closes) {
            return Vec::new();
        }
        let mut queue = VecDeque::from(candidates);
        let mut batches = Vec::new();
        loop {
            let (taken, full) = self.room().take(&mut queue);
            let is_enough = self.quiet_ms.is_none() && self.min_items.is_some_and(|least| taken.len() >= least);
            if taken.is_empty() || !(full || is_enough) {
                return batches;
            }
            batches.push(taken);
        }
    }

    /// How long a batch with this load waits for more, to which the latest task came at `last`, and whose window is
    /// over at `until`.
    pub fn waits_until(&self, load: &Load, last: Timestamp, until: Timestamp) -> Timestamp {
        let joined = load.called();
        if load.closes() {
            return until.min(last);
        }
        if self.min_items.is_some_and(|least| joined < least) {
            return until;
        }
        match (self.quiet_ms, self.min_items) {
            (Some(quiet_ms), _) => until.min(last.plus_ms(quiet_ms)),
            (None, Some(_)) => until.min(last),
            (None, None) => until,
        }
    }

    /// For how long a task may wait for others before a leader is elected for it, in milliseconds. Where a task
    /// concerns all that wait, they wait where a leader finds them.
    pub fn patience_ms(&self) -> u64 {
        if self.closes || self.collapses {
            return 0;
        }
        self.quiet_ms.map_or(self.wait_ms, |quiet_ms| quiet_ms.min(self.wait_ms))
    }

    /// The room left beside this load.
    pub const fn room_beside(&self, load: Load) -> Room {
        Room::beside_load(*self, load)
    }
}

/// Room left in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Room {
    limits: Limits,
    load: Load,
}

impl Room {
    /// The room that is left beside this load.
    pub const fn beside_load(limits: Limits, load: Load) -> Self {
        Self { limits, load }
    }

    /// Members that may still be called.
    pub const fn items(&self) -> usize {
        self.limits.max_items.saturating_sub(self.load.called())
    }

    /// How many tasks to look for: with a collapse key many of them may need no place of their own.
    pub const fn wants(&self) -> usize {
        if self.limits.collapses { MAX_MEMBERS.saturating_sub(self.load.members()) } else { self.items() }
    }

    /// Whether the more urgent fill it first.
    pub const fn urgent_first(&self) -> bool {
        self.limits.urgent_first
    }

    /// In how many more tasks it should be full, if they are like those that it has.
    pub fn full_in(&self) -> usize {
        let by_weight = self.limits.max_weight.filter(|_| self.load.weight() > 0).map(|most| {
            let left = most.saturating_sub(self.load.weight()).saturating_mul(self.load.called() as u64);
            usize::try_from(left / self.load.weight()).unwrap_or(usize::MAX)
        });
        by_weight.map_or_else(|| self.items(), |tasks| tasks.min(self.items()))
    }

    /// Whether nothing fits any more, whatever comes.
    pub fn is_full(&self) -> bool {
        let load = &self.load;
        let has_weight = self.limits.max_weight.is_some_and(|most| load.called() > 0 && load.weight() >= most);
        load.called() >= self.limits.max_items || load.members() >= MAX_MEMBERS || has_weight
    }

    /// What is left of this room beside `candidates`.
    pub fn beside(&self, candidates: &[Candidate]) -> Self {
        let mut room = self.clone();
        candidates.iter().for_each(|candidate| room.load.add(candidate));
        room
    }

    /// Takes candidates from the front of `queue` while they fit. Returns them, and whether the batch is now full: no
    /// places are left, or the next candidate does not fit. Those that need no place of their own, since of their
    /// collapse key the newest counts, go along from wherever they are in the queue.
    pub fn take(&self, queue: &mut VecDeque<Candidate>) -> (Vec<Candidate>, bool) {
        let mut room = self.clone();
        let mut taken = Vec::new();
        loop {
            while queue.front().is_some_and(|next| room.fits(next)) {
                let next = queue.pop_front();
                next.iter().for_each(|next| room.load.add(next));
                taken.extend(next);
            }
            if queue.is_empty() {
                return (taken, room.is_full());
            }
            if !(self.limits.collapses && room.take_along(queue, &mut taken)) {
                return (taken, true);
            }
        }
    }

    /// Takes those that need no place of their own; says whether there were any. The batch may be lighter then.
    fn take_along(&mut self, queue: &mut VecDeque<Candidate>, taken: &mut Vec<Candidate>) -> bool {
        let before = taken.len();
        for next in std::mem::take(queue) {
            if self.load.meets(&next) && self.fits(&next) {
                self.load.add(&next);
                taken.push(next);
            } else {
                queue.push_back(next);
            }
        }
        taken.len() > before
    }

    /// A batch without a member takes one task of any size, so that a limit which was lowered after a task's
    /// registration cannot keep it waiting for ever.
    fn fits(&self, candidate: &Candidate) -> bool {
        if self.load.members() >= MAX_MEMBERS || (self.items() == 0 && !self.load.meets(candidate)) {
            return false;
        }
        let (before, now) = ((self.load.bytes(), self.load.weight()), self.load.beside(candidate));
        let is_light = now.0 <= self.limits.max_bytes && self.limits.max_weight.is_none_or(|most| now.1 <= most);
        is_light || now == before || self.load.members() == 0
    }
}

#[cfg(test)]
mod tests;
