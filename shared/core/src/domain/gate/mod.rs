//! When a call may start: how many may be in flight, how many a second, and not during a pause.
//!
//! One gate for each scope, one item for each gate, so one conditional write admits a call. A place in flight is a
//! lease that names the batch being called, so a worker that dies gives its place back by time, and the worker that
//! takes its batch over takes its place over too. A pause is what the downstream asked for with `Retry-After`, written
//! down for all workers.
//!
//! A batch that must wait gets a [`Ticket`]: a number in the gate's [`Line`], first come, first served. Its time
//! follows from the line. The batch comes back once, just before that time, and passes. So a wait costs the same
//! however many wait, and the item stays as small. A ticket that nobody uses costs its time and no other. A batch that
//! misses its time gets another one between the tickets, as far ahead as it takes to disturb no other batch.
//!
//! - A *rate* gives each ticket a time of its own, which the batch uses without another write.
//! - *Places in flight* become free when calls end. There, also beside a rate, the times are an estimate by the
//!   [`Pace`] so far. Those whose time has come take places in the order of their tickets, and with each the estimate
//!   for the others begins anew.
//!
//! Waiting at a gate is no failure: no attempt is counted.
//!
//! A gate also knows how its calls fare, in its [`Health`]: whether its downstream is away, and whether a person holds
//! calls back. That comes before all limits.

mod adaptive;
mod health;
mod heard;
mod line;
mod news;
mod pace;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::{BatchId, Revision, RouteName, Target};
use super::outcome::Reason;
use super::time::Timestamp;
pub use adaptive::{Adaptive, Bounds, Fared};
pub use health::{
    Alone, Health, Held, LONGEST_WAIT_MS, MOST_HELD, OUTAGE_AFTER, Outage, PROBE_PAUSES_MS, Run, Setback,
};
pub use heard::{Heeds, Now};
pub use line::{Line, Shift};
pub use news::{Event, News};
pub use pace::Pace;
pub use standing::Standing;

use health::Lets;
use line::Inserted;

/// What a gate stands before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All calls of a route.
    Route(RouteName),
    /// The calls for one Target.
    Target(Target),
}

impl Scope {
    /// The key of the gate's item. It lies in the lock table; no Target starts with `#`, because a route's name cannot.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Route(route) => format!("#route:{route}"),
            Self::Target(target) => format!("#target:{target}"),
        }
    }

    /// Whose calls these are, or that of the Target.
    #[must_use]
    pub fn route(&self) -> RouteName {
        match self {
            Self::Route(route) => route.clone(),
            Self::Target(target) => target.route(),
        }
    }

    /// The scope that has this [key](Self::key).
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        let route = key.strip_prefix("#route:").map(|route| Self::Route(RouteName::new(route)));
        route.or_else(|| key.strip_prefix("#target:").map(|target| Self::Target(Target::new(target))))
    }

    /// Whose calls it counts.
    #[must_use]
    pub const fn of(&self) -> Of {
        match self {
            Self::Route(_) => Of::Route,
            Self::Target(_) => Of::Target,
        }
    }
}

/// At which of its gates a batch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Its route's.
    Route,
    /// Its Target's.
    Target,
}

/// A batch's number in the line of a gate. The batch's message carries it, and the batch itself during a long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Ticket {
    /// At which gate.
    pub of: Of,
    /// The number.
    pub number: u64,
    /// Calls that the batch had made when it got it: a ticket is good for one call.
    pub attempts: u32,
}

/// What a gate lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight; `None` is no limit.
    pub in_flight: Option<usize>,
    /// If the limit on calls in flight is to follow how calls fare: it never falls below this.
    pub least: Option<usize>,
    /// Milliseconds from one call's start to the next; `None` is no limit.
    pub gap_ms: Option<u64>,
}

