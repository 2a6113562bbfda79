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
//! - *Places in flight* become free when calls end. There, also beside a rate, the times are an estimate by how long
//!   calls held their places so far ([`Ends`]), and before one has ended by the [`Pace`] at which places were taken.
//!   Those whose time has come take places in the order of their tickets, and with each the estimate for the others
//!   begins anew.
//!
//! Waiting at a gate is no failure: no attempt is counted.
//!
//! A gate also knows how its calls fare, in its [`Health`]: whether its downstream is away, and whether a person holds
//! calls back. That comes before all limits.

mod admission;
mod classes;
mod ends;
mod health;
mod heard;
mod line;
mod news;
mod pace;
mod share;
#[cfg(test)]
mod sharing;
mod standing;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::{BatchId, Revision, RouteName, SessionId, Target};
use super::time::Timestamp;
pub use admission::{Admission, Asks};
pub use classes::Class;
pub use ends::{Ends, LOOK_MS};
pub use health::{
    Alone, Health, Held, LONGEST_WAIT_MS, MOST_HELD, OUTAGE_AFTER, Outage, PROBE_PAUSES_MS, Run, Setback,
};
pub use heard::{Heeds, Now};
pub use line::{Line, Shift};
pub use news::{Event, News, Tried};
pub use pace::Pace;
pub use share::{MOST_WEIGHT, Share, Shares, Stretch};
pub use standing::Standing;

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
    /// Milliseconds from one call's start to the next; `None` is no limit.
    pub gap_ms: Option<u64>,
    /// Whose share of the line the batch's ticket is; `None`: tickets are numbered as batches come.
    pub share: Option<Share>,
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
    /// Whose tickets of the line they are, where Targets share it.
    pub shares: Shares,
    /// All call times before this one are taken, where places are limited as well as the rate.
    pub next_start: Timestamp,
    /// The first ticket whose turn for a place has not been used.
    pub turn: u64,
    /// How fast places become free.
    pub pace: Pace,
    /// How early calls give them back.
    pub ends: Ends,
    /// For which batch it was written last, and by which session: without it, two that reserve one time, or one place,
    /// would write the same, and each would take the other's write for its own.
    pub latest: Option<String>,
    /// How its calls fare.
    pub health: Health,
}

/// A batch whose time is at most so far ahead waits for it in place, in milliseconds. Any other comes back instead.
pub const IN_PLACE_MS: u64 = 1_500;

impl Gate {
    fn written_for(&self, batch: &BatchId) -> Self {
        Self { revision: self.revision.next(), latest: Some(batch.to_string()), ..self.clone() }
    }

    /// This gate as this session writes it: another one may ask for the same batch in the same moment.
    #[must_use]
    pub fn written_by(self, session: &SessionId) -> Self {
        Self { latest: self.latest.map(|batch| format!("{batch} {session}")), ..self }
    }

    /// Until when the place of `batch` lasts, if it has one whose lease is not over.
    #[must_use]
    pub fn lease(&self, batch: &BatchId, now: Timestamp) -> Option<Timestamp> {
        self.in_flight.get(batch).copied().filter(|lease| *lease > now)
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

    /// As [`left`](Self::left); if that is for a call that has ended then, those that wait judge by it.
    #[must_use]
    pub fn given_back(&self, batch: &BatchId, lease: Timestamp, ended: Option<Timestamp>) -> Option<Self> {
        let left = self.left(batch, lease)?;
        Some(Self { ends: ended.map_or(self.ends, |ended| self.ends.and(lease, ended)), ..left })
    }

    /// This gate without `batch` in flight, or `None` if it is not.
    #[must_use]
    pub fn without(&self, batch: &BatchId) -> Option<Self> {
        let mut next = self.written_for(batch);
        next.in_flight.remove(batch)?;
        Some(next)
    }

    /// Until when something in it lasts: its item expires some time after that.
    #[must_use]
    pub fn lasts_until(&self, now: Timestamp) -> Timestamp {
        let leases = self.in_flight.values().copied();
        let others = [self.paused_until, self.line.next_at, self.health.lasts_until(now)];
        leases.chain(others).fold(now, Timestamp::max)
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
