//! What a run came to, in numbers, and what it would have cost on AWS.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use groupage_aws::dollars::{self, grouped};
use groupage_aws::{Requests, Usage};
use groupage_core::domain::Timestamp;
use groupage_core::domain::task::{Status, Task};
use serde::Serialize;

use super::ledger::{Ledger, Parcel};
use super::owner::Notice;
use super::parcels::{MAX_ITEMS, WAIT_MS};

/// Disagreements shown to people; programs get all.
const SHOWN: usize = 10;

/// A run as it was measured.
pub struct Run {
    /// What was sent.
    pub parcels: Vec<Parcel>,
    /// When, by id.
    pub sent_at: HashMap<String, Instant>,
    /// From the first send to the last settled task.
    pub seconds: f64,
    /// What the owner was told.
    pub notices: Vec<Notice>,
    /// What the steps consumed of the tables.
    pub usage: Usage,
    /// Every request that SQS answered, the sender's included.
    pub sqs: Requests,
}

/// A run's figures, for people and programs.
#[derive(Debug, Serialize)]
pub struct Figures {
    tasks: usize,
    succeeded: usize,
    failed: usize,
    unsettled: usize,
    batches: usize,
    fewest_batches: usize,
    /// The most that there may be at the pace at which the parcels came in.
    most_batches: u64,
    fill_percent: f64,
    calls: Calls,
    send_to_call_ms: Percentiles,
    seconds: f64,
    /// How often the owner was told that all are done.
    told_that_all_are_done: usize,
    per_task: PerTask,
    usd_per_million_tasks: Price,
    /// Whether the downstream's ledger agrees with every task.
    pub agreed: bool,
    disagreements: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Calls {
    all: u64,
    answered: u64,
    throttled: u64,
    unavailable: u64,
    /// Calls after the first of their batch.
    retries: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Percentiles {
    p50: u128,
    p99: u128,
}

#[derive(Debug, Serialize)]
struct PerTask {
    write_units: f64,
    read_units: f64,
    sqs_requests: f64,
}

#[derive(Debug, Serialize)]
struct Price {
    dynamodb: f64,
    sqs: f64,
}

impl Figures {
    /// Works out the figures of a run.
    pub fn new(run: &Run, tasks: &[Task], ledger: &Ledger, disagreements: Vec<String>) -> Self {
        let count = |is: fn(&Status) -> bool| tasks.iter().filter(|task| is(&task.status)).count();
        let succeeded = count(|status| matches!(status, Status::Succeeded { .. }));
        let failed = count(|status| matches!(status, Status::Failed { .. }));
        let batches = ledger.batches().count();
        let calls = ledger.calls();
        let per_task = PerTask::new(run);
        Self {
            tasks: run.parcels.len(),
            succeeded,
            failed,
            unsettled: run.parcels.len() - succeeded - failed,
            batches,
            fewest_batches: fewest_batches(&run.parcels),
            most_batches: most_batches(&run.parcels, tasks),
            fill_percent: 100.0 * run.parcels.len() as f64 / (batches.max(1) * MAX_ITEMS) as f64,
            calls: Calls {
                all: calls.all,
                answered: calls.answered,
                throttled: calls.throttled,
                unavailable: calls.unavailable,
                retries: calls.all.saturating_sub(batches as u64),
            },
            send_to_call_ms: send_to_call(&run.sent_at, ledger),
            seconds: run.seconds,
            told_that_all_are_done: run.notices.len(),
            usd_per_million_tasks: Price::of(&per_task),
            per_task,
            agreed: disagreements.is_empty(),
            disagreements,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let calls = &self.calls;
        let per_task = &self.per_task;
        let price = &self.usd_per_million_tasks;
        let mut rows = vec![
            ("tasks", grouped(self.tasks as u64)),
            ("  succeeded", grouped(self.succeeded as u64)),
            ("  failed: too heavy", grouped(self.failed as u64)),
            ("batches", grouped(self.batches as u64)),
            ("  the fewest possible", grouped(self.fewest_batches as u64)),
            ("  fill", format!("{:.0} %", self.fill_percent)),
            ("calls", grouped(calls.all)),
            ("  answered", grouped(calls.answered)),
            ("  turned away (429)", grouped(calls.throttled)),
            ("  failed for now (503)", grouped(calls.unavailable)),
            ("  retries", grouped(calls.retries)),
            ("from send to call, p50", format!("{:.1} s", self.send_to_call_ms.p50 as f64 / 1e3)),
            ("  p99", format!("{:.1} s", self.send_to_call_ms.p99 as f64 / 1e3)),
            ("from first send to last outcome", format!("{:.1} s", self.seconds)),
            ("owner told that all are done", times(self.told_that_all_are_done)),
            ("write units per task", format!("{:.2}", per_task.write_units)),
            ("read units per task", format!("{:.2}", per_task.read_units)),
            ("SQS requests per task", format!("{:.2}", per_task.sqs_requests)),
            ("DynamoDB per million tasks", format!("${:.2}", price.dynamodb)),
            ("SQS per million tasks", format!("${:.2}", price.sqs)),
        ];
        if self.unsettled > 0 {
            rows.insert(3, ("  not settled", grouped(self.unsettled as u64)));
        }
        let longest = |of: fn(&(&str, String)) -> usize| rows.iter().map(of).max().unwrap_or_default();
        let (names, values) = (longest(|row| row.0.len()), longest(|row| row.1.len()));
        let lines = rows.iter().map(|(name, value)| format!(" {name:<names$}  {value:>values$}\n"));
        format!("{}\n{}", lines.collect::<String>(), self.verdict())
    }

    fn verdict(&self) -> String {
        if self.agreed {
            return "The downstream's own ledger agrees with every task, and with what the owner was told.".to_owned();
        }
        let shown = self.disagreements.iter().take(SHOWN).map(|what| format!("\n  {what}")).collect::<String>();
        let rest = self.disagreements.len().saturating_sub(SHOWN);
        let rest = if rest > 0 { format!("\n  and {}", grouped(rest as u64)) } else { String::new() };
        format!("The downstream's own ledger does not agree:{shown}{rest}")
    }
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

impl PerTask {
    fn new(run: &Run) -> Self {
        let tasks = run.parcels.len().max(1) as f64;
        let capacity = run.usage.capacity();
        Self {
            write_units: capacity.write.count() / tasks,
            read_units: capacity.read.count() / tasks,
            sqs_requests: run.sqs.total() as f64 / tasks,
        }
    }
}

impl Price {
    /// Of a million tasks like these. Lambda's own price depends on memory and downstream, and is not in it.
    fn of(per_task: &PerTask) -> Self {
        Self {
            dynamodb: per_task.write_units * dollars::WRITE + per_task.read_units * dollars::READ,
            sqs: per_task.sqs_requests * dollars::SQS,
        }
    }
}

/// Full batches of each truck's parcels, and one for the rest.
fn fewest_batches(parcels: &[Parcel]) -> usize {
    let mut by_truck: BTreeMap<&str, usize> = BTreeMap::new();
    for parcel in parcels {
        *by_truck.entry(&parcel.truck).or_default() += 1;
    }
    by_truck.values().map(|parcels| parcels.div_ceil(MAX_ITEMS)).sum()
}

/// The most batches of each truck's parcels: one that is not full lasts a whole window, so as many of these as windows
/// began while the truck's parcels came in, and the full ones.
fn most_batches(parcels: &[Parcel], tasks: &[Task]) -> u64 {
    let came_in: HashMap<&str, Timestamp> = tasks.iter().map(|task| (task.id.as_str(), task.created_at)).collect();
    let mut by_truck: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for parcel in parcels {
        by_truck.entry(&parcel.truck).or_default().extend(came_in.get(parcel.id.as_str()));
    }
    by_truck.values().map(|times| most_of(times)).sum()
}

fn most_of(times: &[Timestamp]) -> u64 {
    let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else { return 0 };
    let tasks = times.len() as u64;
    let windows = tasks.min(1 + last.since(*first) / WAIT_MS);
    windows + (tasks - windows) / MAX_ITEMS as u64
}

/// How long tasks waited for the first call of their batch to arrive.
fn send_to_call(sent_at: &HashMap<String, Instant>, ledger: &Ledger) -> Percentiles {
    let mut waits: Vec<Duration> = ledger
        .batches()
        .flat_map(|(_, batch)| batch.members.iter().map(|member| (member, batch.first_called)))
        .filter_map(|(member, called)| Some(called.saturating_duration_since(*sent_at.get(member)?)))
        .collect();
    waits.sort_unstable();
    Percentiles { p50: percentile(&waits, 50).as_millis(), p99: percentile(&waits, 99).as_millis() }
}

/// The smallest value that `percent` of all values do not exceed; zero if there are none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcels::parcels;

    #[test]
    fn the_fewest_batches_are_counted_truck_by_truck() {
        assert_eq!(fewest_batches(&parcels(2_000, 20)), 40);
        assert_eq!(fewest_batches(&parcels(21, 20)), 20);
        assert_eq!(fewest_batches(&[]), 0);
    }

    #[test]
    fn the_most_batches_are_a_window_each_and_the_full_ones() {
        let times = |number: u64, apart_ms: u64| (0..number).map(|n| Timestamp(n * apart_ms)).collect::<Vec<_>>();
        assert_eq!(most_of(&times(0, 0)), 0);
        assert_eq!(most_of(&times(100, 0)), 2);
        assert_eq!(most_of(&times(101, 0)), 3);
        // 100 tasks in 3 s: two windows began, and one batch may have been full before the second.
        assert_eq!(most_of(&times(100, 30)), 3);
        assert_eq!(most_of(&times(5, 60_000)), 5, "no batch is empty");
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 50), Duration::from_millis(100));
        assert_eq!(percentile(&values, 99), Duration::from_millis(198));
        assert_eq!(percentile(&values[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_price_is_units_times_their_price() {
        let price = Price::of(&PerTask { write_units: 4.0, read_units: 2.0, sqs_requests: 0.5 });
        assert!((price.dynamodb - 2.75).abs() < 1e-9, "{price:?}");
        assert!((price.sqs - 0.2).abs() < 1e-9, "{price:?}");
    }
}