/// A gate as its item holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Rises with every write.
    pub revision: Revision,
    /// Which batch is in flight, and until when its lease lasts.
    pub in_flight: BTreeMap<BatchId, Timestamp>,
    /// No call starts before.
    pub paused_until: Timestamp,
    /// Those that wait, and the times that are taken.
    pub line: Line,
    /// All call times before this one are taken, where places are limited as well as the rate.
    pub next_start: Timestamp,
    /// The first ticket whose turn for a place has not been used.
    pub turn: u64,
    /// How fast places become free.
    pub pace: Pace,
    /// How many places there are, if that follows how calls fare.
    pub adaptive: Adaptive,
    /// For which batch it was written last: without it, two that reserve one time would write the same, and each would
    /// take the other's write for its own.
    pub latest: Option<BatchId>,
    /// How its calls fare.
    pub health: Health,
}

/// How a batch asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// It comes for the first time, or its ticket is lost.
    Anew,
    /// It has this ticket.
    With(u64),
    /// It is being called already, and makes one call more.
    Again,
}

/// What a gate says to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call may start at this time, once the gate is written; `None`: there is nothing to write.
    Admitted(Option<Gate>, Timestamp),
    /// It waits at the end of a line that is on its way: the next ticket is its own, whichever that is by then. However
    /// many line up at once, none has to try twice.
    LinesUp,
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

/// A batch whose time is at most so far ahead waits for it in place, in milliseconds. Any other comes back instead.
pub const IN_PLACE_MS: u64 = 1_500;
/// A ticket that nobody came with for so long after its time is lost, in milliseconds: its batch starts anew.
const LOST_MS: u64 = 30_000;
/// A place is kept free for a ticket for so long after its time, in milliseconds.
const KEPT_MS: u64 = 2_000;

/// Where a batch stands.
#[derive(Clone, Copy)]
enum Turn {
    /// At the end of the line.
    New,
    /// At its ticket.
    Of(u64),
    /// Before all that wait.
    Now,
}

