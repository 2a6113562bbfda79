//! How late calls start, and how full they are.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::report::Outcome;
use crate::world::Setting;

/// A median and a 99th percentile, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

impl Percentiles {
    /// Of these times; 0 of none.
    #[must_use]
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// How late each call started: from when its last needed task was handed to register-task. That is its last member if it
/// is full; else the end of the window that its first member opened, or its last member if that came later.
#[must_use]
pub fn delays(setting: &Setting, outcome: &Outcome) -> Vec<Duration> {
    let cut = |item: &String| outcome.tasks_at.get(item).and_then(|(_, cut)| *cut);
    let window = Duration::from_millis(setting.wait_ms);
    let late = |call: &crate::downstream::Seen| {
        let cuts: Vec<Instant> = call.items.iter().filter_map(cut).collect();
        let (first, last) = (*cuts.iter().min()?, *cuts.iter().max()?);
        let needed = if call.items.len() >= setting.max_items { last } else { last.max(first + window) };
        Some(call.at.saturating_duration_since(needed))
    };
    outcome.calls.iter().filter_map(late).collect()
}

/// How long each task waited for its event to be complete: the mapping's window, and the way to it.
#[must_use]
pub fn intake(outcome: &Outcome) -> Vec<Duration> {
    let waited = |(arrived, cut): &(Instant, Option<Instant>)| Some((*cut)?.saturating_duration_since(*arrived));
    outcome.tasks_at.values().filter_map(waited).collect()
}

/// How long each task took from its queue to its call.
#[must_use]
pub fn whole_way(outcome: &Outcome) -> Vec<Duration> {
    let calls = outcome.calls.iter();
    let way = |at: Instant, item: &String| Some(at.saturating_duration_since(outcome.tasks_at.get(item)?.0));
    calls.flat_map(|call| call.items.iter().filter_map(move |item| way(call.at, item))).collect()
}

/// Tasks a second that were called in the second half of a run of so many seconds: by then its functions have scaled.
#[must_use]
pub fn called_per_second(outcome: &Outcome, seconds: u64) -> f64 {
    let Some(begun) = outcome.tasks_at.values().map(|(arrived, _)| *arrived).min() else { return 0.0 };
    let half = Duration::from_secs(seconds) / 2;
    let late = outcome.calls.iter().filter(|call| call.at.saturating_duration_since(begun) >= half);
    late.map(|call| call.items.len()).sum::<usize>() as f64 / half.as_secs_f64()
}

/// The fewest calls that could carry all tasks, if they were all there at once.
#[must_use]
pub fn fewest_calls(setting: &Setting, outcome: &Outcome) -> usize {
    let mut by_target: HashMap<&str, usize> = HashMap::new();
    for call in &outcome.calls {
        *by_target.entry(&call.target).or_default() += call.items.len();
    }
    by_target.values().map(|items| items.div_ceil(setting.max_items)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(Percentiles::of(times), Percentiles { p50_ms: 100.0, p99_ms: 198.0 });
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }
}
