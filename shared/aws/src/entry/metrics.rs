//! What an invocation counted, and its form as CloudWatch's embedded metric format.
//!
//! One line for each invocation on standard output; CloudWatch turns it into metrics without a request of ours.

use std::collections::BTreeMap;

use groupage_core::domain::time::Timestamp;
use groupage_core::steps::process;
use serde_json::json;

/// The CloudWatch namespace.
pub const NAMESPACE: &str = "Groupage";

/// Everything that is counted. The names are those of the dashboard and the alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Tasks written for the first time.
    TasksRegistered,
    /// Tasks put on the list that their message names.
    TasksListed,
    /// Tasks that filled no batch of their event and were sent on to those of others.
    TasksGathered,
    /// Tasks that went back to the task queue, since the index of their Target is throttled.
    TasksYielded,
    /// Targets, or shards, whose part of the index took no more tasks. The log names the first of an event.
    TargetsThrottled,
    /// Registrations that found their task there.
    TasksRepeated,
    /// Messages sent to the rejected queue.
    TasksRejected,
    /// Elections won.
    ElectionsWon,
    /// Elections lost: another workflow leads, and is told of the tasks.
    ElectionsLost,
    /// Batches frozen and handed on.
    BatchesFrozen,
    /// Members of these batches.
    BatchMembers,
    /// Calls whose outcome was recorded.
    CallsSettled,
    /// Calls that will be made again.
    CallsRetried,
    /// Batches that waited for their gates or for another worker.
    CallsWaited,
    /// Batches that stayed away, since their downstream is away or a person holds calls back.
    CallsHeldBack,
    /// Failures by which a downstream began to count as away: one call at a time is made there from then on.
    OutagesBegun,
    /// Calls whose result was dropped: another worker has the batch.
    ClaimsLost,
    /// Members that succeeded.
    TasksSucceeded,
    /// Members that failed for good.
    TasksFailed,
    /// Members that were in no call, since they were cancelled or expired before it.
    TasksEnded,
    /// Members that went back to waiting.
    TasksReturned,
    /// Records, and elections that share one, that will come again because of an error, or for lack of time.
    RecordsFailed,
    /// Messages that copied themselves too fast for too long: each copy waits for a quarter of an hour from then on.
    MessagesBraked,
    /// Sessions that sweep found over.
    SessionsExpired,
    /// Batches that sweep sent on.
    BatchesRevived,
    /// Waiting tasks that sweep found without a leader.
    TasksRevived,
    /// Waiting tasks that no route wants any more.
    TasksStranded,
    /// Sweeps that worked by earlier routes, since those in the table cannot be read or used.
    RoutesBehind,
    /// For how long the oldest task that sweep found has waited for a batch, in milliseconds, from a minute on.
    OldestWaiting,
    /// For how long some entry of an index was not visited by sweep, in milliseconds.
    OldestUnvisited,
    /// Items of settled tasks that no tracker counts (any more).
    ItemsUnknown,
    /// Lanes of ordered routes that a failed task stopped.
    LanesStopped,
    /// Tasks that failed because one before them in their lane did.
    TasksPassedOver,
    /// Events of settled tasks that no stream knows (any more).
    EventsUnknown,
    /// Notices that their queue refused; they are sent again.
    NoticesRefused,
    /// Notices that their queue refused for a day; they are in the rejected queue.
    NoticesUndeliverable,
    /// Watermarks that sweep committed because nobody else did.
    StreamsCommitted,
    /// Trackers that sweep completed, or told of, for somebody who died.
    TrackersRevived,
    /// Trackers whose deadline passed.
    TrackersOverdue,
    /// Trackers that nobody did anything with.
    TrackersAbandoned,
    /// Releases and discards that sweep worked on for somebody who died, or who left them to it.
    ListsRevived,
    /// Idle lists that sweep removed.
    ListsRemoved,
    /// Tasks that waited on them, discarded when their list's time to live was over.
    ListTasksExpired,
    /// Tasks of lists that were not there when they were to be fed on.
    ListTasksLost,
}

impl Metric {
    /// CloudWatch's word for what it counts in.
    const fn unit(self) -> &'static str {
        if matches!(self, Self::OldestWaiting | Self::OldestUnvisited) { "Milliseconds" } else { "Count" }
    }

    /// Whether an alarm makes a share of it and of its counterpart. CloudWatch has no share where one of them is
    /// missing.
    const fn is_part_of_a_share(self) -> bool {
        matches!(self, Self::TasksSucceeded | Self::TasksFailed)
    }
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Metric, u64>);

