//! One task: where it stands, what it waits for, and why it failed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use groupage_aws::System;
use groupage_console::states;
use groupage_console::words::{moment, why};
use groupage_core::domain::shown::Shown;
use groupage_core::domain::{self, BatchId, Target, TaskId, Timestamp};
use groupage_core::ports::{Env, Freshness};
use groupage_core::routes::Routes;
use groupage_core::steps::look::OneTask;
use serde::Serialize;

use crate::output::{Output, unknown};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack::Access;

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct TaskStatus {
    id: TaskId,
    status: Shown,
    target: Option<Target>,
    batch: Option<BatchId>,
    reason: Option<String>,
    /// The newer task that is called in its place.
    superseded_by: Option<TaskId>,
    /// The output that its downstream gave.
    output: Option<domain::output::Output>,
    /// The size of an output that is too large to be kept.
    output_omitted_bytes: Option<u64>,
    returned: u32,
    item: Option<String>,
    registered_at_ms: u64,
    not_before_ms: Option<u64>,
    expires_at_ms: Option<u64>,
}

/// How often a task is looked at that is waited for.
const EVERY: Duration = Duration::from_millis(500);

/// Prints a task; with `wait`, once it is settled, or when so much time has passed.
pub async fn show(
    access: &Access,
    routes: Option<&Routes>,
    id: &TaskId,
    wait: Option<Duration>,
    output: &Output,
) -> Result<()> {
    let began = Instant::now();
    let (found, is_late) = loop {
        let found = access.looking(routes).task(id, Freshness::Latest).await?;
        let is_settled = found.as_ref().is_some_and(|one| one.task.status.is_settled());
        let is_late = wait.is_some_and(|wait| !is_settled && began.elapsed() >= wait);
        if wait.is_none() || is_settled || is_late {
            break (found, is_late);
        }
        tokio::time::sleep(EVERY).await;
    };
    let one = found.ok_or_else(|| unknown("task", id.as_str()))?;
    let shown = TaskStatus::of(&one);
    output.sheet(&shown, || shown.sheet(&one, System.now()));
    if is_late {
        bail!("{id} is not settled after {} s", began.elapsed().as_secs());
    }
    Ok(())
}

impl TaskStatus {
    fn of(OneTask { task, target, batch, output, .. }: &OneTask) -> Self {
        let omitted = output.as_ref().and_then(domain::output::Output::omitted_bytes);
        Self {
            id: task.id.clone(),
            status: Shown::of(task, batch.as_ref()),
            target: target.clone(),
            batch: task.status.batch().cloned(),
            reason: task.status.reason().map(ToString::to_string),
            superseded_by: batch.as_ref().and_then(|batch| batch.superseder(task)).cloned(),
            output: output.clone().filter(|_| omitted.is_none()),
            output_omitted_bytes: omitted,
            returned: task.round.0,
            item: task.item.as_ref().map(ToString::to_string),
            registered_at_ms: task.created_at.0,
            not_before_ms: task.status.due().map(|due| due.0),
            expires_at_ms: task.expires_at.map(|at| at.0),
        }
    }

    fn sheet(&self, one: &OneTask, now: Timestamp) -> Sheet {
        let mut rows = vec![
            ("task", self.id.as_str().into()),
            ("status", Cell::new(states::task(self.status), tone(self.status))),
        ];
        rows.extend(one.why.as_ref().map(|reason| ("waits for", Cell::new(why(reason, now), Tone::Wary))));
        rows.extend(self.reason.as_ref().map(|reason| ("reason", Cell::new(reason, Tone::Bad))));
        rows.extend(self.superseded_by.as_ref().map(|by| ("superseded by", by.as_str().into())));
        rows.extend(self.output.as_ref().map(|output| ("output", json(output).into())));
        let omitted = |bytes: u64| ("output", Cell::new(format!("{bytes} bytes, too large to be kept"), Tone::Wary));
        rows.extend(self.output_omitted_bytes.map(omitted));
        rows.extend(self.target.as_ref().map(|target| ("target", target.as_str().into())));
        rows.extend(self.batch.as_ref().map(|batch| ("batch", batch.as_str().into())));
        if self.returned > 0 {
            let rounds = format!("{} after calls in which it failed for now", self.returned);
            rows.push(("waited again", rounds.into()));
        }
        rows.extend(self.item.as_ref().map(|item| ("tracker's item", item.into())));
        rows.push(("registered", moment(one.task.created_at, now).into()));
        rows.extend(one.task.expires_at.map(|at| ("wanted until", moment(at, now).into())));
        Sheet::facts(rows)
    }
}

fn json(output: &domain::output::Output) -> String {
    serde_json::to_string(output).unwrap_or_default()
}

const fn tone(shown: Shown) -> Tone {
    match shown {
        Shown::Scheduled | Shown::Queued | Shown::Created | Shown::Batched | Shown::InProgress => Tone::Wary,
        Shown::Succeeded => Tone::Good,
        Shown::Failed | Shown::Cancelled | Shown::Expired => Tone::Bad,
        Shown::Superseded => Tone::Soft,
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::Task;
    use groupage_core::domain::why::Why;

    use super::*;

    #[test]
    fn a_task_says_what_it_waits_for_and_since_when_it_is_known() {
        let task = Task::new(TaskId::new("t"), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(1_000));
        let (target, why) = (Some(Target::new("r:t")), Some(Why::Election));
        let one = OneTask { task, failed: None, target, batch: None, output: None, lane: None, why };
        let shown = TaskStatus::of(&one);
        let json = serde_json::to_value(&shown).unwrap();
        let expected = serde_json::json!({
            "id": "t", "status": "created", "target": "r:t", "returned": 0, "registered_at_ms": 1_000
        });
        assert_eq!(json, expected);
        let text = shown.sheet(&one, Timestamp(4_000)).text(false);
        assert!(text.contains("waits for a batch"), "{text}");
        assert!(text.contains("a leader: its election is on the way"), "{text}");
        assert!(text.contains("3 s ago (1970-01-01T00:00:01.000Z)"), "{text}");
    }
}
