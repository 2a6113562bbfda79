//! Slow start: after an outage calls start one second apart, and twice as often after each step.

use super::Breaker;
use crate::domain::gate::{Limits, Rate, Rates};
use crate::domain::time::Timestamp;

/// The first calls after an outage start so far apart, in milliseconds; half as far after each step.
const FIRST_GAP_MS: u64 = 1_000;
/// The length of a step, in milliseconds.
const STEP_MS: u64 = 5_000;
/// Steps until nothing is held back any more: the gap is 2 ms by then.
const STEPS: u64 = 10;

impl Breaker {
    /// Returns since when calls recover, if they still do.
    pub(in crate::domain::gate) fn recovering(&self, now: Timestamp) -> Option<Timestamp> {
        self.recovering_since.filter(|since| now.since(*since) < STEPS * STEP_MS)
    }

    /// Returns what is let through now: the limits, or less.
    pub fn slowed(&self, limits: Limits, now: Timestamp) -> Limits {
        let Some(since) = self.recovering(now) else { return limits };
        let gap_ms = (FIRST_GAP_MS >> (now.since(since) / STEP_MS)).max(1);
        Limits { rates: limits.rates.with(Rate::every(gap_ms)), ..limits }
    }

    /// Returns how long this number of calls with this size together takes at these rates, or at first more slowly, in
    /// milliseconds.
    pub(in crate::domain::gate) fn turns_ms(&self, (size, all): (u64, u64), rates: &Rates, now: Timestamp) -> u64 {
        let (whole_ms, mut calls, mut took_ms) = (rates.takes_ms(size), all, 0);
        while let Some(since) = self.recovering(now.plus_ms(took_ms)) {
            let recovered_ms = now.plus_ms(took_ms).since(since);
            let slow_ms = whole_ms.div_ceil(all.max(1)).max(FIRST_GAP_MS >> (recovered_ms / STEP_MS)).max(1);
            let step_ms = STEP_MS - recovered_ms % STEP_MS;
            if calls <= step_ms / slow_ms {
                return took_ms + calls * slow_ms;
            }
            (calls, took_ms) = (calls - step_ms / slow_ms, took_ms + step_ms);
        }
        (whole_ms.saturating_mul(calls) / all.max(1)).saturating_add(took_ms)
    }
}
