//! A circuit breaker (Michael T. Nygard, *Release It!*): closed, open, half-open, and a slow start after that.
//!
//! ```text
//!          OPENS_AFTER failures without an answer, or one that is ours      a probe is due
//!   closed ─────────────────────────────────────────────────────────▶ open ───────────────▶ half-open
//!     ▲                                                                 ▲  the probe fails     │  │
//!     │                                                                 └──────────────────────┘  │
//!     └─────────────── the probe is answered: calls recover, slowly at first ─────────────────────┘
//! ```
//!
//! A failure here says nothing about the tasks: no answer, or one such as 503. A *failure streak* is what failed since
//! the last answer. A half-open breaker lets one batch call, the *probe*. It has a lease, so that a prober whose worker
//! dies costs that lease. Any batch that asks when a probe is due makes it. The batch whose probe failed comes back for
//! the next one. Each batch that waits beside it reserves a time to come back, 15 seconds after the one before it: a
//! batch that never comes costs these seconds. A batch that finds no such time soon comes back rarely.
//!
//! *Whose fault.* A streak of one call alone, which an answer to another call ended, was about that call. The breaker
//! remembers the call, and counts this failure when it fails again. All other failures are excused. So a batch that
//! crashes the downstream uses up its attempts while others are answered, and in an outage no batch does. Where each
//! Target has a breaker of its own, the route's breaker observes calls that fail alone on their Target, too: if a
//! Target has just one batch, only other Targets' answers tell whether the downstream answers.
//!
//! Nothing is written while all calls are answered. If a breaker is lost, a failure more is excused.

mod recovery;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::domain::id::BatchId;
use crate::domain::outcome::{Failure, Fault, Reason};
use crate::domain::time::Timestamp;

/// A circuit breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Breaker {
    /// The state: closed, open or half-open.
    pub state: State,
    /// The failures since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streak: Option<Streak>,
    /// The time when it closed, or a person let calls go on: from then on they start slowly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovering_since: Option<Timestamp>,
    /// Calls whose last failure was their own fault, and is not counted yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_faults: Vec<BatchId>,
}

/// The state of a circuit breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Calls are made.
    #[default]
    Closed,
    /// No call is made until a probe is due.
    Open(Outage),
    /// One batch makes a call.
    HalfOpen(Outage, Probe),
}

/// A failure streak: failures without an answer between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Streak {
    /// The time of the first of them.
    pub since: Timestamp,
    /// Their number; of an open breaker only those of probes are counted.
    pub failures: u32,
    /// The reason of the last one.
    pub reason: Reason,
    /// The last answers in a row that the route's settings could not read.
    pub unreadable: u32,
    /// The call's key, if all of them were of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<BatchId>,
}

/// A downstream that counts as away, and when it is probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Outage {
    /// The time when the breaker opened.
    pub since: Timestamp,
    /// The number of probes that have begun.
    pub probes: u32,
    /// No probe begins before.
    pub next_probe: Timestamp,
    /// The last reserved time at which a batch comes back.
    pub last_return: Timestamp,
}

/// A call that finds out whether the downstream is back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Probe {
    /// The batch that makes it.
    pub batch: BatchId,
    /// The end of its lease.
    pub until: Timestamp,
}

/// The class of a failure, as its batch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureClass {
    /// Set if a failure of this call was its own fault: an earlier one that was not counted yet, or this one.
    pub is_own_fault: bool,
    /// The time since which no call was answered.
    pub since: Timestamp,
    /// The earliest and the latest time to come back, if the limiter says so.
    pub back: Option<(Timestamp, Timestamp)>,
    /// Set if the breaker opens with it.
    pub begins_outage: bool,
    /// Set if no other call has failed since the last answer.
    pub is_alone: bool,
}

impl FailureClass {
    /// Returns what is known of a failure that no breaker observes.
    pub const fn unobserved(now: Timestamp) -> Self {
        Self { is_own_fault: false, since: now, back: None, begins_outage: false, is_alone: false }
    }
}

/// A breaker's decision for a batch that asks to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It may be called.
    Allow,
    /// It may be called as the probe, once that is written.
    Probe,
    /// It comes back between these times.
    Wait(Timestamp, Timestamp),
}

/// The breaker opens after this many failures without an answer between them.
pub const OPENS_AFTER: u32 = 5;
/// The pauses before the first probes, in milliseconds; the last one is that before all others.
pub const PROBE_PAUSES_MS: [u64; 3] = [15_000, 30_000, 60_000];
/// This many calls are remembered whose failure was their own fault.
const MOST_OWN_FAULTS: usize = 16;
/// A batch that waits comes back after so long at least, and reserved times are so far apart, in milliseconds,
const SHORTEST_WAIT_MS: u64 = 15_000;
/// and after so long at most: SQS delays no message for longer than 15 minutes.
pub const LONGEST_WAIT_MS: u64 = 14 * 60_000;
/// A batch comes within so long after the time that it has reserved, in milliseconds.
const SPREAD_MS: u64 = 1_000;

impl Breaker {
    /// Returns the outage, if the downstream counts as away.
    pub const fn outage(&self) -> Option<&Outage> {
        match &self.state {
            State::Closed => None,
            State::Open(outage) | State::HalfOpen(outage, _) => Some(outage),
        }
    }

    /// Returns whether this batch may be called now without another write.
    pub(super) fn allows(&self, batch: &BatchId, now: Timestamp) -> bool {
        match &self.state {
            State::Closed => true,
            State::Open(_) => false,
            State::HalfOpen(_, probe) => probe.batch == *batch && probe.until > now,
        }
    }

