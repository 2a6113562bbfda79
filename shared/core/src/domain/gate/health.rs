//! How the calls behind a gate fare: whether the downstream is away, whose fault a failure is, and a person's pause.
//!
//! ```text
//!          failure              OUTAGE_AFTER failures, or one that is ours
//!   well ──────────▶ in trouble ──────────────────────────────────────────▶ away ──┐ a probe fails:
//!    ▲ ▲                 │ any answer                                         │  ◀──┘ the next one comes later
//!    │ └─────────────────┘                                                    │ a probe is answered
//!    └──────────────────────────── draining ◀─────────────────────────────────┘
//! ```
//!
//! A failure here says nothing about the tasks: no answer, or one such as 503. A *run* is what failed since the last
//! answer. During an *outage* one batch at a time makes a call, the *probe*. It has a lease, so that a prober whose
//! worker dies costs that lease. A batch that waits beside it is its *heir* and makes the next probe; all others come
//! back rarely.
//!
//! *Whose fault.* A run that one call made alone, and that an answer to another call ended, was about that call: it is
//! written down as *alone*, and counts when that call fails again. All other failures are excused. So a batch that
//! crashes the downstream uses up its attempts while others are answered, and in an outage no batch does. Where each
//! Target has a breaker of its own, the gate of the route hears of calls that fail alone on their Target, too: a Target
//! that has just one batch has nobody else to tell whether the downstream answers.
//!
//! *Settings.* Answers that the route's settings cannot read were paid for. As many in a row as begin an outage close
//! the gate as a person does, until a person opens it: probes would be paid for, too, and answered alike.
//!
//! Nothing is written while all is well. A gate that is lost or forgets excuses a failure more, and an outage of
//! which it had still to tell is not told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Limits;
use super::news::{self, News};
use crate::domain::id::{BatchId, Target};
use crate::domain::outcome::{Failure, Fault, Reason};
use crate::domain::time::Timestamp;

/// How the calls behind a gate fare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Health {
    /// What failed since the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Calls that failed while others were answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Alone>,
    /// Since when what waited goes on, at first slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drains: Option<Timestamp>,
    /// A person's pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// When a person let calls go on last: no outage is older to those that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Timestamp>,
    /// A person's pauses of single Targets, in the gate of their route: every call reads that one anyway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<Target, Held>,
    /// What people are still to be told of outages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub news: Vec<News>,
}

/// Failures without an answer between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Run {
    /// When the first of them was.
    pub since: Timestamp,
    /// How many there were; during an outage only those of probes are counted.
    pub failures: u32,
    /// Why the last one failed.
    pub reason: Reason,
    /// How many answers in a row were none that the route's settings can read, the last one included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u32,
    /// The call's key, if all of them were of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<BatchId>,
    /// Set while the downstream counts as away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
}

/// A downstream that counts as away: one call at a time goes through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Outage {
    /// Since when.
    pub since: Timestamp,
    /// How many probes have begun.
    pub probes: u32,
    /// No probe begins before.
    pub next: Timestamp,
    /// The batch that makes one now, and until when it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prober: Option<(BatchId, Timestamp)>,
    /// The batch that comes for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heir: Option<BatchId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A call that failed while others were answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Alone {
    /// Its key.
    pub call: BatchId,
    /// In how many runs.
    pub runs: u32,
}

/// A pause that a person ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Held {
    /// Since when.
    pub since: Timestamp,
    /// What the person said who began it, or what is to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a failure means to its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setback {
    /// How many earlier failures of this call were its own fault, and were not counted yet.
    pub counted: u32,
    /// Since when nothing was answered.
    pub since: Timestamp,
    /// When to come back at the earliest and at the latest, if the gate says so.
    pub back: Option<(Timestamp, Timestamp)>,
    /// Whether the downstream counts as away from then on.
    pub begins_outage: bool,
    /// Whether no other call has failed since the last answer.
    pub is_alone: bool,
}

impl Setback {
    /// What is known if no gate was asked.
    pub const fn unheard(now: Timestamp) -> Self {
        Self { counted: 0, since: now, back: None, begins_outage: false, is_alone: false }
    }
}

/// What a batch hears that wants to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lets {
    /// It may go.
    Pass,
    /// It may go as the probe, once this is written.
    Probe(Health),
    /// It waits.
    Wait {
        /// To be written before: it is the heir.
        next: Option<Health>,
        /// When to come back at the earliest and at the latest.
        back: (Timestamp, Timestamp),
    },
}

