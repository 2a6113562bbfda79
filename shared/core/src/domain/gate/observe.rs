//! Observations: a limiter takes in what calls and people did, and says right before a call whether it may go.
//!
//! Each function returns the limiter to write, or `None` if nothing changes.

use super::breaker::rarely;
use super::outbox::Sent;
use super::pauses::Pause;
use super::{Admission, FailureClass, Gate, OPENS_AFTER};
use crate::domain::id::{BatchId, Target};
use crate::domain::outcome::Failure;
use crate::domain::time::Timestamp;

/// A limiter's answer right before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// The call may be made.
    Go,
    /// It has closed meanwhile, until then if that is known.
    Closed(Option<Timestamp>),
}

/// A route's settings for failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// A pause that `Retry-After` asks for is no longer, in milliseconds.
    pub longest_pause_ms: u64,
    /// Set if people are notified of outages.
    pub notifies: bool,
}

impl Gate {
    /// Returns this limiter changed so, written for this batch if for one.
    fn changed(&self, by: Option<&BatchId>, change: impl FnOnce(&mut Self)) -> Option<Self> {
        let mut next = self.clone();
        change(&mut next);
        let (revision, latest) = (self.revision.next(), by.map(ToString::to_string));
        (next != *self).then_some(Self { revision, latest, ..next })
    }

    /// Returns what it says to a batch that it has let through, right before the call.
    pub fn says_now(&self, batch: &BatchId, now: Timestamp) -> Now {
        if self.paused_until > now {
            Now::Closed(Some(self.paused_until))
        } else if self.pauses.all.is_some() || !self.breaker.allows(batch, now) {
            Now::Closed(None)
        } else {
            Now::Go
        }
    }

    /// Observes that a call of `batch` failed, under the key `call`; says what that means to the batch.
    pub fn failed(
        &self,
        (call, batch): (&BatchId, &BatchId),
        failure: &Failure,
        policy: BreakerPolicy,
        now: Timestamp,
    ) -> (Option<Self>, FailureClass) {
        let mut class = FailureClass::unobserved(now);
        let next = self.changed(Some(batch), |next| {
            class = next.breaker.failed(call, batch, failure, now);
            if let Some(streak) = &next.breaker.streak {
                if class.begins_outage && policy.notifies {
                    next.outbox.began(streak.since, streak.reason.clone(), now);
                }
                // Probes would be paid for, too, and answered alike.
                if streak.unreadable >= OPENS_AFTER {
                    next.pauses.all.get_or_insert_with(|| Pause::by_settings(&failure.reason, now));
                }
            }
            if let Some(asked_ms) = failure.retry_after_ms {
                let until = now.plus_ms(asked_ms.min(policy.longest_pause_ms));
                let (from, to) = class.back.unwrap_or((until, until));
                class.back = Some((from.max(until), to.max(until)));
                next.paused_until = next.paused_until.max(until);
            }
        });
        (next, class)
    }

    /// Observes, as a route's limiter, that a call failed which is alone on its Target, whose limiter has the breaker;
    /// says whether an earlier failure of that call was its own fault.
    pub fn suspected(&self, call: &BatchId, failure: &Failure, now: Timestamp) -> (Option<Self>, bool) {
        let mut is_own_fault = false;
        let suspect = |next: &mut Self| is_own_fault = next.breaker.suspect(call, failure, now).is_own_fault;
        (self.changed(Some(call), suspect), is_own_fault)
    }

    /// Observes that a call under this key was answered.
    pub fn answered(&self, call: &BatchId, now: Timestamp) -> Option<Self> {
        self.breaker.streak.as_ref()?;
        self.changed(Some(call), |next| {
            next.breaker.answered(call, now);
            next.outbox.ended(now);
        })
    }

    /// Observes that a batch ended without a call: if it was to make the probe, another one may.
    pub fn ended_uncalled(&self, batch: &BatchId, now: Timestamp) -> Option<Self> {
        self.changed(Some(batch), |next| next.breaker.abandon_probe(batch, now))
    }

    /// Observes which notices of outages were sent.
    pub fn notified(&self, sent: &[Sent], now: Timestamp) -> Option<Self> {
        self.changed(None, |next| next.outbox.sent(sent, now))
    }

    /// Pauses all calls until a person lets them go on.
    pub fn held(&self, reason: Option<String>, now: Timestamp) -> Option<Self> {
        self.changed(None, |next| next.pauses.pause(reason, now))
    }

    /// Pauses, in a route's limiter, the calls of one of its Targets.
    pub fn target_held(&self, target: &Target, reason: Option<String>, now: Timestamp) -> Option<Self> {
        self.changed(None, |next| next.pauses.pause_target(target, reason, now))
    }

    /// Ends, in a route's limiter, the pause of one of its Targets.
    pub fn target_resumed(&self, target: &Target) -> Option<Self> {
        self.changed(None, |next| {
            let was_paused = next.pauses.targets.remove(target).is_some();
            if was_paused && next.breaker.outage().is_none() {
                // No call may have been made since those failures.
                next.breaker.streak = None;
            }
        })
    }

    /// Lets calls through again, whatever kept them. What waited goes on, at first slowly.
    pub fn resumed(&self, now: Timestamp) -> Option<Self> {
        let is_open = self.pauses.all.is_none() && self.breaker.streak.is_none() && self.paused_until <= now;
        self.changed(None, |next| {
            if !is_open {
                next.breaker.close(now);
                (next.pauses.all, next.pauses.resumed) = (None, Some(now));
                next.outbox.ended(now);
                next.paused_until = next.paused_until.min(now);
            }
        })
    }

    /// Returns what this limiter of a route says to a batch whose Target a person has paused.
    pub fn holds_back(&self, target: &Target, now: Timestamp) -> Option<Admission> {
        self.pauses.targets.get(target).map(|pause| Admission::paused(pause, now))
    }

    /// Returns since when what waited goes on slowly, if it still does.
    pub fn drains_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.breaker.recovering(now)
    }

    /// Lets calls of a Target go on as slowly as its route's have done since then.
    pub fn drains_with(&self, since: Timestamp) -> Option<Self> {
        self.changed(None, |next| next.breaker.recovering_since = next.breaker.recovering_since.max(Some(since)))
    }
}

impl Admission {
    pub(super) fn paused(pause: &Pause, now: Timestamp) -> Self {
        Self::Away { gate: None, back: rarely(pause.since, now, now), outage: None }
    }
}
