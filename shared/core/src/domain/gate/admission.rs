//! Whether a call may start: what a gate says to a batch that asks.
//!
//! The downstream's [`Health`](super::Health) comes first, then a pause, then the line, then places and the rate.

use super::health::Lets;
use super::line::Inserted;
use super::share::Found;
use super::{Gate, IN_PLACE_MS, Limits, Pace};
use crate::domain::id::BatchId;
use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// How a batch asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// It comes for the first time, or its ticket is lost.
    Anew,
    /// It has this ticket.
    With(u64),
    /// It is being called already, and makes one call more.
    Again,
    /// It comes in its turn: its Target has a rate, whose gate goes on as slowly as this one after an outage.
    InTurn,
}

/// What a gate says to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call may start at this time, once the gate is written; `None`: there is nothing to write.
    Admitted(Option<Gate>, Timestamp),
    /// It waits at the end of a line that is on its way: the next ticket is its own, whichever that is by then. However
    /// many line up at once, none has to try twice.
    LinesUp {
        /// Behind the others of this stretch, if Targets share the line.
        stretch: Option<u64>,
    },
    /// It waits.
    Later {
        /// To be written before the batch goes away; `None`: there is nothing to write.
        gate: Option<Gate>,
        /// Its number in the line, if it has one.
        ticket: Option<u64>,
        /// When to come back. If that is soon, it waits in place.
        at: Timestamp,
    },
    /// The gate is closed to it, because its downstream is away or a person holds calls back.
    Away {
        /// To be written before the batch goes away; `None`: there is nothing to write.
        gate: Option<Box<Gate>>,
        /// When to come back at the earliest and at the latest: any time between them, so that not all come at once.
        back: (Timestamp, Timestamp),
        /// Since when no call was answered, and why; `None`: a person holds calls back.
        outage: Option<(Timestamp, Reason)>,
    },
}

/// A ticket that nobody came with for so long after its time is lost, in milliseconds: its batch starts anew.
pub(super) const LOST_MS: u64 = 30_000;
/// A place is kept free for a ticket for so long after its time, in milliseconds.
pub(super) const KEPT_MS: u64 = 2_000;

/// Where a batch stands.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// At the end of the line.
    New,
    /// At its ticket, whose number this is.
    Of {
        /// Its place in the line.
        slot: u64,
        /// The ticket.
        number: u64,
    },
    /// Before all that wait.
    Now,
}

