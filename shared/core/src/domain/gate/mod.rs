//! Limiters of calls: how many are in flight, how many start in a time, and none during a pause.
//!
//! Each scope has one limiter and each limiter one item, so one conditional write admits a call. A pause is what the
//! downstream asked for with `Retry-After`, written down for all workers.
//!
//! A limiter is a [rate limiter](rate), a [semaphore], a [wait queue](queue) and a circuit breaker. A batch that has to
//! wait takes a [`Ticket`] of the wait queue. It comes back when it expects its turn, and asks again: each admission is
//! one conditional write, and nothing is promised more than a moment ahead. So a pause, or a changed limit, holds for
//! all that wait from the next time they ask, and a ticket that no batch comes with costs its own turn only.
//!
//! Waiting at a gate is no failure: no attempt is counted.
//!
//! A person's pause and the circuit [breaker](Breaker) come before all limits. Notices of outages wait in the limiter's
//! [outbox](OutageOutbox).

mod admission;
mod breaker;
mod call_state;
mod classes;
mod observe;
mod outbox;
mod pauses;
pub mod queue;
pub mod rate;
pub mod semaphore;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::id::{BatchId, LimitName, Revision, RouteName, SessionId, Target, digest};
use super::time::Timestamp;
pub use admission::{Admission, Asks};
pub use breaker::{Breaker, FailureClass, LONGEST_WAIT_MS, OPENS_AFTER, PROBE_PAUSES_MS};
pub use call_state::CallState;
pub use classes::Class;
pub use observe::{BreakerPolicy, Now};
pub use outbox::{Event, OutageOutbox, OutboxEntry, Sent};
pub use pauses::{MOST_PAUSED, Pauses};
pub use queue::{Flow, MOST_WEIGHT, Share, WaitQueue};
pub use rate::{MOST_RATES, Rate, RateLimiter, Rates, Unit};
pub use semaphore::{LOOK_MS, Semaphore};

/// What a gate stands before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All calls of a route.
    Route(RouteName),
    /// The calls for one Target.
    Target(Target),
    /// The calls of all routes that name this limit. It has permits and rates, and neither a breaker nor pauses.
    Limit(LimitName),
}

impl Scope {
    /// The key of the gate's item. It lies in the lock table; no Target starts with `#`, because a route's name cannot.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Route(route) => format!("#route:{route}"),
            Self::Target(target) => format!("#target:{target}"),
            Self::Limit(limit) => format!("#limit:{limit}"),
        }
    }

    /// Whose calls these are, or that of the Target; `None`: those of several routes.
    #[must_use]
    pub fn route(&self) -> Option<RouteName> {
        match self {
            Self::Route(route) => Some(route.clone()),
            Self::Target(target) => Some(target.route()),
            Self::Limit(_) => None,
        }
    }

    /// The scope that has this [key](Self::key).
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        let (kind, name) = key.split_once(':')?;
        match kind {
            "#route" => Some(Self::Route(RouteName::new(name))),
            "#target" => Some(Self::Target(Target::new(name))),
            "#limit" => Some(Self::Limit(LimitName::new(name))),
            _ => None,
        }
    }

    /// Whose calls it counts.
    #[must_use]
    pub fn of(&self) -> Of {
        match self {
            Self::Route(_) => Of::Route,
            Self::Target(_) => Of::Target,
            Self::Limit(limit) => Of::limit(limit),
        }
    }
}

/// At which of its gates a batch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Of {
    /// Its route's.
    Route,
    /// Its Target's.
    Target,
    /// That of a named limit, by a hash of its name: its place among others changes with the routes file.
    Limit(u32),
}

impl Of {
    fn limit(name: &LimitName) -> Self {
        let hash = digest(&[name.as_str()]);
        Self::Limit(hash.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default())
    }
}

// A text: a later version may add a field to each object of a message, and an object with one key for its variant would
// not be read any more.
impl From<Of> for String {
    fn from(of: Of) -> Self {
        match of {
            Of::Route => "route".to_owned(),
            Of::Target => "target".to_owned(),
            Of::Limit(hash) => format!("limit-{hash:08x}"),
        }
    }
}

impl TryFrom<String> for Of {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let limit = || u32::from_str_radix(text.strip_prefix("limit-")?, 16).ok().map(Self::Limit);
        match text.as_str() {
            "route" => Ok(Self::Route),
            "target" => Ok(Self::Target),
            _ => limit().ok_or_else(|| format!("`{text}` is no gate of a batch")),
        }
    }
}

