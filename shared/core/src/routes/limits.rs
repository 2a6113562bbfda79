//! Limits of calls as the routes file has them: rates, calls in flight, and whom a pause holds back.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::Limited;
use super::sharing::Sharing;
use crate::domain::batch;
use crate::domain::gate::{MOST_RATES, Rate, Unit};

/// Calls a second that one limit bears. A limit is one item, and writers of one item are in each other's way: of 200
/// calls a second two thirds are let through, for three times the requests (docs/performance/limits.md).
pub(super) const MOST_CALLS_A_SECOND: u64 = 100;

/// The limits of a route's calls.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CallLimits {
    /// Calls in flight for one Target.
    pub(super) in_flight_per_target: Option<Limited<1, 1_000>>,
    /// Calls for one Target that start in a second. Not beside `in_flight` or `calls_per_second`.
    pub(super) calls_per_second_per_target: Option<Limited<1, MOST_CALLS_A_SECOND>>,
    /// Calls in flight for the whole route.
    pub(super) in_flight: Option<Limited<1, 1_000>>,
    /// Calls that the whole route starts in a second.
    calls_per_second: Option<Limited<1, MOST_CALLS_A_SECOND>>,
    /// Calls that the whole route starts in a minute. At most one of these rates.
    calls_per_minute: Option<Limited<1, { 60 * MOST_CALLS_A_SECOND }>>,
    /// Calls that the whole route starts in an hour.
    calls_per_hour: Option<Limited<1, { 3_600 * MOST_CALLS_A_SECOND }>>,
    /// Calls of the whole route that may start at once when it was quiet before; 1 unless you set it. In any window of
    /// time there are at most as many calls as the rate allows, and these.
    pub(super) burst: Option<Limited<1, 1_000>>,
    /// Rates beside each other, each of another unit or window: for example tokens a minute.
    #[schemars(length(max = 4))]
    rates: Vec<RateEntry>,
    /// Whose calls go first where more wait than a limit of the whole route lets through. Absent: first come, first
    /// served. `{ by: target }`: Targets take turns, so that one with many batches does not hold up the others.
    pub(super) share: Option<Sharing>,
    /// Seconds for which a call that timed out still counts as in flight, since the downstream may work on. Needs a
    /// limit of calls in flight.
    pub(super) keep_timed_out_s: Option<Limited<1, 900>>,
    /// Whose calls a `Retry-After` or an outage holds back: those for the same Target, or all of the route.
    pub(super) pause: Pause,
}

/// Units in a window of time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Rate")]
#[serde(deny_unknown_fields)]
pub(super) struct RateEntry {
    /// Units that calls may take in a window. Calls are at most 100 a second.
    amount: Limited<1, 1_000_000_000_000>,
    /// The window.
    per: Window,
    /// The unit that is counted. Absent: calls.
    #[serde(default)]
    of: Unit,
    /// Units that may start at once when it was quiet before. No batch takes more of them than this, and no task that
    /// would alone is accepted. Absent: 1 of calls; of other units as many as a batch may have, and no more than
    /// `amount`. In any window of time there are at most as many units as the rate allows, and these.
    burst: Option<Limited<1, 1_000_000_000_000>>,
}

/// A window of time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Window {
    Second = 1,
    Minute = 60,
    Hour = 3_600,
    Day = 86_400,
}

impl RateEntry {
    /// Compiles it, with its default burst beside batches that are as large as this.
    pub(super) fn compile(self, batch: &batch::Limits) -> Rate {
        let (amount, of) = (self.amount.0, self.of);
        let largest = match of {
            Unit::Calls => 1,
            Unit::Items => batch.max_items as u64,
            Unit::Bytes => batch.max_bytes,
            Unit::Weight => batch.max_weight.unwrap_or(u64::MAX),
        };
        let burst = self.burst.map_or_else(|| largest.min(amount), |burst| burst.0);
        Rate { of, amount, burst, ..Rate::every(self.per as u64 * 1_000) }
    }
}

impl CallLimits {
    /// The rates of the whole route, each with its field, beside batches that are as large as this.
    pub(super) fn rates(&self, batch: &batch::Limits) -> impl Iterator<Item = (&'static str, Rate)> + use<> {
        let listed: Vec<Rate> = self.rates.iter().map(|rate| rate.compile(batch)).collect();
        self.plain().chain(listed.into_iter().map(|rate| ("rates", rate)))
    }

    /// Those that have a field of their own.
    fn plain(&self) -> impl Iterator<Item = (&'static str, Rate)> + use<> {
        let burst = self.burst.map_or(1, |calls| calls.0);
        let rate = |field, ms, calls: Option<u64>| Some((field, Rate { amount: calls?, burst, ..Rate::every(ms) }));
        let second = rate("calls_per_second", 1_000, self.calls_per_second.map(|calls| calls.0));
        let minute = rate("calls_per_minute", 60_000, self.calls_per_minute.map(|calls| calls.0));
        let hour = rate("calls_per_hour", 3_600_000, self.calls_per_hour.map(|calls| calls.0));
        [second, minute, hour].into_iter().flatten()
    }

    /// Returns why these limits cannot be; `None` if they can.
    pub(super) fn refusal(&self) -> Option<String> {
        let plain: Vec<&str> = self.plain().map(|(field, _)| field).collect();
        match plain[..] {
            [] if self.burst.is_some() => return Some("`limits.burst` without a rate of the route".to_owned()),
            [one, other, ..] => return Some(format!("`limits.{one}` beside `limits.{other}`: list both in `rates`")),
            [] | [_] => {}
        }
        let all: Vec<Rate> = self.rates(&batch::Limits::default()).map(|(_, rate)| rate).collect();
        refused(&all).map(|what| format!("`limits` with {what}"))
    }

    /// Returns the field of the first rate of the whole route.
    pub(super) fn rate_field(&self) -> Option<&'static str> {
        self.rates(&batch::Limits::default()).map(|(field, _)| field).next()
    }
}

/// Returns why one limit cannot have these rates; `None` if it can.
pub(super) fn refused(rates: &[Rate]) -> Option<String> {
    let is_too_fast = |rate: &Rate| rate.amount.saturating_mul(1_000) > rate.per_ms.saturating_mul(MOST_CALLS_A_SECOND);
    if rates.iter().any(|rate| rate.of == Unit::Calls && is_too_fast(rate)) {
        return Some(format!("a rate of over {MOST_CALLS_A_SECOND} calls a second: a limit bears no more"));
    }
    let kinds: BTreeSet<(Unit, u64)> = rates.iter().map(|rate| (rate.of, rate.per_ms)).collect();
    let are_too_many = kinds.len() < rates.len() || rates.len() > MOST_RATES;
    are_too_many.then(|| format!("two rates of one unit and window, or over {MOST_RATES}"))
}

/// Whose calls a `Retry-After` or an outage holds back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// Those for the same Target.
    #[default]
    Target,
    /// All of the route.
    Route,
}