impl Gate {
    /// What this gate says to `batch`. A batch that is in flight already has its lease renewed, at least by a
    /// millisecond; leases that are over are dropped.
    #[must_use]
    pub fn admit(
        &self,
        batch: &BatchId,
        asks: Asks,
        limits: Limits,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> Admission {
        match self.health.lets(batch, now, lease_until) {
            Lets::Pass => {
                let slowed = if asks == Asks::InTurn { limits } else { self.health.slowed(limits, now) };
                self.admit_within(batch, (asks, false), slowed, now, lease_until)
            }
            Lets::Probe(health) => {
                let probed = Self { health, ..self.clone() };
                match probed.admit_within(batch, (asks, true), limits, now, lease_until) {
                    // One that has to wait for a place or a pause's end is no probe yet.
                    Admission::Later { at, .. } => Admission::Later { gate: None, ticket: None, at },
                    Admission::Admitted(next, start) => {
                        let next = next.unwrap_or_else(|| probed.written_for(batch));
                        Admission::Admitted(Some(next), start)
                    }
                    other @ (Admission::LinesUp { .. } | Admission::Away { .. }) => other,
                }
            }
            Lets::Wait { next, back } => {
                let gate = next.map(|health| Box::new(Self { health, ..self.written_for(batch) }));
                let run = self.health.run.as_ref().filter(|_| self.health.held.is_none());
                Admission::Away { gate, back, outage: run.map(|run| (run.since, run.reason.clone())) }
            }
        }
    }

    fn admit_within(
        &self,
        batch: &BatchId,
        (asks, goes_first): (Asks, bool),
        limits: Limits,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> Admission {
        if limits == Limits::default() {
            return if self.paused_until > now {
                Admission::Later { gate: None, ticket: None, at: self.paused_until }
            } else {
                Admission::Admitted(None, now)
            };
        }
        let mut next = self.written_for(batch);
        next.line.forget_past(now);
        next.in_flight.retain(|_, lease| *lease > now);
        if asks != Asks::Again || limits.in_flight.is_none() {
            // The lease of a call more is that of its claim, and partly over: it says nothing of how long calls take.
            next.keep_pace(limits, lease_until, now);
        }
        next.keep_shares(limits, now);
        // A rate that was changed moves everybody once, by the first that looks. If each one moved the times for
        // itself, the next free one would be some seconds ahead for ever.
        let moved = limits.in_flight.is_none() && next.line.gap_ms != self.line.gap_ms;
        let moved = |later: Admission, next: &Self| match later {
            Admission::Later { gate: None, ticket, at } if moved => {
                Admission::Later { gate: Some(next.clone()), ticket, at }
            }
            other => other,
        };
        let turn = if goes_first { Turn::Now } else { next.turn_of(asks, limits, now) };
        let most = limits.in_flight.filter(|_| !next.counts(batch));
        let missing = most.and_then(|most| next.missing(turn, most, limits, now));
        if let Some(later) = next.too_early(turn, missing, limits, lease_until, now) {
            return self.or_lines_up(moved(later, &next), turn, limits, now);
        }
        let regapped = next.line.gap_ms != self.line.gap_ms;
        let (start, reserved) = match next.start(turn, limits, now) {
            Ok(reserved) => reserved,
            Err(at) => {
                let later = moved(next.clone().waits(turn, at, limits, now), &next);
                return self.or_lines_up(later, turn, limits, now);
            }
        };
        if let Some(places) = limits.in_flight {
            next.enter(batch, (asks, turn), (places, limits.gap_ms.unwrap_or(0)), now, lease_until);
        }
        Admission::Admitted((reserved || regapped || limits.in_flight.is_some()).then_some(next), start)
    }

    /// The gap is that of the rate, or as long as places take to become free.
    fn keep_pace(&mut self, Limits { in_flight, gap_ms, .. }: Limits, lease_until: Timestamp, now: Timestamp) {
        let pace_ms = in_flight.map_or(0, |most| self.pace_ms(most, lease_until, now));
        let rate_ms = gap_ms.unwrap_or(0);
        let (gap_ms, old) = (pace_ms.max(rate_ms), self.line.gap_ms);
        // An estimate is kept as long as it is near enough: a new gap moves everybody.
        if gap_ms.abs_diff(old) > if pace_ms > rate_ms { old / 8 } else { 0 } {
            let first = self.line.set_gap(gap_ms, now);
            if in_flight.is_none() {
                // Of a rate no two may have times between which there is less than a gap.
                self.line.from = self.line.from.max(first);
            }
        }
    }

    /// Milliseconds from one place's becoming free to the next one's.
    fn pace_ms(&self, most: usize, lease_until: Timestamp, now: Timestamp) -> u64 {
        let held_ms = self.ends.held_ms(lease_until.since(now));
        held_ms.map_or_else(|| self.pace.gap_ms(most, now), |held_ms| (held_ms / most.max(1) as u64).max(1))
    }

    fn turn_of(&self, asks: Asks, limits: Limits, now: Timestamp) -> Turn {
        // Where places are limited a ticket's time is an estimate, and being late costs nobody anything.
        let is_good = |slot: u64| limits.in_flight.is_some() || self.line.at(slot).plus_ms(LOST_MS) > now;
        match asks {
            Asks::Again | Asks::InTurn => Turn::Now,
            Asks::Anew => Turn::New,
            Asks::With(number) => match self.shares.find(number, self.line.next) {
                Found::At(slot) if slot < self.line.next && is_good(slot) => Turn::Of { slot, number },
                Found::Past => Turn::Of { slot: 0, number },
                Found::At(_) | Found::Nowhere => Turn::New,
            },
        }
    }

    /// How many places have to become free before this one may go, if each before it takes one; `None` if one is left
    /// beside those that are kept for tickets before it.
    fn missing(&self, turn: Turn, most: usize, limits: Limits, now: Timestamp) -> Option<u64> {
        let free = most.saturating_sub(self.in_flight.len()) as u64;
        let slot = match turn {
            Turn::Now => return (free == 0).then_some(1),
            Turn::Of { slot, .. } => slot,
            Turn::New => self.next_slot(limits, now),
        };
        let mut first = self.turn.min(self.line.next);
        // Of those whose time is long past, nobody knows whether they come.
        let lost_before = Timestamp(now.0.saturating_sub(KEPT_MS));
        if self.line.at(first) < lost_before {
            first = first.max(self.line.first_at(lost_before));
        }
        // Those that do not come yet leave a place that is free to one that is here.
        let due = self.line.first_at(now.plus_ms(IN_PLACE_MS + 1));
        let wanted = |slot: u64| slot.saturating_sub(first) + 1;
        (wanted(slot.min(due)) > free).then(|| wanted(slot).saturating_sub(free).max(1))
    }

    /// Whether and how long a batch waits for a pause's end, for its time, or for places.
    fn too_early(
        &self,
        turn: Turn,
        missing: Option<u64>,
        limits: Limits,
        lease_until: Timestamp,
        now: Timestamp,
    ) -> Option<Admission> {
        if self.paused_until > now {
            return Some(self.clone().waits(turn, self.paused_until, limits, now));
        }
        let Some(most) = limits.in_flight else {
            let Turn::Of { slot, number } = turn else { return None };
            let far = self.line.time(slot).filter(|at| at.since(now) > IN_PLACE_MS);
            return far.map(|at| Admission::Later { gate: None, ticket: Some(number), at });
        };
        let free_at = self.free_at(missing?, most, lease_until, now);
        // Beside a rate the line's times are its own.
        let with_rate = |at: Timestamp| if limits.gap_ms.is_some() { at.max(free_at) } else { free_at };
        Some(match turn {
            Turn::New => {
                let mut next = self.clone();
                // The first of a line: if its time were past before it has its place, the next one would begin the line
                // anew, and overtake it. The others follow from that.
                let is_first = self.line.next_at <= now;
                let not_before = if is_first { free_at.max(now.plus_ms(self.line.gap_ms)) } else { now };
                let (number, at) = next.take_turn(limits, not_before, now);
                Admission::Later { gate: Some(next), ticket: Some(number), at: with_rate(at) }
            }
            Turn::Of { slot, number } => {
                let at = with_rate(self.line.time(slot).unwrap_or(free_at));
                Admission::Later { gate: None, ticket: Some(number), at }
            }
            Turn::Now => Admission::Later { gate: None, ticket: None, at: free_at },
        })
    }

    /// When a batch should come back that has this ticket, its last one.
    #[must_use]
    pub fn time_for(&self, number: u64, limits: Limits, now: Timestamp, lease_until: Timestamp) -> Option<Timestamp> {
        let turn = self.turn_of(Asks::With(number), limits, now);
        let missing = limits.in_flight.and_then(|most| self.missing(turn, most, limits, now));
        match self.too_early(turn, missing, limits, lease_until, now)? {
            Admission::Later { at, .. } => Some(at),
            Admission::Admitted(..) | Admission::LinesUp { .. } | Admission::Away { .. } => None,
        }
    }

    /// A batch goes away: a new one with a ticket of its own.
    fn waits(mut self, turn: Turn, not_before: Timestamp, limits: Limits, now: Timestamp) -> Admission {
        match turn {
            Turn::New => {
                let (number, at) = self.take_turn(limits, not_before, now);
                Admission::Later { gate: Some(self), ticket: Some(number), at }
            }
            Turn::Of { slot, number } => {
                let at = self.line.time(slot).map_or(not_before, |at| at.max(not_before));
                Admission::Later { gate: None, ticket: Some(number), at }
            }
            Turn::Now => Admission::Later { gate: None, ticket: None, at: not_before },
        }
    }

    /// When the call may start, and whether that has to be written down; or when to come back instead.
    fn start(&mut self, turn: Turn, limits: Limits, now: Timestamp) -> Result<(Timestamp, bool), Timestamp> {
        let Some(gap_ms) = limits.gap_ms else { return Ok((now, false)) };
        if limits.in_flight.is_some() {
            // The gate is written for the place anyway, so a time is only taken now.
            let start = now.max(self.next_start);
            if start.since(now) > IN_PLACE_MS {
                return Err(start);
            }
            self.next_start = start.plus_ms(gap_ms);
            return Ok((start, true));
        }
        let inserted = match turn {
            Turn::Of { slot, .. } => match self.line.time(slot).filter(|at| *at >= now) {
                Some(at) => return Ok((at, false)),
                None => self.line.insert(now),
            },
            Turn::Now => self.line.insert(now),
            Turn::New => Inserted::Behind,
        };
        match inserted {
            Inserted::At(at) => Ok((at, true)),
            Inserted::NotBefore(at) => Err(at),
            Inserted::Behind if self.line.is_busy(now) => Err(self.line.next_at),
            // Slots of those that have no ticket lie before those of all that share.
            Inserted::Behind if self.shares.is_empty() => Ok((self.line.take(now, now).1, true)),
            Inserted::Behind => Ok((self.take_turn(limits, now, now).1, true)),
        }
    }

    /// Takes a place in flight, or keeps the one that the batch has. Its lease is then later than the one before:
    /// another delivery of the batch may know that one, and give it back.
    fn enter(
        &mut self,
        batch: &BatchId,
        (asks, turn): (Asks, Turn),
        (places, rate_ms): (usize, u64),
        now: Timestamp,
        lease_until: Timestamp,
    ) {
        if let Some(lease) = self.in_flight.get_mut(batch) {
            // One call more of the same worker is no other delivery.
            let later = if asks == Asks::Again { *lease } else { lease.plus_ms(1) };
            *lease = later.max(lease_until);
            return;
        }
        self.in_flight.insert(batch.clone(), lease_until);
        self.ends = self.ends.recent();
        match turn {
            Turn::Of { slot, .. } => {
                self.turn = self.turn.max(slot + 1);
                self.pace = self.pace.taken(places, now);
                // The estimate for all that wait begins anew with each that is through.
                let gap_ms = self.line.gap_ms;
                let is_full = rate_ms == 0 && self.in_flight.len() >= places;
                let free_at = is_full.then(|| self.free_at(1, places, lease_until, now));
                let last = free_at.map_or(now, |free_at| Timestamp(free_at.0.saturating_sub(gap_ms)));
                self.line.begin(self.turn, last, gap_ms);
            }
            Turn::New => self.pace = Pace::from(now),
            Turn::Now => {}
        }
    }
}
