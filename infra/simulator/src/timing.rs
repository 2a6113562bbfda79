//! How late calls start, and how full they are.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::downstream::Seen;
use crate::load::tokens_of;
use crate::report::Outcome;
use crate::world::{CallLimits, Setting};

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
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// How late a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// By so much; nothing if it started early.
    pub by: Duration,
    /// So long after the first task came.
    pub after: Duration,
}

/// How late calls started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Each call.
    pub late: Vec<Late>,
    /// Calls that were not full and started before the window of their first member was over.
    pub early: usize,
}

/// How late each call started: from when its last needed task was handed to register-task. That is its last member if
/// it is full; else the end of the window that its first member opened, or its last member if that came later.
pub fn delays(setting: &Setting, outcome: &Outcome) -> Delays {
    let cut = |item: &String| outcome.tasks_at.get(item).and_then(|(_, cut)| *cut);
    let window = Duration::from_millis(setting.wait_ms);
    let needed = |call: &Seen| {
        let cuts: Vec<Instant> = call.items.iter().filter_map(cut).collect();
        let (first, last) = (*cuts.iter().min()?, *cuts.iter().max()?);
        Some((call.at, if call.items.len() >= setting.max_items { last } else { last.max(first + window) }))
    };
    let calls: Vec<(Instant, Instant)> = outcome.calls.iter().filter_map(needed).collect();
    let Some(begun) = begun(outcome) else { return Delays::default() };
    let late = |(at, needed): &(Instant, Instant)| Late {
        by: at.saturating_duration_since(*needed),
        after: at.saturating_duration_since(begun),
    };
    Delays { late: calls.iter().map(late).collect(), early: calls.iter().filter(|(at, needed)| at < needed).count() }
}

/// When the first task came.
fn begun(outcome: &Outcome) -> Option<Instant> {
    outcome.tasks_at.values().map(|(arrived, _)| *arrived).min()
}

/// How long each task waited for its event to be complete: the mapping's window, and the way to it.
pub fn intake(outcome: &Outcome) -> Vec<Duration> {
    let waited = |(arrived, cut): &(Instant, Option<Instant>)| Some((*cut)?.saturating_duration_since(*arrived));
    outcome.tasks_at.values().filter_map(waited).collect()
}

/// How long each task took from its queue to its call.
pub fn whole_way(outcome: &Outcome) -> Vec<Duration> {
    let calls = outcome.calls.iter();
    let way = |at: Instant, item: &String| Some(at.saturating_duration_since(outcome.tasks_at.get(item)?.0));
    calls.flat_map(|call| call.items.iter().filter_map(move |item| way(call.at, item))).collect()
}

/// What reached the downstream in the second half of a run: by then its functions have scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Tasks a second that came to the task queue in the second half.
    pub offered: f64,
    /// Tasks a second that were called for the first time in the second half, but no more than came: whatever was left
    /// over from the first half is worked off beside.
    pub reached: f64,
    /// Tasks that had come and were not called at the end; a few seconds of them are always under way.
    pub left: usize,
}

/// The flow of a run of this many seconds.
pub fn flow(outcome: &Outcome, seconds: u64) -> Flow {
    let Some(begun) = begun(outcome) else { return Flow::default() };
    let half = Duration::from_secs(seconds) / 2;
    let is_late = |at: Instant| at.saturating_duration_since(begun) >= half;
    let mut first_called: HashMap<&str, Instant> = HashMap::new();
    for (item, at) in outcome.calls.iter().flat_map(|call| call.items.iter().map(|item| (item, call.at))) {
        first_called.entry(item).or_insert(at);
    }
    let offered = outcome.tasks_at.values().filter(|(arrived, _)| is_late(*arrived)).count();
    let reached = first_called.values().filter(|at| is_late(**at)).count().min(offered);
    let a_second = |tasks: usize| tasks as f64 / half.as_secs_f64();
    let left = outcome.tasks_at.len().saturating_sub(first_called.len());
    Flow { offered: a_second(offered), reached: a_second(reached), left }
}

/// How much of its route's limit a run used, from its first call to its last: of the calls that could have started, or
/// of the time for which calls could have been in flight; `None` without a limit.
pub fn share_used(setting: &Setting, outcome: &Outcome) -> Option<f64> {
    let (first, last) =
        (outcome.calls.iter().map(|call| call.at).min()?, outcome.calls.iter().map(|call| call.at).max()?);
    let (took, calls) = (last.saturating_duration_since(first).as_secs_f64(), outcome.calls.len() as f64);
    let call_s = setting.call_ms as f64 / 1_000.0;
    let CallLimits { in_flight, per_second, tokens_per_minute, .. } = setting.calls;
    let of_rate = per_second.map(|limit| (calls - 1.0) / (took * f64::from(limit)));
    let of_places = in_flight.map(|limit| calls * call_s / ((took + call_s) * f64::from(limit)));
    let of_tokens = tokens_per_minute.map(|limit| {
        // What the first call may start with at once is the burst.
        let tokens: u64 = (0..outcome.tasks_at.len() as u64).map(tokens_of).sum();
        (tokens as f64 - 8_000.0).max(0.0) / (took * f64::from(limit) / 60.0)
    });
    of_rate.into_iter().chain(of_places).chain(of_tokens).reduce(f64::max)
}

/// For how long the tasks of this Target waited for their calls, each since it came.
pub fn waits_of(outcome: &Outcome, target: &str) -> Vec<Duration> {
    let calls = outcome.calls.iter().filter(|call| call.target == target);
    let waited = |at: Instant, item: &String| Some(at.saturating_duration_since(outcome.tasks_at.get(item)?.0));
    calls.flat_map(|call| call.items.iter().filter_map(move |item| waited(call.at, item))).collect()
}