impl Gate {
    /// What this gate says to `batch`. A batch that is in flight already has its lease renewed; leases that are over
    /// are dropped.
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
                self.admit_within(batch, asks, self.health.slowed(self.adapted(limits), now), now, lease_until)
            }
            Lets::Probe(health) => {
                let probed = Self { health, ..self.clone() };
                match probed.admit_within(batch, Asks::Again, self.adapted(limits), now, lease_until) {
                    // One that has to wait for a place or a pause's end is no probe yet.
                    Admission::Later { at, .. } => Admission::Later { gate: None, ticket: None, at },
                    Admission::Admitted(next, start) => {
                        let next = next.unwrap_or_else(|| probed.written_for(batch));
                        Admission::Admitted(Some(next), start)
                    }
                    other @ (Admission::LinesUp | Admission::Away { .. }) => other,
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
        asks: Asks,
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
        next.keep_pace(limits, now);
        let turn = next.turn_of(asks, limits, now);
        let missing = limits.in_flight.filter(|_| !next.counts(batch)).map_or(0, |most| next.missing(turn, most, now));
        if let Some(later) = next.too_early(turn, missing, limits, now) {
            return self.or_lines_up(later, turn, now);
        }
        let regapped = next.line.gap_ms != self.line.gap_ms;
        let (start, reserved) = match next.start(turn, limits, now) {
            Ok(reserved) => reserved,
            Err(at) => return self.or_lines_up(next.waits(turn, at, now), turn, now),
        };
        if let Some(places) = limits.in_flight {
            next.enter(batch, turn, (places, limits.gap_ms.unwrap_or(0)), now, lease_until);
        }
        Admission::Admitted((reserved || regapped || limits.in_flight.is_some()).then_some(next), start)
    }

    fn written_for(&self, batch: &BatchId) -> Self {
        Self { revision: self.revision.next(), latest: Some(batch.clone()), ..self.clone() }
    }

    /// For a new ticket of a line that stays what it is, no gate has to be written as a whole.
    fn or_lines_up(&self, later: Admission, turn: Turn, now: Timestamp) -> Admission {
        if let (Admission::Later { gate: Some(next), ticket: Some(ticket), .. }, Turn::New) = (&later, turn)
            && let Some(taken) = self.with_ticket(now)
            && taken.line.gap_ms == next.line.gap_ms
            && taken.line.at(*ticket) == next.line.at(*ticket)
        {
            return Admission::LinesUp;
        }
        later
    }

    /// This gate with one ticket more, if those that wait keep the line busy; the new ticket is the last one.
    #[must_use]
    pub fn with_ticket(&self, now: Timestamp) -> Option<Self> {
        (self.line.gap_ms > 0 && self.line.is_busy(now)).then(|| {
            let mut next = Self { revision: self.revision.next(), ..self.clone() };
            next.line.next += 1;
            next.line.next_at = next.line.next_at.plus_ms(next.line.gap_ms);
            next
        })
    }

    /// The ticket that was handed out last, and its time.
    #[must_use]
    pub fn last_ticket(&self) -> (u64, Timestamp) {
        let ticket = self.line.next.saturating_sub(1);
        (ticket, self.line.at(ticket))
    }

    /// The gap is that of the rate, or as long as places take to become free.
    fn keep_pace(&mut self, Limits { in_flight, gap_ms, .. }: Limits, now: Timestamp) {
        let pace_ms = in_flight.map_or(0, |most| self.pace.gap_ms(most, now));
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

    fn turn_of(&self, asks: Asks, limits: Limits, now: Timestamp) -> Turn {
        // Where places are limited a ticket's time is an estimate, and being late costs nobody anything.
        let is_good = |ticket: u64| limits.in_flight.is_some() || self.line.at(ticket).plus_ms(LOST_MS) > now;
        match asks {
            Asks::Again => Turn::Now,
            Asks::With(ticket) if ticket < self.line.next && is_good(ticket) => Turn::Of(ticket),
            Asks::With(_) | Asks::Anew => Turn::New,
        }
    }

    /// How many places have to become free before this one may go: none if one is left beside those that are kept for
    /// tickets before it.
    fn missing(&self, turn: Turn, most: usize, now: Timestamp) -> u64 {
        let free = most.saturating_sub(self.in_flight.len()) as u64;
        let ticket = match turn {
            Turn::Now => return u64::from(free == 0),
            Turn::Of(ticket) => ticket,
            Turn::New => self.line.next,
        };
        let mut first = self.turn.min(self.line.next);
        // Of those whose time is long past, nobody knows whether they come.
        let lost_before = Timestamp(now.0.saturating_sub(KEPT_MS));
        if self.line.at(first) < lost_before {
            first = first.max(self.line.first_at(lost_before));
        }
        // Those that do not come yet leave a place that is free to one that is here.
        let due = self.line.first_at(now.plus_ms(IN_PLACE_MS + 1));
        (ticket.min(due).saturating_sub(first) + 1).saturating_sub(free)
    }

    /// Whether and how long a batch waits for a pause's end, for its time, or for places.
    fn too_early(&self, turn: Turn, missing: u64, limits: Limits, now: Timestamp) -> Option<Admission> {
        if self.paused_until > now {
            return Some(self.clone().waits(turn, self.paused_until, now));
        }
        if let Turn::Of(ticket) = turn
            && let Some(at) = self.line.time(ticket).filter(|at| at.since(now) > IN_PLACE_MS)
            && (limits.in_flight.is_none() || missing > 0)
        {
            return Some(Admission::Later { gate: None, ticket: Some(ticket), at });
        }
        if missing == 0 {
            return None;
        }
        Some(self.clone().waits(turn, now.plus_ms(missing.saturating_mul(self.line.gap_ms)), now))
    }

    /// A batch goes away: a new one with a ticket of its own.
    fn waits(mut self, turn: Turn, not_before: Timestamp, now: Timestamp) -> Admission {
        match turn {
            Turn::New => {
                let (ticket, at) = self.line.take(not_before, now);
                if ticket == self.line.from {
                    // The line begins anew.
                    self.turn = self.turn.max(ticket);
                }
                Admission::Later { gate: Some(self), ticket: Some(ticket), at }
            }
            Turn::Of(ticket) => {
                let at = self.line.time(ticket).map_or(not_before, |at| at.max(not_before));
                Admission::Later { gate: None, ticket: Some(ticket), at }
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
            Turn::Of(ticket) => match self.line.time(ticket).filter(|at| *at >= now) {
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
            Inserted::Behind => Ok((self.line.take(now, now).1, true)),
        }
    }

    /// Takes a place in flight, or keeps the one that the batch has.
    fn enter(
        &mut self,
        batch: &BatchId,
        turn: Turn,
        (places, rate_ms): (usize, u64),
        now: Timestamp,
        lease_until: Timestamp,
    ) {
        if self.in_flight.insert(batch.clone(), lease_until).is_some() {
            return;
        }
        match turn {
            Turn::Of(ticket) => {
                self.turn = self.turn.max(ticket + 1);
                self.pace = self.pace.taken(places, now);
                // The estimate for all that wait begins anew with each that is through.
                self.line.begin(self.turn, now, self.pace.gap_ms(places, now).max(rate_ms));
            }
            Turn::New => self.pace = Pace::from(now),
            Turn::Now => {}
        }
    }

    /// Whether `batch` is in flight.
    #[must_use]
    pub fn counts(&self, batch: &BatchId) -> bool {
        self.in_flight.contains_key(batch)
    }

    /// This gate with the place that `batch` has lasting until then, or `None` if it has none, or as long already.
    #[must_use]
    pub fn kept(&self, batch: &BatchId, until: Timestamp) -> Option<Self> {
        self.in_flight.get(batch).filter(|lease| **lease < until)?;
        let mut next = self.written_for(batch);
        next.in_flight.insert(batch.clone(), until);
        Some(next)
    }

    /// This gate without the place that `batch` has until `lease`, or `None` if it has none, or a later one: another
    /// worker, which has the batch now, took that.
    #[must_use]
    pub fn left(&self, batch: &BatchId, lease: Timestamp) -> Option<Self> {
        self.in_flight.get(batch).filter(|until| **until <= lease)?;
        self.without(batch)
    }

    /// The limits as they are now: those that follow how calls fare have moved.
    #[must_use]
    pub fn adapted(&self, limits: Limits) -> Limits {
        let moved = bounds(limits).map(|bounds| self.adaptive.limit(bounds));
        Limits { in_flight: moved.or(limits.in_flight), ..limits }
    }

    /// As [`left`](Self::left), once a call has ended; a limit that follows how calls fare has heard of it.
    #[must_use]
    pub fn left_after(
        &self,
        batch: &BatchId,
        lease: Timestamp,
        limits: Limits,
        fared: Option<Fared>,
        now: Timestamp,
    ) -> Option<Self> {
        let left = self.left(batch, lease)?;
        let Some((bounds, fared)) = bounds(limits).zip(fared) else { return Some(left) };
        Some(Self { adaptive: self.adaptive.heard(fared, self.in_flight.len(), bounds, now), ..left })
    }

    /// This gate without `batch` in flight, or `None` if it is not.
    #[must_use]
    pub fn without(&self, batch: &BatchId) -> Option<Self> {
        let mut next = self.written_for(batch);
        next.in_flight.remove(batch)?;
        Some(next)
    }

    /// This gate, closed until then, or `None` if it is closed for as long already. All that wait come later.
    #[must_use]
    pub fn paused(&self, until: Timestamp, now: Timestamp) -> Option<Self> {
        if until <= self.paused_until {
            return None;
        }
        let mut next = Self { revision: self.revision.next(), paused_until: until, ..self.clone() };
        if next.line.gap_ms > 0 {
            next.line.pause(until, now);
        }
        Some(next)
    }
}

/// Between what a limit moves that follows how calls fare; `None`: it does not.
fn bounds(limits: Limits) -> Option<Bounds> {
    limits.least.zip(limits.in_flight).map(|(least, most)| Bounds { least, most })
}
