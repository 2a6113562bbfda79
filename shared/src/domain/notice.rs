//! What a task's initiator is told: one CloudEvents 1.0 JSON event for each settled task whose route asks for it.
//!
//! An event's id is derived from its batch and task, so that a receiver can drop a repeat.

use serde::Serialize;

use super::batch::Batch;
use super::id::TaskId;
use super::outcome::Reason;
use super::time::Timestamp;

/// A CloudEvents 1.0 event in its JSON format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CloudEvent {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: &'static str,
    subject: String,
    time: String,
    datacontenttype: &'static str,
    data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Data {
    task: String,
    batch: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
}

/// What a failed task's initiator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// Calls it was part of, over all rounds.
    pub attempts: u32,
}

/// The event's `type` for a task that succeeded.
pub const SUCCEEDED: &str = "groupage.task.succeeded.v1";
/// The event's `type` for a task that failed.
pub const FAILED: &str = "groupage.task.failed.v1";

/// The notice of one settled task; `failure` is `None` if it succeeded.
#[must_use]
pub fn of_task(batch: &Batch, task: &TaskId, failure: Option<&Failure>, at: Timestamp) -> CloudEvent {
    CloudEvent {
        specversion: "1.0",
        id: format!("{}/{task}", batch.id),
        source: format!("groupage/{}", batch.target.route()),
        kind: if failure.is_some() { FAILED } else { SUCCEEDED },
        subject: task.to_string(),
        time: rfc3339(at),
        datacontenttype: "application/json",
        data: Data {
            task: task.to_string(),
            batch: batch.id.to_string(),
            target: batch.target.value().to_owned(),
            reason: failure.map(|failure| failure.reason.clone()),
            attempts: failure.map(|failure| failure.attempts),
        },
    }
}

fn rfc3339(at: Timestamp) -> String {
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_millis(at.0);
    humantime::format_rfc3339_millis(moment).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{BatchId, Fence, RouteName, Target};

    #[test]
    fn a_notice_is_a_cloudevent_with_an_id_that_a_repeat_shares() {
        let target = Target::of(&RouteName::new("parcels"), "truck-7");
        let batch = Batch::open(BatchId::new("b1"), target, Fence(1), &[], Timestamp(0), 0);
        let failure = Failure { reason: Reason::new("too_heavy"), attempts: 2 };
        let event = of_task(&batch, &TaskId::new("t1"), Some(&failure), Timestamp(1_000));
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["specversion"], "1.0");
        assert_eq!(json["id"], "b1/t1");
        assert_eq!(json["source"], "groupage/parcels");
        assert_eq!(json["type"], FAILED);
        assert_eq!(json["time"], "1970-01-01T00:00:01.000Z");
        assert_eq!(json["data"]["reason"], "too_heavy");
        assert_eq!(of_task(&batch, &TaskId::new("t1"), Some(&failure), Timestamp(1_000)), event);
    }
}
