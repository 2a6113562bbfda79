//! What a gate hears of the calls behind it and of people, and what it says right before a call.

use super::health::rarely;
use super::news::{self, Tried};
use super::{Admission, Gate, Health, Setback};
use crate::domain::id::{BatchId, Target};
use crate::domain::outcome::Failure;
use crate::domain::time::Timestamp;

/// What a gate says right before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// The call may be made.
    Go,
    /// It has closed meanwhile, until then if that is known.
    Closed(Option<Timestamp>),
}

/// What a route says of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heeds {
    /// A pause that `Retry-After` asks for is no longer, in milliseconds.
    pub longest_pause_ms: u64,
    /// Whether people are told of outages.
    pub tells: bool,
}

impl Gate {
    /// What it says to a batch that it has let through, right before the call.
    pub fn says_now(&self, batch: &BatchId, now: Timestamp) -> Now {
        let is_probe = |(prober, until): &(BatchId, Timestamp)| prober == batch && *until > now;
        let is_away = self.health.outage().is_some_and(|outage| !outage.prober.as_ref().is_some_and(is_probe));
        if self.paused_until > now {
            Now::Closed(Some(self.paused_until))
        } else if is_away || self.health.held.is_some() {
            Now::Closed(None)
        } else {
            Now::Go
        }
    }

    /// This gate once a call of `batch` failed, under the key `call`, and what that means to the batch.
    pub fn failed(
        &self,
        (call, batch): (&BatchId, &BatchId),
        failure: &Failure,
        heeds: Heeds,
        now: Timestamp,
    ) -> (Option<Self>, Setback) {
        let (health, mut setback) = self.health.failed(call, batch, failure, now);
        let is_news = setback.begins_outage && heeds.tells;
        let health = health.map(|health| if is_news { health.with_news(now) } else { health });
        let asked = failure.retry_after_ms.map(|ms| now.plus_ms(ms.min(heeds.longest_pause_ms)));
        let paused = asked.and_then(|until| self.paused(until));
        if let Some(until) = asked {
            let (from, to) = setback.back.unwrap_or((until, until));
            setback.back = Some((from.max(until), to.max(until)));
        }
        let next = match (health, paused) {
            (None, paused) => paused,
            (Some(health), Some(paused)) => Some(Self { health, latest: Some(batch.to_string()), ..paused }),
            (Some(health), None) => Some(Self { health, ..self.written_for(batch) }),
        };
        (next, setback)
    }

    /// This gate of a route, once a call under this key failed that is alone on its Target, whose gate has the breaker;
    /// and how many earlier failures of it were its own.
    pub fn suspected(&self, call: &BatchId, failure: &Failure, now: Timestamp) -> (Option<Self>, u32) {
        let (health, counted) = self.health.suspected(call, failure, now);
        (health.map(|health| Self { health, ..self.written_for(call) }), counted)
    }

    /// This gate once a call under this key was answered, or `None` if that is no news.
    pub fn answered(&self, call: &BatchId, now: Timestamp) -> Option<Self> {
        Some(Self { health: self.health.answered(call, now)?, ..self.written_for(call) })
    }

    /// This gate once somebody has tried to tell people these things, or `None` if that is no news.
    pub fn announced(&self, tried: &[Tried], now: Timestamp) -> Option<Self> {
        let news = news::announced(&self.health.news, tried, now)?;
        Some(self.turned(Health { news, ..self.health.clone() }))
    }

    /// This gate, closed by a person until a person opens it, or `None` if it is.
    pub fn held(&self, reason: Option<String>, now: Timestamp) -> Option<Self> {
        Some(self.turned(self.health.held(reason, now)?))
    }

    /// This gate of a route, closed by a person to one of its Targets, or `None` if it is.
    pub fn target_held(&self, target: &Target, reason: Option<String>, now: Timestamp) -> Option<Self> {
        Some(self.turned(self.health.target_held(target, reason, now)?))
    }

    /// This gate of a route, open again to a Target, or `None` if it is.
    pub fn target_resumed(&self, target: &Target) -> Option<Self> {
        Some(self.turned(self.health.target_resumed(target)?))
    }

    /// What this gate of a route says to a batch whose Target a person holds back; `None` if nobody does.
    pub fn holds_back(&self, target: &Target, now: Timestamp) -> Option<Admission> {
        let held = self.health.targets.get(target)?;
        Some(Admission::Away { gate: None, back: rarely(held.since, now, now), outage: None })
    }

    /// Since when what waited goes on slowly, if it still does.
    pub fn drains_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.health.drains_at(now)
    }

    /// This gate of a Target, which goes on as slowly as that of its route does since then, or `None` if it does.
    pub fn drains_with(&self, since: Timestamp) -> Option<Self> {
        let is_news = self.health.drains < Some(since);
        is_news.then(|| self.turned(Health { drains: Some(since), ..self.health.clone() }))
    }

    fn turned(&self, health: Health) -> Self {
        Self { health, latest: None, revision: self.revision.next(), ..self.clone() }
    }

    /// This gate, which a person has let calls through again, whatever kept them, or `None` if nothing did. What waited
    /// goes on, at first slowly.
    pub fn resumed(&self, now: Timestamp) -> Option<Self> {
        let health = self.health.resumed(now);
        if health.is_none() && self.paused_until <= now {
            return None;
        }
        let mut next = self.turned(health.unwrap_or_else(|| Health { drains: Some(now), ..self.health.clone() }));
        next.paused_until = next.paused_until.min(now);
        Some(next)
    }
}