/// A batch's turn in the wait queue of a gate. The batch's message carries it, and the batch itself during a long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Ticket {
    /// At which gate.
    pub of: Of,
    /// Its tag.
    pub number: u64,
    /// Calls that the batch had made when it got it: a ticket is good for one call.
    pub attempts: u32,
}

/// What a gate lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight; `None` is no limit.
    pub in_flight: Option<usize>,
    /// The rates at which calls start.
    pub rates: Rates,
    /// Which flow of the wait queue the batch belongs to; `None`: batches are called in order of arrival.
    pub share: Option<Share>,
}

/// A gate as its item holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Rises with every write.
    pub revision: Revision,
    /// The permits of calls in flight.
    pub permits: Semaphore,
    /// No call starts before.
    pub paused_until: Timestamp,
    /// When the next call may start.
    pub rate: RateLimiter,
    /// Those that wait.
    pub queue: WaitQueue,
    /// The batch that it was written for last, and the session that wrote it: without it, two that reserve one start,
    /// or one permit, would write the same, and each would take the other's write for its own.
    pub latest: Option<String>,
    /// Set if its downstream is away.
    pub breaker: Breaker,
    /// A person's pauses.
    pub pauses: Pauses,
    /// Notices of outages that are unsent.
    pub outbox: OutageOutbox,
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

    /// Returns until when the permit of `batch` lasts, if its lease is not over.
    #[must_use]
    pub fn lease(&self, batch: &BatchId, now: Timestamp) -> Option<Timestamp> {
        self.permits.lease(batch, now)
    }

    /// Whether `batch` is in flight.
    #[must_use]
    pub fn counts(&self, batch: &BatchId) -> bool {
        self.permits.leases.contains_key(batch)
    }

    /// This gate with the permit of `batch` lasting until then, or `None` if it has none, or as long already.
    #[must_use]
    pub fn kept(&self, batch: &BatchId, until: Timestamp) -> Option<Self> {
        self.permits.leases.get(batch).filter(|lease| **lease < until)?;
        let mut next = self.written_for(batch);
        next.permits.leases.insert(batch.clone(), until);
        Some(next)
    }

    /// This gate once the permit that `batch` has until `lease` is given back, or `None` if it has none, or a later
    /// one, which another worker renewed. If its call has ended then, those that wait judge by it.
    #[must_use]
    pub fn given_back(&self, batch: &BatchId, lease: Timestamp, ended: Option<Timestamp>) -> Option<Self> {
        let mut next = self.written_for(batch);
        next.queue.moved = ended.unwrap_or(next.queue.moved);
        next.permits.release(batch, lease, ended).then_some(next)
    }

    /// This gate with the permit that `batch` has until `lease` held until then by its `call`, which timed out and may
    /// still be at work; `None` if it has none, or a later one.
    #[must_use]
    pub fn kept_by_call(&self, (batch, lease): (&BatchId, Timestamp), call: BatchId, until: Timestamp) -> Option<Self> {
        let mut next = self.written_for(batch);
        next.permits.release(batch, lease, None).then(|| next.permits.leases.insert(call, until))?;
        Some(next)
    }

    /// This gate without `batch` in flight, or `None` if it is not.
    #[must_use]
    pub fn without(&self, batch: &BatchId) -> Option<Self> {
        self.given_back(batch, Timestamp(u64::MAX), None)
    }

    /// Until when something in it lasts: its item expires some time after that.
    #[must_use]
    pub fn lasts_until(&self, now: Timestamp) -> Timestamp {
        let leases = self.permits.leases.values().copied();
        const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
        // A person's pause ends by a person. An unsent notice is kept as long as a queue keeps messages.
        let kept_days = match (self.pauses.is_empty(), self.outbox.entries.iter().any(|one| one.unsent().is_some())) {
            (false, _) => 10 * 365,
            (true, true) => 14,
            (true, false) => 0,
        };
        let others = [self.paused_until, self.rate.lasts_until(), now.plus_ms(kept_days * DAY_MS)];
        leases.chain(others).fold(now, Timestamp::max)
    }

    /// This gate, closed until then, or `None` if it is closed for as long already. All that wait come later.
    #[must_use]
    pub fn paused(&self, until: Timestamp) -> Option<Self> {
        if until <= self.paused_until {
            return None;
        }
        Some(Self { revision: self.revision.next(), paused_until: until, ..self.clone() })
    }
}