/// After this many failures without an answer between them the downstream counts as away.
pub const OUTAGE_AFTER: u32 = 5;
/// The pauses before the first probes, in milliseconds; the last one is that before all others.
pub const PROBE_PAUSES_MS: [u64; 3] = [15_000, 30_000, 60_000];
/// This many Targets of a route can be held back one by one: a reason has 256 bytes, a gate's item at most 400 KB.
pub const MOST_HELD: usize = 100;
/// This many calls that failed alone are remembered.
const MOST_ALONE: usize = 16;
/// A batch that waits comes back after so long at least, in milliseconds,
const SHORTEST_WAIT_MS: u64 = 15_000;
/// and after so long at most: SQS delays no message for longer than 15 minutes.
pub const LONGEST_WAIT_MS: u64 = 14 * 60_000;
/// An heir, or a batch whose own probe failed, comes within so long after the time of the next one, in milliseconds.
const SPREAD_MS: u64 = 1_000;
/// The first calls after an outage start so far apart, in milliseconds; half as far after each step.
const FIRST_GAP_MS: u64 = 1_000;
/// How long a step takes, in milliseconds.
const STEP_MS: u64 = 5_000;
/// After this many steps nothing is held back any more: the gap is 2 ms by then.
const STEPS: u64 = 10;

