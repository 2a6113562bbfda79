//! An hour of figures in memory: what the steps of this process counted, and how full the queues were.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use groupage_aws::entry::{Counts, Metric};
use groupage_core::domain::Timestamp;

/// An hour.
const KEPT_MS: u64 = 60 * 60 * 1_000;
/// Samples lie so far apart at least.
const EVERY_MS: u64 = 5_000;

/// What is charted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Tasks written for the first time.
    Tasks,
    /// Batches handed on.
    Batches,
    /// Calls whose outcome was recorded.
    Calls,
    /// Tasks that failed for good.
    Failed,
}

impl Series {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tasks, Self::Batches, Self::Calls, Self::Failed];

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Tasks => "tasks in",
            Self::Batches => "batches out",
            Self::Calls => "calls settled",
            Self::Failed => "tasks failed",
        }
    }

    /// What counts it.
    pub(crate) const fn metric(self) -> Metric {
        match self {
            Self::Tasks => Metric::TasksRegistered,
            Self::Batches => Metric::BatchesFrozen,
            Self::Calls => Metric::CallsSettled,
            Self::Failed => Metric::TasksFailed,
        }
    }
}

/// The samples of the last hour.
#[derive(Debug, Default)]
pub struct History(Mutex<VecDeque<(Timestamp, Counts)>>);

impl History {
    /// Keeps what was counted so far, unless a sample was kept just before.
    pub fn note(&self, now: Timestamp, counts: Counts) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|(at, _)| now.since(*at) < EVERY_MS) {
            return;
        }
        samples.push_back((now, counts));
        while samples.front().is_some_and(|(at, _)| now.since(*at) > KEPT_MS) {
            samples.pop_front();
        }
    }

    /// How many a second, from each sample to the next.
    pub fn rates(&self, series: Series) -> Vec<f64> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = samples.iter().zip(samples.iter().skip(1));
        pairs
            .map(|((from, before), (to, after))| {
                let more = after.get(series.metric()).saturating_sub(before.get(series.metric()));
                more as f64 * 1e3 / to.since(*from).max(1) as f64
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(tasks: usize) -> Counts {
        let mut counts = Counts::default();
        counts.add(Metric::TasksRegistered, tasks);
        counts
    }

    #[test]
    fn a_rate_is_what_came_between_two_samples() {
        let history = History::default();
        for (second, tasks) in [(0, 0), (5, 50), (15, 50), (20, 60)] {
            history.note(Timestamp(second * 1_000), counted(tasks));
        }
        assert_eq!(history.rates(Series::Tasks), [10.0, 0.0, 2.0]);
        assert_eq!(history.rates(Series::Failed), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn samples_are_some_seconds_apart_and_an_hour_of_them_is_kept() {
        let history = History::default();
        for second in 0..10_000 {
            history.note(Timestamp(second * 1_000), counted(0));
        }
        assert_eq!(history.rates(Series::Tasks).len(), 720);
    }
}
