//! One batch: its members, calls and outcome.

use anyhow::Result;
use groupage_aws::Dynamo;
use groupage_core::domain::batch::{Batch, FollowUp, Status};
use groupage_core::domain::{BatchId, Exception, SessionId, Target, TaskId};
use groupage_core::ports::Batches;
use serde::Serialize;

use crate::output::{Output, unknown};

#[derive(Serialize)]
struct Shown {
    id: BatchId,
    target: Target,
    status: &'static str,
    /// Who has claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_until_ms: Option<u64>,
    /// Whether statuses and notifications are all written and sent, and members that wait again do so.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_up: Option<&'static str>,
    calls: u32,
    /// Calls of these that use up no attempt: the downstream was away.
    #[serde(skip_serializing_if = "Option::is_none")]
    excused: Option<u32>,
    members: Vec<TaskId>,
    failed: usize,
    returned: usize,
    created_at_ms: u64,
    /// From when on sweep, or a worker that pulls, looks at it; nobody does once nothing is left to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<u64>,
    /// How often sweep sent its message again.
    nudges: u32,
}

/// Prints a batch.
pub async fn show(store: &Dynamo, id: &BatchId, output: &Output) -> Result<()> {
    let batch = store.batch(id).await?.ok_or_else(|| unknown("batch", id.as_str()))?;
    output.object(&shown(batch));
    Ok(())
}

fn shown(batch: Batch) -> Shown {
    let (mut paused_until_ms, mut follow_up, mut failed, mut returned) = (None, None, 0, 0);
    match &batch.status {
        Status::Settled { results, follow_up: state, .. } => {
            follow_up = Some(match state {
                FollowUp::Pending => "pending",
                FollowUp::Returning => "returning",
                FollowUp::Done => "done",
            });
            failed = results.values().filter(|exception| matches!(exception, Exception::Failed { .. })).count();
            returned = results.len() - failed;
        }
        Status::Paused { until } => paused_until_ms = Some(until.0),
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Empty
        | Status::Void => {}
    }
    Shown {
        status: batch.status.word(),
        session: batch.claimed_by().cloned(),
        paused_until_ms,
        follow_up,
        failed,
        returned,
        due_ms: batch.unfinished().map(|due| due.0),
        id: batch.id,
        target: batch.target.whole(),
        calls: batch.attempts,
        excused: batch.excused.map(|excused| excused.calls),
        members: batch.members.into_iter().map(|member| member.id).collect(),
        created_at_ms: batch.created_at.0,
        nudges: batch.nudges,
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::batch::Claim;
    use groupage_core::domain::{Candidate, Fence, Results, Round, Timestamp};
    use serde_json::{Value, json};

    use super::*;

    fn json_of(batch: Batch) -> Value {
        serde_json::to_value(shown(batch)).unwrap()
    }

    #[test]
    fn a_batch_shows_who_has_it_until_when_it_pauses_and_what_is_left_to_do() {
        let candidate = Candidate { id: TaskId::new("t"), round: Round(0), bytes: 1 };
        let open = Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &[candidate], Timestamp(7), 0);
        let claimed = open.frozen(open.members.clone()).claimed(Claim { session: SessionId::new("r/s1") });
        assert_eq!(
            (&json_of(claimed.clone())["status"], &json_of(claimed.clone())["session"]),
            (&json!("in-progress"), &json!("r/s1"))
        );
        assert_eq!(json_of(claimed.paused(Timestamp(9)))["paused_until_ms"], 9);
        let settled = claimed.settled(Results::new(), Timestamp(9));
        assert_eq!(json_of(settled.clone())["follow_up"], "pending");
        assert!(json_of(settled.clone())["due_ms"].is_u64());
        assert_eq!(json_of(settled.followed_up())["follow_up"], "done");
        assert_eq!(json_of(settled.followed_up())["due_ms"], Value::Null);
    }
}