impl Health {
    /// Whether nothing is to be remembered.
    pub fn is_well(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it waits for an answer: the worker that gets one writes that down.
    pub const fn is_in_trouble(&self) -> bool {
        self.run.is_some()
    }

    /// The outage, if the downstream counts as away.
    pub fn outage(&self) -> Option<&Outage> {
        self.run.as_ref()?.outage.as_ref()
    }

    /// Until when this must be kept.
    pub fn lasts_until(&self, now: Timestamp) -> Timestamp {
        const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
        const YEARS_MS: u64 = 10 * 365 * DAY_MS;
        const UNTOLD_MS: u64 = 14 * DAY_MS;
        // A pause by hand ends by hand.
        if self.held.is_some() || !self.targets.is_empty() {
            return now.plus_ms(YEARS_MS);
        }
        // As long as a queue keeps messages, what is to be told is kept.
        let is_untold = self.news.iter().any(|news| news.next().is_some());
        if is_untold { now.plus_ms(UNTOLD_MS) } else { now }
    }

    /// What a batch hears that wants to be called; its probe would take until `lease_until`.
    pub(super) fn lets(&self, batch: &BatchId, now: Timestamp, lease_until: Timestamp) -> Lets {
        if let Some(held) = &self.held {
            return Lets::Wait { next: None, back: rarely(held.since, now, now) };
        }
        let Some((run, outage)) = self.run.as_ref().and_then(|run| Some((run, run.outage.as_ref()?))) else {
            return Lets::Pass;
        };
        let probed = outage.prober.as_ref().filter(|(_, until)| *until > now);
        match probed {
            Some((prober, _)) if prober == batch => Lets::Pass,
            None if outage.next <= now => {
                Lets::Probe(self.with(run, Outage { heir: None, ..outage.probed_by(batch, now, lease_until) }))
            }
            Some(_) | None => match &outage.heir {
                Some(heir) if heir != batch => Lets::Wait { next: None, back: rarely(outage.since, now, outage.next) },
                heir => {
                    let inherits = || self.with(run, Outage { heir: Some(batch.clone()), ..outage.clone() });
                    let at = outage.next.max(now.plus_ms(SPREAD_MS));
                    Lets::Wait { next: heir.is_none().then(inherits), back: (at, at.plus_ms(SPREAD_MS)) }
                }
            },
        }
    }

    fn with(&self, run: &Run, outage: Outage) -> Self {
        Self { run: Some(Run { outage: Some(outage), ..run.clone() }), ..self.clone() }
    }

    /// A call failed under the key `call`, that of `batch` or of a part of it. `None`: nothing has to be written.
    pub(super) fn failed(
        &self,
        call: &BatchId,
        batch: &BatchId,
        failure: &Failure,
        now: Timestamp,
    ) -> (Option<Self>, Setback) {
        let (alone, counted) = self.without(call);
        let before = self.run.clone().unwrap_or_else(|| Run::before(call, failure, now));
        let of = before.of.clone().filter(|of| of == call);
        let setback = Setback { counted, since: before.since, is_alone: of.is_some(), ..Setback::unheard(now) };
        if let Some(outage) = before.outage.as_ref().filter(|outage| !outage.is_probed_by(batch)) {
            // It began before the outage did, and changes nothing except that the run is not of one call.
            let setback = Setback { back: Some(rarely(outage.since, now, now)), ..setback };
            return (self.suspected(call, failure, now).0, setback);
        }
        let failures = before.failures + 1;
        let begins_outage = before.outage.is_none() && (failures >= OUTAGE_AFTER || failure.fault == Fault::Ours);
        let outage = before.outage.clone().or_else(|| begins_outage.then(|| Outage::first(now)));
        let (outage, back) = outage.map(|outage| outage.failed_by(batch, now)).unzip();
        let unread = if failure.fault == Fault::Settings { before.unread + 1 } else { 0 };
        let held =
            self.held.clone().or_else(|| (unread >= OUTAGE_AFTER).then(|| Held::by_settings(&failure.reason, now)));
        let run = Run { failures, of, reason: failure.reason.clone(), unread, outage, ..before };
        let next = Self { run: Some(run), alone, drains: self.drains_at(now), held, ..self.clone() };
        (Some(next), Setback { back, begins_outage, ..setback })
    }

    /// A call failed that no outage begins with, and that no breaker is to hear of but this: whether others are
    /// answered tells whose fault it is. How many earlier failures were its own. `None`: nothing has to be written.
    pub(super) fn suspected(&self, call: &BatchId, failure: &Failure, now: Timestamp) -> (Option<Self>, u32) {
        let (alone, counted) = self.without(call);
        let before = self.run.clone().unwrap_or_else(|| Run { failures: 1, ..Run::before(call, failure, now) });
        let of = before.of.clone().filter(|of| of == call);
        let is_news = counted > 0 || self.run.is_none() || of != before.of;
        (is_news.then(|| Self { alone, run: Some(Run { of, ..before }), ..self.clone() }), counted)
    }

    /// A call was answered, whatever the answer said. `None`: nothing has to be written.
    pub(super) fn answered(&self, call: &BatchId, now: Timestamp) -> Option<Self> {
        let run = self.run.as_ref()?;
        let (mut alone, _) = self.without(call);
        if let Some(of) = run.of.as_ref().filter(|of| *of != call) {
            match alone.iter_mut().find(|alone| alone.call == *of) {
                Some(alone) => alone.runs += 1,
                None => alone.push(Alone { call: of.clone(), runs: 1 }),
            }
            alone.drain(..alone.len().saturating_sub(MOST_ALONE));
        }
        let drains = if run.outage.is_some() { Some(now) } else { self.drains_at(now) };
        Some(Self { run: None, alone, drains, news: news::ended(&self.news, now), ..self.clone() })
    }

    /// A person holds all calls back. `None`: somebody has done so already, for the same reason.
    pub(super) fn held(&self, reason: Option<String>, now: Timestamp) -> Option<Self> {
        let since = self.held.as_ref().map_or(now, |held| held.since);
        let held = Some(Held { since, reason });
        (held != self.held).then(|| Self { held, ..self.clone() })
    }

    /// A person holds the calls of one Target back. `None`: somebody has done so already, for the same reason, or
    /// [the most](MOST_HELD) others are held.
    pub(super) fn target_held(&self, target: &Target, reason: Option<String>, now: Timestamp) -> Option<Self> {
        let since = self.targets.get(target).map_or(now, |held| held.since);
        let held = Held { since, reason };
        let has_room = self.targets.len() < MOST_HELD || self.targets.contains_key(target);
        let is_news = has_room && self.targets.get(target) != Some(&held);
        let targets = || self.targets.iter().map(|(target, held)| (target.clone(), held.clone()));
        is_news.then(|| Self { targets: targets().chain([(target.clone(), held)]).collect(), ..self.clone() })
    }

    /// A person lets the calls of one Target go on. `None`: nobody holds them back. Failures from before the pause, if
    /// they are no outage, are forgotten: nothing may have been called since.
    pub(super) fn target_resumed(&self, target: &Target) -> Option<Self> {
        let mut targets = self.targets.clone();
        let run = self.run.clone().filter(|run| run.outage.is_some());
        targets.remove(target).is_some().then(|| Self { targets, run, ..self.clone() })
    }

    /// A person lets calls go on, whatever holds them back. `None`: nothing does.
    pub(super) fn resumed(&self, now: Timestamp) -> Option<Self> {
        let is_closed = self.held.is_some() || self.run.is_some();
        let news = || news::ended(&self.news, now);
        let at = Some(now);
        is_closed.then(|| Self { run: None, held: None, drains: at, resumed: at, news: news(), ..self.clone() })
    }

    /// With the beginning of its outage to be told.
    pub(super) fn with_news(self, now: Timestamp) -> Self {
        let Some(run) = &self.run else { return self };
        let began = News::began(run.since, run.reason.clone(), now);
        Self { news: news::with(&self.news, began), ..self }
    }

    /// Whether something is to be told now.
    pub fn has_news(&self, now: Timestamp) -> bool {
        self.news.iter().any(|of| of.due(now).is_some())
    }

    /// What is let through while a backlog drains: the limits, or less.
    pub fn slowed(&self, limits: Limits, now: Timestamp) -> Limits {
        let steps = |since: Timestamp| now.since(since) / STEP_MS;
        match self.drains.map(steps).filter(|steps| *steps < STEPS) {
            Some(steps) => {
                Limits { gap_ms: limits.gap_ms.max(Some((FIRST_GAP_MS >> steps).max(1))), burst: 1, ..limits }
            }
            None => limits,
        }
    }

    /// Returns how long this number of calls takes at this gap, or at first more slowly, in milliseconds.
    pub(super) fn turns_ms(&self, mut calls: u64, gap_ms: u64, now: Timestamp) -> u64 {
        let mut took_ms = 0;
        while let Some(since) = self.drains_at(now.plus_ms(took_ms)) {
            let drained_ms = now.plus_ms(took_ms).since(since);
            let slow_ms = gap_ms.max(FIRST_GAP_MS >> (drained_ms / STEP_MS)).max(1);
            let step_ms = STEP_MS - drained_ms % STEP_MS;
            if calls <= step_ms / slow_ms {
                return took_ms + calls * slow_ms;
            }
            (calls, took_ms) = (calls - step_ms / slow_ms, took_ms + step_ms);
        }
        gap_ms.saturating_mul(calls).saturating_add(took_ms)
    }

    /// Since when what waited goes on slowly, if it still does.
    pub(super) fn drains_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.drains.filter(|since| now.since(*since) < STEPS * STEP_MS)
    }