/// By how many batches that came to batch-handler after it each batch was overtaken.
pub fn overtaken(outcome: &Outcome) -> Vec<usize> {
    let mut first_calls: HashMap<&str, Instant> = HashMap::new();
    for call in &outcome.calls {
        first_calls.entry(&call.key).or_insert(call.at);
    }
    let came = outcome.handed_on.iter();
    let mut batches: Vec<(Instant, Instant)> =
        came.filter_map(|(batch, came)| Some((*came, *first_calls.get(batch.as_str())?))).collect();
    // From the last that came: those behind are in `later`, by their calls.
    batches.sort_unstable_by(|one, other| other.cmp(one));
    let mut later: Vec<Instant> = Vec::with_capacity(batches.len());
    let count = |(_, called): (Instant, Instant)| {
        let before = later.partition_point(|other| *other < called);
        later.insert(before, called);
        before
    };
    batches.into_iter().map(count).collect()
}

/// The fewest calls that could carry all tasks, if they were all there at once.
pub fn fewest_calls(setting: &Setting, outcome: &Outcome) -> usize {
    let mut by_target: HashMap<&str, usize> = HashMap::new();
    for call in &outcome.calls {
        *by_target.entry(&call.target).or_default() += call.items.len();
    }
    by_target.values().map(|items| items.div_ceil(setting.max_items)).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use groupage_aws::Usage;
    use groupage_aws::entry::Counts;

    use super::*;
    use crate::lambda::Refused;
    use crate::load::Load;
    use crate::report::GateRequests;

    /// Tasks that arrived and calls of tasks, each at its second.
    fn outcome(arrived: &[(&str, u64)], calls: &[(&str, u64)]) -> Outcome {
        let begun = Instant::now();
        let at = |second: u64| begun + Duration::from_secs(second);
        let call = |(task, second): &(&str, u64)| Seen {
            at: at(*second),
            key: String::new(),
            target: "t".to_owned(),
            items: vec![(*task).to_owned()],
            turned_away: false,
        };
        Outcome {
            tasks: arrived.len(),
            took: Duration::ZERO,
            usage: Usage::default(),
            fifo_requests: 0,
            functions: BTreeMap::new(),
            sweeps: Vec::new(),
            calls: calls.iter().map(call).collect(),
            tasks_at: arrived.iter().map(|(task, s)| ((*task).to_owned(), (at(*s), Some(at(*s))))).collect(),
            handed_on: HashMap::new(),
            gates: GateRequests::default(),
            counts: Counts::default(),
            throttled: 0,
            refused: Refused::default(),
            dead: BTreeMap::new(),
        }
    }

    #[test]
    fn no_more_is_reached_than_came_and_nothing_twice() {
        let arrived = [("a", 0), ("b", 1), ("c", 2), ("d", 6), ("e", 9)];
        let worked_off = outcome(&arrived, &[("a", 6), ("a", 7), ("b", 8), ("c", 9)]);
        assert_eq!(flow(&worked_off, 10), Flow { offered: 0.4, reached: 0.4, left: 2 });
        let repeated = outcome(&arrived, &[("a", 1), ("a", 7), ("b", 2), ("b", 8), ("c", 9)]);
        assert_eq!(flow(&repeated, 10), Flow { offered: 0.4, reached: 0.2, left: 2 });
    }

    #[test]
    fn a_call_before_the_end_of_its_window_is_early() {
        let (s, setting) = (Duration::from_secs, Setting::of(Load::Burst { tasks: 2, targets: 1 }));
        let outcome = outcome(&[("a", 0), ("b", 0)], &[("a", 5), ("b", 7)]);
        let late = [(0, 5), (1, 7)].map(|(by, after)| Late { by: s(by), after: s(after) }).to_vec();
        assert_eq!(delays(&setting, &outcome), Delays { late, early: 1 });
    }

    #[test]
    fn a_batch_is_overtaken_by_those_that_came_later_and_were_called_before() {
        let mut outcome = outcome(&[], &[]);
        let begun = Instant::now();
        for (batch, came, called) in [("a", 0, 9), ("b", 1, 5), ("c", 2, 6), ("d", 3, 10)] {
            let at = |second| begun + Duration::from_secs(second);
            outcome.handed_on.insert(batch.to_owned(), at(came));
            outcome.calls.push(Seen {
                at: at(called),
                key: batch.to_owned(),
                target: String::new(),
                items: Vec::new(),
                turned_away: false,
            });
        }
        let mut counts = overtaken(&outcome);
        counts.sort_unstable();
        assert_eq!(counts, [0, 0, 0, 2]);
    }

    #[test]
    fn the_share_of_a_limit_is_that_of_the_calls_it_allows() {
        let calls = outcome(&[], &[("a", 0), ("b", 1), ("c", 2), ("d", 4)]);
        let setting = Setting::of(Load::Burst { tasks: 4, targets: 1 });
        let used = |calls_allowed| share_used(&Setting { calls: calls_allowed, ..setting.clone() }, &calls);
        assert_eq!(used(CallLimits::default()), None);
        assert_eq!(used(CallLimits { per_second: Some(1), ..CallLimits::default() }), Some(0.75));
        assert_eq!(used(CallLimits { in_flight: Some(1), ..CallLimits::default() }), Some(0.8));
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(Percentiles::of(times), Percentiles { p50_ms: 100.0, p99_ms: 198.0 });
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }
}
