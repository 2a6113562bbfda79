//! Whether a call may start: what a gate says to a batch that asks.
//!
//! A person's pause and the circuit [breaker](super::Breaker) come first, then the downstream's pause, then permits and
//! the rate, each in the order of the wait queue.

use super::breaker::Decision;
use super::queue::Share;
use super::{Gate, IN_PLACE_MS, Limits};
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
    /// It waits behind others of its flow. The next ticket of this flow is its own, whichever that is by then: however
    /// many line up at once, none has to try twice.
    LinesUp {
        /// The flow.
        flow: u64,
        /// The distance of its ticket from the last one.
        behind: u64,
    },
    /// It waits.
    Later {
        /// To be written before the batch goes away; `None`: there is nothing to write.
        gate: Option<Gate>,
        /// Its ticket, if it has one.
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

/// A batch whose ticket the queue passed over so long ago takes another one, in milliseconds.
const LOST_MS: u64 = 30_000;
/// Free permits are kept for as many batches as there are, and for twice as many after each of these pauses in which
/// none of them came, in milliseconds.
pub(super) const KEPT_MS: u64 = 2_000;
/// A batch of the queue reserves its start so far ahead at most, in milliseconds. Batches come back early by up to a
/// second, and those before it may still be on their way.
const AHEAD_MS: u64 = 50;

/// Where a batch stands.
#[derive(Clone, Copy)]
enum Turn {
    /// Before all that wait.
    Now,
    /// At its ticket.
    At(u64),
    /// At the ticket that it would get.
    Next(u64),
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
        if let Some(pause) = &self.pauses.all {
            return Admission::paused(pause, now);
        }
        let mut next = self.clone();
        match next.breaker.decide(batch, now, lease_until) {
            Decision::Allow => self.admit_within(batch, (asks, false), limits, now, lease_until),
            Decision::Probe => match next.admit_within(batch, (asks, true), limits, now, lease_until) {
                // One that has to wait for a permit or a pause's end is no probe yet.
                Admission::Later { at, .. } => Admission::Later { gate: None, ticket: None, at },
                Admission::Admitted(admitted, start) => {
                    Admission::Admitted(Some(admitted.unwrap_or_else(|| next.written_for(batch))), start)
                }
                other @ (Admission::LinesUp { .. } | Admission::Away { .. }) => other,
            },
            Decision::Wait(from, to) => {
                let gate = (next.breaker != self.breaker).then(|| Box::new(next.written_for(batch)));
                let outage = self.breaker.streak.as_ref().map(|streak| (streak.since, streak.reason.clone()));
                Admission::Away { gate, back: (from, to), outage }
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
        let is_in_turn = goes_first || asks == Asks::InTurn;
        let paced = if is_in_turn { limits } else { self.breaker.slowed(limits, now) };
        if paced == Limits::default() {
            return if self.paused_until > now {
                Admission::Later { gate: None, ticket: None, at: self.paused_until }
            } else {
                Admission::Admitted(None, now)
            };
        }
        let mut next = self.written_for(batch);
        next.permits.expire(now);
        let share = limits.share();
        // A permit that it has kept while it waited at a wider limit is no other batch's.
        let keeps = asks == Asks::Anew && paced.rates.is_none() && next.counts(batch);
        let turn = next.turn_of(if goes_first || keeps { Asks::Again } else { asks }, share, paced, now);
        if let Some(at) = next.waits_until(batch, turn, (limits, paced), lease_until, now) {
            return next.waits(turn, share, at, now);
        }
        if let Turn::At(tag) | Turn::Next(tag) = turn
            && (asks != Asks::Anew || !next.queue.flows.is_empty())
        {
            next.queue.serve(tag, now);
        }
        if limits.in_flight.is_some() {
            next.permits.acquire(batch, lease_until, asks == Asks::Again);
        }
        let start = next.rate.reserve(&paced.rates, now);
        Admission::Admitted(Some(next), start)
    }

    fn turn_of(&self, asks: Asks, share: Share, limits: Limits, now: Timestamp) -> Turn {
        let is_lost = |tag| {
            let passed_over = self.queue.passed_over(tag);
            passed_over > 2 * share.size && limits.rates.takes_ms(passed_over) > LOST_MS
        };
        match asks {
            Asks::Again | Asks::InTurn => Turn::Now,
            Asks::With(tag) if !is_lost(tag) => Turn::At(tag),
            Asks::With(_) | Asks::Anew => Turn::Next(self.queue.next(share, now).1.last),
        }
    }

    /// Returns when a batch that has to wait should ask again: for a pause's end, for a permit, or for the rate.
    fn waits_until(
        &self,
        batch: &BatchId,
        turn: Turn,
        (limits, paced): (Limits, Limits),
        lease_until: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let ahead = match turn {
            Turn::Now => 0,
            Turn::At(tag) | Turn::Next(tag) => self.queue.ahead(tag, limits.share(), self.rate.mean_size),
        };
        let calls_ahead = self.calls_of(ahead);
        let turns_ms = self.breaker.turns_ms((ahead, calls_ahead), &limits.rates, now);
        let paused = Some(self.paused_until).filter(|until| *until > now).map(|until| until.plus_ms(turns_ms));
        let permit = limits.in_flight.filter(|_| !self.counts(batch)).and_then(|most| {
            let free = self.permits.free(most);
            // Of those that do not come for a permit, nobody knows whether they will.
            let doublings = u32::try_from(now.since(self.queue.moved) / KEPT_MS).unwrap_or(u32::MAX);
            let admits = free.saturating_mul(2_u64.saturating_pow(doublings));
            let nth = || (calls_ahead + 1).saturating_sub(free);
            (calls_ahead >= admits).then(|| self.permits.free_at(nth(), most, lease_until, now))
        });
        let rate = Some(paced.rates).filter(|rates| !rates.is_none()).and_then(|rates| {
            let due = self.rate.earliest(&rates).plus_ms(turns_ms);
            // A batch that was overtaken reserves before others that are here early, so they never starve it.
            let is_first = match turn {
                Turn::Now => true,
                Turn::At(tag) => tag < self.queue.served,
                Turn::Next(_) => self.queue.flows.is_empty(),
            };
            let ahead_ms = if is_first { IN_PLACE_MS } else { AHEAD_MS };
            Some(due).filter(|due| due.since(now) > ahead_ms).map(|due| Timestamp(due.0.saturating_sub(AHEAD_MS)))
        });
        [paused, permit, rate].into_iter().flatten().max()
    }

    /// A batch waits: a new one with a ticket of its own.
    fn waits(mut self, turn: Turn, share: Share, at: Timestamp, now: Timestamp) -> Admission {
        match turn {
            Turn::Now => Admission::Later { gate: None, ticket: None, at },
            Turn::At(tag) => Admission::Later { gate: None, ticket: Some(tag), at },
            Turn::Next(_) => {
                let (flow, after) = self.queue.next(share, now);
                if self.queue.flows.contains_key(&flow) {
                    return Admission::LinesUp { flow, behind: after.stride.saturating_mul(share.size) };
                }
                let ticket = Some(self.queue.take(share, now));
                Admission::Later { gate: Some(self), ticket, at }
            }
        }
    }

    /// Returns this gate with one ticket more of a flow that waits, this far behind its last one; `None` if that flow
    /// does not wait.
    #[must_use]
    pub fn with_ticket(&self, flow: u64, behind: u64) -> Option<Self> {
        let mut next = Self { revision: self.revision.next(), ..self.clone() };
        next.queue.take_behind(flow, behind)?;
        Some(next)
    }

    /// Counts the batches that wait, about, where they cost more or less.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.calls_of(self.queue.waiting())
    }

    fn calls_of(&self, size: u64) -> u64 {
        size.div_ceil(self.rate.mean_size.max(1))
    }

    /// Returns when a batch with this ticket should ask again; `None`: now.
    #[must_use]
    pub fn time_of(&self, tag: u64, limits: Limits, lease_until: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let paced = self.breaker.slowed(limits, now);
        self.waits_until(&BatchId::new(""), Turn::At(tag), (limits, paced), lease_until, now)
    }
}

impl Limits {
    /// Returns the flow of the batch, and its size.
    fn share(&self) -> Share {
        self.share.unwrap_or(Share::ALL).sized(self.rates.size())
    }
}
