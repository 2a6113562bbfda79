//! Rate limiter: the generic cell rate algorithm (virtual scheduling; ITU-T I.371, annex A), with reservations.
//!
//! For each rate the limiter stores one number: the theoretical arrival time (TAT) of the next call, in microseconds. A
//! call may start when the TAT and its cost are at most a burst ahead, and moves the TAT by its cost. So in any window
//! of time at most as many units start as the rate allows, and the burst. A call passes all rates of a limiter at once.
//! Its size says how much of the wait queue it takes. A reservation is a start some milliseconds ahead: its caller
//! waits for it in place, and a reservation that no call uses costs its own units only.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// The unit that a rate counts.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    derive_more::Display,
)]
#[serde(rename_all = "snake_case")]
#[display(rename_all = "snake_case")]
pub enum Unit {
    /// Calls: each costs one.
    #[default]
    Calls,
    /// The items of a call.
    Items,
    /// The bytes of its items' payloads.
    Bytes,
    /// The weight of its items together: the sum of the route's `batch.weight`.
    Weight,
}

/// Units in a window of time, and the burst beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The unit that it counts.
    pub of: Unit,
    /// Units in a window, at least 1.
    pub amount: u64,
    /// The window, in milliseconds. A limiter has one rate for each unit and window.
    pub per_ms: u64,
    /// Units that may start at once after a pause, at least 1.
    pub burst: u64,
    /// Units that the call takes which asks.
    pub cost: u64,
}

/// The rates of one limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates([Option<Rate>; MOST_RATES + 1]);

/// Rates of a limiter, at most. While a backlog drains there is one more.
pub const MOST_RATES: usize = 4;

impl Rate {
    /// One call in each gap of these milliseconds.
    #[must_use]
    pub const fn every(gap_ms: u64) -> Self {
        Self { of: Unit::Calls, amount: 1, per_ms: gap_ms, burst: 1, cost: 1 }
    }

    /// Returns how long these units take, in microseconds.
    fn takes_us(self, units: u64) -> u64 {
        let units_us = u128::from(units) * u128::from(self.per_ms) * 1_000;
        u64::try_from(units_us.div_ceil(u128::from(self.amount.max(1)))).unwrap_or(u64::MAX)
    }

    const fn key(self) -> (Unit, u64) {
        (self.of, self.per_ms)
    }
}

impl Rates {
    /// No limit.
    pub const NONE: Self = Self([None; MOST_RATES + 1]);

    /// Returns these rates, at most [`MOST_RATES`].
    #[must_use]
    pub fn of(rates: impl IntoIterator<Item = Rate>) -> Self {
        rates.into_iter().take(MOST_RATES).fold(Self::default(), Self::with)
    }

    /// One call in each gap of these milliseconds.
    #[must_use]
    pub const fn every(gap_ms: u64) -> Self {
        Self([Some(Rate::every(gap_ms)), None, None, None, None])
    }

    /// Returns these rates and one more. Of two of one unit and window the slower one holds.
    #[must_use]
    pub fn with(mut self, rate: Rate) -> Self {
        let is_its = |slot: &&mut Option<Rate>| slot.is_none_or(|other| other.key() == rate.key());
        if let Some(slot) = self.0.iter_mut().find(is_its) {
            let slower = slot.map_or(rate, |other| Rate { amount: other.amount.min(rate.amount), ..rate });
            *slot = Some(slower);
        }
        self
    }

    /// Returns these rates for a call that costs this much.
    #[must_use]
    pub fn costing(self, cost: impl Fn(Unit) -> u64) -> Self {
        Self(self.0.map(|rate| rate.map(|rate| Rate { cost: cost(rate.of), ..rate })))
    }

    /// Returns those that space calls evenly.
    #[must_use]
    pub fn even(&self) -> Self {
        Self::of(self.iter().filter(|rate| rate.of == Unit::Calls && rate.burst == 1))
    }

    /// Returns each of them.
    pub fn iter(&self) -> impl Iterator<Item = Rate> {
        self.0.into_iter().flatten()
    }

    /// Returns whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns how long a number of units of [size](Self::size) take, in milliseconds.
    #[must_use]
    pub(super) fn takes_ms(&self, units: u64) -> u64 {
        let whole_us = u128::from(self.largest_us()) * u128::from(units);
        u64::try_from(whole_us / u128::from(self.parts()) / 1_000).unwrap_or(u64::MAX)
    }

    /// Returns the size of the call: 1 where all calls cost the same, otherwise thousandths of the largest call.
    #[must_use]
    pub(super) fn size(&self) -> u64 {
        let takes_us = self.iter().map(|rate| rate.takes_us(rate.cost)).max().unwrap_or_default();
        let parts = u128::from(takes_us) * u128::from(self.parts()) / u128::from(self.largest_us().max(1));
        u64::try_from(parts).unwrap_or(u64::MAX).clamp(1, self.parts())
    }

    fn parts(&self) -> u64 {
        if self.iter().all(|rate| rate.of == Unit::Calls) { 1 } else { 1_000 }
    }

    /// Returns how long the largest call takes, in microseconds.
    fn largest_us(&self) -> u64 {
        let largest = |rate: Rate| rate.takes_us(if rate.of == Unit::Calls { 1 } else { rate.burst });
        self.iter().map(largest).max().unwrap_or_default()
    }

    /// Returns how long one call takes at the slowest, in milliseconds; `None`: nothing is limited.
    #[must_use]
    pub fn gap_ms(&self) -> Option<u64> {
        self.iter().map(|rate| rate.takes_us(rate.cost).div_ceil(1_000)).max()
    }
}