    /// Decides for a batch that asks to be called; its probe would take until `lease_until`.
    pub(super) fn decide(&mut self, batch: &BatchId, now: Timestamp, lease_until: Timestamp) -> Decision {
        let is_allowed = self.allows(batch, now);
        let (outage, is_probed) = match &mut self.state {
            State::Open(outage) => (outage, false),
            State::HalfOpen(outage, probe) if !is_allowed => (outage, probe.until > now),
            State::Closed | State::HalfOpen(..) => return Decision::Allow,
        };
        if is_probed || outage.next_probe > now {
            let (from, to) = outage.reserve_return(now);
            return Decision::Wait(from, to);
        }
        let probe = Probe { batch: batch.clone(), until: lease_until };
        self.state = State::HalfOpen(outage.probed(now), probe);
        Decision::Probe
    }

    /// Observes that a call failed under the key `call`, that of `batch` or of a part of it.
    pub(super) fn failed(
        &mut self,
        call: &BatchId,
        batch: &BatchId,
        failure: &Failure,
        now: Timestamp,
    ) -> FailureClass {
        let is_probe = matches!(&self.state, State::HalfOpen(_, probe) if probe.batch == *batch);
        if let Some(outage) = self.outage().filter(|_| !is_probe) {
            // It began before the breaker opened, and changes nothing except that the streak is not of one call.
            let back = Some(rarely(outage.since, now, now));
            return FailureClass { back, ..self.suspect(call, failure, now) };
        }
        let mut class = self.suspect(call, failure, now);
        self.recovering_since = self.recovering(now);
        let Some(streak) = &mut self.streak else { return class };
        streak.failures += 1;
        streak.reason = failure.reason.clone();
        streak.unreadable = if failure.fault == Fault::Settings { streak.unreadable + 1 } else { 0 };
        let opens = streak.failures >= OPENS_AFTER || failure.fault == Fault::Ours;
        class.begins_outage = opens && self.outage().is_none();
        let outage = self.outage().cloned().or_else(|| opens.then(|| Outage::begin(now)));
        if let Some(outage) = outage {
            // It makes the next probe, if none of those that have reserved a time is sooner.
            let at = outage.next_probe.max(now.plus_ms(SPREAD_MS));
            class.back = Some((at, at.plus_ms(SPREAD_MS)));
            self.state = State::Open(outage);
        }
        class
    }

    /// Notes whose failures a streak has, which begins if there is none. This failure is not counted: answers to other
    /// calls tell whether it is the call's own fault.
    pub(super) fn suspect(&mut self, call: &BatchId, failure: &Failure, now: Timestamp) -> FailureClass {
        let is_own_fault = self.own_faults.contains(call);
        self.own_faults.retain(|own| own != call);
        let streak = self.streak.get_or_insert_with(|| Streak {
            since: now,
            failures: 0,
            reason: failure.reason.clone(),
            unreadable: 0,
            call: Some(call.clone()),
        });
        streak.call.take_if(|of| of != call);
        let (since, is_alone) = (streak.since, streak.call.is_some());
        FailureClass { is_own_fault, since, is_alone, ..FailureClass::unobserved(now) }
    }

    /// Observes that a call was answered, whatever the answer said.
    pub(super) fn answered(&mut self, call: &BatchId, now: Timestamp) {
        let Some(streak) = self.streak.take() else { return };
        let alone = streak.call.filter(|of| of != call);
        self.own_faults.retain(|own| own != call && Some(own) != alone.as_ref());
        self.own_faults.extend(alone);
        self.own_faults.drain(..self.own_faults.len().saturating_sub(MOST_OWN_FAULTS));
        self.recovering_since = if self.outage().is_some() { Some(now) } else { self.recovering(now) };
        self.state = State::Closed;
    }

    /// Makes the probe of this batch due again, since the batch ended without a call.
    pub(super) fn abandon_probe(&mut self, batch: &BatchId, now: Timestamp) {
        if let State::HalfOpen(outage, probe) = &self.state
            && probe.batch == *batch
        {
            self.state = State::Open(Outage { next_probe: now, ..outage.clone() });
        }
    }

    /// Closes: a person lets calls go on.
    pub(super) fn close(&mut self, now: Timestamp) {
        (self.state, self.streak, self.recovering_since) = (State::Closed, None, Some(now));
    }
}

impl Outage {
    fn begin(now: Timestamp) -> Self {
        Self { since: now, probes: 0, next_probe: now.plus_ms(PROBE_PAUSES_MS[0]), last_return: now }
    }

    fn probed(&self, now: Timestamp) -> Self {
        let probes = self.probes + 1;
        let [.., longest] = PROBE_PAUSES_MS;
        let pause_ms = PROBE_PAUSES_MS.get(probes as usize).copied().unwrap_or(longest);
        Self { probes, next_probe: now.plus_ms(pause_ms), ..self.clone() }
    }

    /// Reserves a time at which a batch comes back for a probe, unless it comes back before that anyway.
    fn reserve_return(&mut self, now: Timestamp) -> (Timestamp, Timestamp) {
        let (from, to) = rarely(self.since, now, self.next_probe);
        let at = self.next_probe.max(self.last_return.plus_ms(SHORTEST_WAIT_MS)).max(now.plus_ms(SPREAD_MS));
        if at > to {
            return (from, to);
        }
        self.last_return = at;
        (at, at.plus_ms(SPREAD_MS))
    }
}

/// Returns when a batch comes back: the longer something has lasted, the later, and not all at once.
pub(super) fn rarely(since: Timestamp, now: Timestamp, not_before: Timestamp) -> (Timestamp, Timestamp) {
    let wait_ms = now.since(since).clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS);
    let from = not_before.max(now.plus_ms(wait_ms / 2));
    (from, from.max(now.plus_ms(wait_ms)))
}
