//! One batch: its members, calls and outcome.

use anyhow::Result;
use groupage_aws::System;
use groupage_console::states;
use groupage_console::words::{moment, why};
use groupage_core::domain::batch::{Batch, FollowUp, Status};
use groupage_core::domain::{BatchId, Exception, SessionId, Target, TaskId, Timestamp};
use groupage_core::ports::Env;
use groupage_core::routes::Routes;
use groupage_core::steps::look::OneBatch;
use serde::Serialize;

use crate::output::{Output, unknown};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack::Access;

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct Shown {
    id: BatchId,
    target: Target,
    status: &'static str,
    /// Who has claimed it.
    session: Option<SessionId>,
    paused_until_ms: Option<u64>,
    /// Whether statuses and notifications are all written and sent, and members that wait again do so.
    follow_up: Option<&'static str>,
    calls: u32,
    /// Calls of these that use up no attempt: the downstream was away.
    excused: Option<u32>,
    members: Vec<TaskId>,
    failed: usize,
    /// Members in whose place a newer task was called.
    superseded: usize,
    returned: usize,
    /// Members that failed, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<MemberFailed>,
    created_at_ms: u64,
    /// From when on sweep, or a worker that pulls, looks at it; nobody does once nothing is left to do.
    due_ms: Option<u64>,
    /// How often sweep sent its message again.
    nudges: u32,
}

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct MemberFailed {
    id: TaskId,
    reason: String,
    /// Calls it was part of.
    calls: u32,
    /// What the downstream answered to the call: its status.
    answer_status: Option<u16>,
    /// The beginning of what it said.
    answer: Option<String>,
}

/// Prints a batch.
pub async fn show(access: &Access, routes: Option<&Routes>, id: &BatchId, output: &Output) -> Result<()> {
    let found = access.looking(routes).batch(id).await?;
    let one = found.ok_or_else(|| unknown("batch", id.as_str()))?;
    output.sheet(&shown(one.batch.clone()), || sheet(&one, System.now()));
    Ok(())
}

fn sheet(one: &OneBatch, now: Timestamp) -> Sheet {
    let batch = &one.batch;
    let Shown { failures, session, calls, excused, superseded, due_ms, nudges, .. } = shown(batch.clone());
    let tone = match (one.why.is_some(), failures.is_empty()) {
        (_, false) => Tone::Bad,
        (true, true) => Tone::Wary,
        (false, true) => Tone::Good,
    };
    let mut rows =
        vec![("batch", batch.id.as_str().into()), ("status", Cell::new(states::batch(batch, one.why.as_ref()), tone))];
    rows.extend(one.why.as_ref().map(|reason| ("waits for", Cell::new(why(reason, now), Tone::Wary))));
    rows.push(("target", batch.target.whole().as_str().into()));
    rows.extend(session.map(|session| ("claimed by", session.as_str().into())));
    rows.push(("calls", calls.to_string().into()));
    rows.extend(excused.map(|excused| ("of these, excused", excused.to_string().into())));
    rows.push(("made", moment(batch.created_at, now).into()));
    if let Status::Settled { at, .. } = &batch.status {
        rows.push(("settled", moment(*at, now).into()));
    }
    if superseded > 0 {
        rows.push(("superseded by newer tasks", superseded.to_string().into()));
    }
    rows.extend(due_ms.map(|due| ("looked at again", moment(Timestamp(due), now).into())));
    if nudges > 0 {
        rows.push(("sent on by sweep", format!("{nudges} times").into()));
    }
    let answers = failures.iter().filter_map(|failed| Some((failed.answer_status?, failed)));
    let mut said: Vec<(String, u16, String)> = answers
        .map(|(status, failed)| (failed.reason.clone(), status, failed.answer.clone().unwrap_or_default()))
        .collect();
    said.sort();
    said.dedup();
    let said =
        said.into_iter().map(|(reason, status, text)| vec![reason.into(), status.to_string().into(), text.into()]);
    let members = batch.members.iter().map(|member| {
        let failed = failures.iter().any(|failed| failed.id == member.id);
        let tone = if failed { Tone::Bad } else { Tone::Plain };
        vec![member.id.as_str().into(), Cell::new(states::outcome(batch, member), tone)]
    });
    Sheet::facts(rows)
        .with_table("What failed calls were answered", &["reason", "status", "answer"], said.collect())
        .with_table("Members", &["task", "outcome"], members.collect())
}

fn shown(batch: Batch) -> Shown {
    let (mut paused_until_ms, mut follow_up, mut returned, mut failures) = (None, None, 0, Vec::new());
    let superseded = batch.superseded_ids();
    match &batch.status {
        Status::Settled { results, follow_up: state, .. } => {
            follow_up = Some(match state {
                FollowUp::Pending => "pending",
                FollowUp::Returning => "returning",
                FollowUp::Done => "done",
            });
            let others = results.iter().filter(|(id, _)| !superseded.contains(id));
            failures = others.filter_map(|(id, exception)| failed(&batch, id, exception)).collect();
            returned = results.values().filter(|exception| matches!(exception, Exception::Returned { .. })).count();
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
        failed: failures.len(),
        superseded: superseded.len(),
        failures,
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

fn failed(batch: &Batch, id: &TaskId, exception: &Exception) -> Option<MemberFailed> {
    match exception {
        Exception::Returned { .. } => None,
        Exception::Failed { reason, attempts } => {
            let answer = batch.answers.as_ref().and_then(|answers| answers.of(reason));
            Some(MemberFailed {
                id: id.clone(),
                reason: reason.to_string(),
                calls: *attempts,
                answer_status: answer.map(|answer| answer.status),
                answer: answer.map(|answer| answer.text.clone()).filter(|text| !text.is_empty()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::batch::Claim;
    use groupage_core::domain::traits::Collapse;
    use groupage_core::domain::{Candidate, Fence, Reason, Results, Round, Timestamp};
    use serde_json::{Value, json};

    use super::*;
    use groupage_core::domain::Traits;

    fn json_of(batch: Batch) -> Value {
        serde_json::to_value(shown(batch)).unwrap()
    }

    #[test]
    fn a_batch_shows_who_has_it_until_when_it_pauses_and_what_is_left_to_do() {
        let candidate = Candidate { id: TaskId::new("t"), round: Round(0), bytes: 1, traits: Traits::default() };
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

    #[test]
    fn a_member_that_gave_way_to_a_newer_one_did_not_fail() {
        let candidate = |(n, id): (u64, &str)| {
            let traits = Traits { collapse: Some(Collapse { key: 7, came: n }), ..Traits::default() };
            Candidate { id: TaskId::new(id), round: Round(0), bytes: 1, traits }
        };
        let candidates: Vec<Candidate> = (0..).zip(["old", "refused"]).map(candidate).collect();
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &candidates, Timestamp(7));
        let failed = |reason| Exception::Failed { reason: Reason::new(reason), attempts: 1 };
        let results = [("old", failed("superseded")), ("refused", failed("http_400"))];
        let claimed = batch.claimed(Claim { session: SessionId::new("r/s1") });
        let shown = json_of(claimed.settled(results.map(|(id, is)| (TaskId::new(id), is)).into(), Timestamp(9)));
        assert_eq!((&shown["failed"], &shown["superseded"], &shown["returned"]), (&json!(1), &json!(1), &json!(0)));
        assert_eq!(shown["failures"].as_array().unwrap().len(), 1);
    }
}