/// Writes it for people: `60000 weight a minute, 10 calls a second`.
impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Rate { of, amount, per_ms, .. }) in self.iter().enumerate() {
            let window = match per_ms {
                1_000 => "second".to_owned(),
                60_000 => "minute".to_owned(),
                3_600_000 => "hour".to_owned(),
                86_400_000 => "day".to_owned(),
                other => format!("{other} ms"),
            };
            let of = of.to_string();
            let unit = if amount == 1 { of.trim_end_matches('s') } else { &of };
            write!(f, "{}{amount} {unit} a {window}", if n > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// The state of a rate limiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimiter {
    /// The theoretical arrival time of the next call, in microseconds, as far as it is ahead: by unit and window, which
    /// is in milliseconds.
    pub tats_us: BTreeMap<(Unit, u64), u64>,
    /// The mean size of calls, of which the latest counts an eighth; 0 is 1.
    pub mean_size: u64,
}

impl RateLimiter {
    fn tat_us(&self, rate: Rate) -> u64 {
        self.tats_us.get(&rate.key()).copied().unwrap_or_default()
    }

    fn earliest_us(&self, rates: &Rates) -> u64 {
        let of = |rate: Rate| {
            let after = self.tat_us(rate).saturating_add(rate.takes_us(rate.cost));
            after.saturating_sub(rate.takes_us(rate.burst))
        };
        rates.iter().map(of).max().unwrap_or_default()
    }

    /// Returns when the next call may start, which may be in the past.
    #[must_use]
    pub fn earliest(&self, rates: &Rates) -> Timestamp {
        Timestamp(self.earliest_us(rates).div_ceil(1_000))
    }

    /// Reserves the next start.
    pub fn reserve(&mut self, rates: &Rates, now: Timestamp) -> Timestamp {
        let start_us = self.earliest_us(rates).max(now.0.saturating_mul(1_000));
        for rate in rates.iter() {
            let tat_us = self.tat_us(rate).max(start_us).saturating_add(rate.takes_us(rate.cost));
            self.tats_us.insert(rate.key(), tat_us);
        }
        self.tats_us.retain(|_, tat_us| *tat_us > start_us);
        let (size, mean) = (rates.size(), self.mean_size);
        let mean = if mean == 0 { size } else { (mean * 7 + size) / 8 };
        self.mean_size = if mean > 1 { mean } else { 0 };
        Timestamp(start_us.div_ceil(1_000))
    }

    /// Returns until when this state matters.
    #[must_use]
    pub fn lasts_until(&self) -> Timestamp {
        Timestamp(self.tats_us.values().max().map_or(0, |tat_us| tat_us.div_ceil(1_000)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::time::DAY_MS;

    const NOW: Timestamp = Timestamp(10_000);

    #[test]
    fn a_burst_starts_at_once_and_the_rest_at_the_rate() {
        let (mut limiter, rates) = (RateLimiter::default(), Rates::of([Rate { burst: 3, ..Rate::every(100) }]));
        let starts: Vec<u64> = (0..5).map(|_| limiter.reserve(&rates, NOW).0).collect();
        assert_eq!(starts, [10_000, 10_000, 10_000, 10_100, 10_200]);
    }

    #[test]
    fn a_call_waits_for_the_slowest_of_its_rates() {
        let tokens = |cost| Rate { of: Unit::Weight, amount: 60_000, per_ms: 60_000, burst: 8_000, cost };
        let mut limiter = RateLimiter::default();
        let mut start = |cost| limiter.reserve(&Rates::of([Rate::every(500), tokens(cost)]), NOW).0;
        assert_eq!([start(8_000), start(10), start(1_000), start(1)], [10_000, 10_500, 11_010, 11_510]);
        let of = |cost| Rates::of([Rate::every(500), tokens(cost)]);
        assert_eq!([8_000, 4_000, 10].map(|cost| of(cost).size()), [1_000, 500, 62], "thousandths of 8 s");
        assert_eq!((of(10).takes_ms(1_500), Rates::every(500).takes_ms(3)), (12_000, 1_500));
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_the_limit_and_the_burst(
            calls in proptest::collection::vec((0_u64..20_000, 1_u64..5), 1..80),
            amounts in proptest::array::uniform4(1_u64..200), extra in 0_u64..10,
        ) {
            // A cost above the burst is no call of such a limit.
            let (mut limiter, mut now, mut starts, burst) = (RateLimiter::default(), NOW.0, Vec::new(), 4 + extra);
            let units = [Unit::Calls, Unit::Items, Unit::Bytes, Unit::Weight];
            let rate = |((of, ms), amount)| Rate { of, amount, burst, ..Rate::every(ms) };
            let rates = Rates::of(units.into_iter().zip([1_000, 60_000, 3_600_000, DAY_MS]).zip(amounts).map(rate));
            let costs = |of, cost| if of == Unit::Calls { 1 } else { cost };
            for (wait_ms, cost) in calls {
                now += wait_ms;
                let start = limiter.reserve(&rates.costing(|of| costs(of, cost)), Timestamp(now));
                prop_assert!(start.0 >= now);
                starts.push((start.0, cost));
            }
            for Rate { of, amount, per_ms, .. } in rates.iter() {
                for (n, (from, _)) in starts.iter().enumerate() {
                    let mut units = 0;
                    for (start, cost) in &starts[n..] {
                        units += costs(of, *cost);
                        let most = (start + 1 - from) * amount + burst * per_ms;
                        prop_assert!(units * per_ms <= most, "{of}: {starts:?}");
                    }
                }
            }
        }
    }
}
