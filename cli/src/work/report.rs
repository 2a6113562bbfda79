//! What became of the batches, one line for each.

use std::time::Duration;

use groupage_core::domain::{Batch, BatchId, Reason, Target};
use groupage_core::steps::process::Counts;
use serde::Serialize;

use crate::output::grouped;

/// What became of one batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    batch: BatchId,
    target: Target,
    #[serde(flatten)]
    ended: Ended,
    /// From the look for a batch to its end.
    ms: u128,
}

/// How a worker's turn with a batch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Ended {
    /// Its outcome is recorded.
    Settled {
        /// Members that succeeded.
        succeeded: usize,
        /// Members that failed for good, or were in no call.
        failed: usize,
        /// Members that went back to waiting.
        returned: usize,
    },
    /// The command failed; it will be run for this batch again.
    CallAgain {
        /// Why.
        reason: Reason,
    },
    /// Another worker has the batch now; what the command said does not count.
    ClaimLost,
}

impl From<Counts> for Ended {
    fn from(Counts { succeeded, failed, ended, returned, .. }: Counts) -> Self {
        Self::Settled { succeeded, failed: failed + ended, returned }
    }
}

impl Line {
    /// Says how a batch ended after `took`.
    pub fn new(batch: &Batch, ended: Ended, took: Duration) -> Self {
        Self { batch: batch.id.clone(), target: batch.target.whole(), ended, ms: took.as_millis() }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self { batch, target, ended, ms } = self;
        let ended = match ended {
            Ended::Settled { succeeded, failed, returned } => {
                let [succeeded, failed, returned] = [*succeeded, *failed, *returned].map(|count| grouped(count as u64));
                format!("settled: {succeeded} succeeded, {failed} failed, {returned} go round again")
            }
            Ended::CallAgain { reason } => format!("will be tried again: {reason}"),
            Ended::ClaimLost => "lost to another worker".to_owned(),
        };
        format!("{batch}  {target}  {ended}  {} ms", grouped(u64::try_from(*ms).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::{Fence, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_the_same_to_programs_and_people() {
        let batch = Batch::open(BatchId::new("b1"), Target::new("labels:t1"), Fence(1), &[], Timestamp(0), 0);
        let line = |ended| Line::new(&batch, ended, Duration::from_millis(1_234));
        let settled = line(Counts { succeeded: 48, failed: 1, ..Counts::default() }.into());
        assert_eq!(
            serde_json::to_value(&settled).unwrap(),
            json!({
                "batch": "b1", "target": "labels:t1", "outcome": "settled",
                "succeeded": 48, "failed": 1, "returned": 0, "ms": 1234,
            })
        );
        assert_eq!(settled.text(), "b1  labels:t1  settled: 48 succeeded, 1 failed, 0 go round again  1,234 ms");
        let again = serde_json::to_value(line(Ended::CallAgain { reason: Reason::new("exec_exit_3") })).unwrap();
        assert_eq!((&again["outcome"], &again["reason"]), (&json!("call_again"), &json!("exec_exit_3")));
        assert_eq!(serde_json::to_value(line(Ended::ClaimLost)).unwrap()["outcome"], "claim_lost");
    }
}