    /// What is known of calls that failed alone except `call`, and in how many runs that did.
    fn without(&self, call: &BatchId) -> (Vec<Alone>, u32) {
        let (its, others): (Vec<Alone>, Vec<Alone>) = self.alone.iter().cloned().partition(|alone| alone.call == *call);
        (others, its.iter().map(|alone| alone.runs).sum())
    }
}

impl Run {
    fn before(call: &BatchId, failure: &Failure, now: Timestamp) -> Self {
        Self {
            since: now,
            failures: 0,
            reason: failure.reason.clone(),
            unread: 0,
            of: Some(call.clone()),
            outage: None,
        }
    }
}

impl Held {
    /// A pause until a person has changed the settings of the route, which read none of its answers.
    fn by_settings(reason: &Reason, now: Timestamp) -> Self {
        let remedy = reason.remedy().unwrap_or("see why calls fail");
        Self { since: now, reason: Some(format!("settings: {reason}: {remedy}; then push and resume")) }
    }
}

impl Outage {
    fn first(now: Timestamp) -> Self {
        Self { since: now, probes: 0, next: now.plus_ms(PROBE_PAUSES_MS[0]), prober: None, heir: None }
    }

    fn is_probed_by(&self, batch: &BatchId) -> bool {
        self.prober.as_ref().is_some_and(|(prober, _)| prober == batch)
    }

    fn probed_by(&self, batch: &BatchId, now: Timestamp, lease_until: Timestamp) -> Self {
        let probes = self.probes + 1;
        let [.., longest] = PROBE_PAUSES_MS;
        let pause_ms = PROBE_PAUSES_MS.get(probes as usize).copied().unwrap_or(longest);
        Self { probes, next: now.plus_ms(pause_ms), prober: Some((batch.clone(), lease_until)), ..self.clone() }
    }

    /// The outage once a probe has failed, or the call that it began with, and when its batch comes back.
    fn failed_by(self, batch: &BatchId, now: Timestamp) -> (Self, (Timestamp, Timestamp)) {
        let heir = self.heir.clone().unwrap_or_else(|| batch.clone());
        let at = self.next.max(now.plus_ms(SPREAD_MS));
        let back = if heir == *batch { (at, at.plus_ms(SPREAD_MS)) } else { rarely(self.since, now, self.next) };
        (Self { prober: None, heir: Some(heir), ..self }, back)
    }
}

/// The longer something has lasted, the longer a batch stays away; and not all come back at once.
pub(super) fn rarely(since: Timestamp, now: Timestamp, not_before: Timestamp) -> (Timestamp, Timestamp) {
    let wait_ms = now.since(since).clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS);
    let from = not_before.max(now.plus_ms(wait_ms / 2));
    (from, from.max(now.plus_ms(wait_ms)))
}

#[cfg(test)]
mod tests;