impl Counts {
    /// Adds to a metric.
    pub fn add(&mut self, metric: Metric, count: usize) {
        *self.0.entry(metric).or_default() += count as u64;
    }

    /// Adds what a recorded outcome came to.
    pub fn add_settled(&mut self, settled: &process::Counts) {
        self.add(Metric::CallsSettled, 1);
        self.add(Metric::TasksSucceeded, settled.succeeded);
        self.add(Metric::TasksFailed, settled.failed);
        self.add(Metric::TasksEnded, settled.ended);
        self.add(Metric::TasksReturned, settled.returned);
        self.add(Metric::ItemsUnknown, settled.unknown_items);
        self.add_repeated(settled);
        self.add(Metric::EventsUnknown, settled.unknown_events);
        self.add(Metric::RecordsFailed, usize::from(settled.interrupted.is_some()));
    }

    /// Adds what an outcome meant to those behind its members, and what became of its notices. A worker that repeats a
    /// follow-up that died counts it again, and may be the only one who does.
    pub fn add_repeated(&mut self, settled: &process::Counts) {
        self.add(Metric::LanesStopped, settled.lanes_stopped);
        self.add(Metric::TasksPassedOver, settled.passed_over);
        self.add(Metric::NoticesRefused, settled.untold);
        self.add(Metric::NoticesUndeliverable, settled.undeliverable);
    }

    /// The value of a metric.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0.get(&metric).copied().unwrap_or_default()
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (metric, count) in &other.0 {
            *self.0.entry(*metric).or_default() += count;
        }
    }

    /// The line for CloudWatch; `None` if nothing was counted. What was not counted is left out; of the parts of a
    /// share there are all or none.
    pub fn to_emf(&self, function: &str, now: Timestamp) -> Option<String> {
        let has_share = self.0.iter().any(|(metric, count)| metric.is_part_of_a_share() && *count > 0);
        let counted: Vec<(String, &str, u64)> = self
            .0
            .iter()
            .filter(|(metric, count)| **count > 0 || has_share && metric.is_part_of_a_share())
            .map(|(metric, count)| (format!("{metric:?}"), metric.unit(), *count))
            .collect();
        if counted.is_empty() {
            return None;
        }
        let metrics: Vec<_> = counted.iter().map(|(name, unit, _)| json!({ "Name": name, "Unit": unit })).collect();
        let mut line = json!({
            "_aws": {
                "Timestamp": now.0,
                "CloudWatchMetrics": [{ "Namespace": NAMESPACE, "Dimensions": [["Function"]], "Metrics": metrics }],
            },
            "Function": function,
        });
        for (name, _, count) in counted {
            line[name] = json!(count);
        }
        Some(line.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emf_line_declares_exactly_what_it_carries() {
        let mut counts = Counts::default();
        counts.add(Metric::TasksRegistered, 3);
        counts.add(Metric::TasksRejected, 0);
        let line: serde_json::Value =
            serde_json::from_str(&counts.to_emf("register-task", Timestamp(7)).unwrap()).unwrap();
        let declared = &line["_aws"]["CloudWatchMetrics"][0]["Metrics"];
        assert_eq!(declared, &json!([{ "Name": "TasksRegistered", "Unit": "Count" }]));
        assert_eq!(line["TasksRegistered"], 3);
        assert_eq!(line["Function"], "register-task");
    }

    #[test]
    fn successes_and_failures_are_published_together_and_never_both_as_zero() {
        let settled = |succeeded, failed, returned| {
            let mut counts = Counts::default();
            counts.add_settled(&process::Counts { succeeded, failed, returned, ..process::Counts::default() });
            let line = counts.to_emf("f", Timestamp(0)).unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let declared = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().len();
            (line["TasksSucceeded"].as_u64(), line["TasksFailed"].as_u64(), declared)
        };
        assert_eq!(settled(0, 10, 0), (Some(0), Some(10), 3), "with CallsSettled");
        assert_eq!(settled(7, 0, 0), (Some(7), Some(0), 3));
        assert_eq!(settled(0, 0, 4), (None, None, 2), "nobody's share: with CallsSettled and TasksReturned");
    }

    #[test]
    fn an_invocation_that_counted_nothing_writes_no_line() {
        assert_eq!(Counts::default().to_emf("f", Timestamp(0)), None);
    }
}
