//! Failed tasks: found by their index, run again, and taken out of it.

use aws_sdk_dynamodb::types::ReturnValue;
use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::failed::{Failed, Filed, Retry};
use groupage_core::domain::{Part, Reason, Round, RouteName, Target, Task, TaskId, Timestamp, task};
use groupage_core::ports::{Failures, Freshness, Result, Stored};
use serde::Deserialize;

use super::lanes::{is_before, lane_item};
use super::tasks::filed::{ANSWER, ANSWER_STATUS, ATTEMPTS, FILED, FILED_AT, GROUPED_BY, REASON};
use super::tasks::{BATCH_ID, ID, ROUND, SETTLED_AT, STATUS, TABLE, TARGET, TTL, WAITS_SINCE, task_of};
use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, id_in, nonsense, number, text, text_in};
use crate::dynamo::query::Query;
use crate::dynamo::{Dynamo, Key, Written, transaction};
use crate::meter::Place;

/// What is kept of a failure, as the task's item or the index's entry says it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredFailure {
    id: TaskId,
    reason: Reason,
    attempts: u32,
    /// A task that failed before this was kept does not say it.
    #[serde(default)]
    grouped_by: Option<Target>,
    #[serde(default)]
    answer_status: Option<u16>,
    #[serde(default)]
    answer: Option<String>,
}

impl StoredFailure {
    fn into_failed(self, at: Timestamp) -> Failed {
        let Self { id, reason, attempts, grouped_by, answer_status, answer } = self;
        let answer = answer_status.map(|status| Excerpt { status, text: answer.unwrap_or_default() });
        let target = grouped_by.unwrap_or_else(|| Target::new(String::new()));
        Failed { filed: Filed { at, id }, target, reason, attempts, answer }
    }
}

/// The change by which a failed task waits again. Nothing of its failure is left.
fn again(retry: &Retry) -> Change {
    let change = Change::default()
        .set(STATUS, text(retry.traits.waiting_word()))
        .set(TARGET, text(retry.target.as_str()))
        .set(ROUND, number(retry.failed_in.next()))
        .set(ATTEMPTS, number(0))
        .set(WAITS_SINCE, number(retry.at.0));
    [BATCH_ID, REASON, GROUPED_BY, FILED, FILED_AT, ANSWER_STATUS, ANSWER, SETTLED_AT, TTL]
        .into_iter()
        .fold(change, Change::remove)
}

fn has_failed_in(round: Round) -> [Clause; 2] {
    [Clause::Equals(STATUS, text(task::FAILED)), Clause::Equals(ROUND, number(round))]
}

fn entry_of(item: Item) -> Result<Failed> {
    let id = id_in(&item, ID);
    let filed = text_in(&item, FILED_AT).and_then(|filed| filed.parse::<Filed>().ok());
    let filed = filed.ok_or_else(|| nonsense(TABLE, &id, FILED_AT, "is missing, or no time with an id"))?;
    Ok(decode::<StoredFailure>(TABLE, &id, item)?.into_failed(filed.at))
}

impl Failures for Dynamo {
    async fn failed(
        &self,
        (route, part): (&RouteName, Part),
        (from, until): (Timestamp, Timestamp),
        after: Option<&Filed>,
        limit: usize,
    ) -> Result<Vec<Failed>> {
        let partition = part.failed_key(route);
        let key = Key::of(&self.tables.tasks, Place::Filed, FILED, &partition);
        // A time alone lies before all places of that time.
        let bound = |at: Timestamp| format!("{:015}", at.0);
        let first = after.filter(|after| after.at >= from).map_or_else(|| bound(from), ToString::to_string);
        let last = bound(until);
        if first >= last {
            return Ok(Vec::new());
        }
        let between = Clause::Between(FILED_AT, text(first), text(last));
        // The place itself comes again, and is left out.
        let query = Query::of("query the failed tasks", key, limit.saturating_add(1)).by(Tables::FILED_INDEX);
        let (found, _) = self.query(query.only_if(between)).await?;
        let mut failed = found.into_iter().map(entry_of).collect::<Result<Vec<Failed>>>()?;
        failed.retain(|failed| after.is_none_or(|after| failed.filed > *after));
        failed.truncate(limit);
        Ok(failed)
    }

    async fn with_failure(&self, id: &TaskId, freshness: Freshness) -> Result<Option<(Task, Option<Failed>)>> {
        let (key, what) = (self.task_key(id), "read a failed task");
        let Some(item) = self.get_as(what, key, freshness).await? else { return Ok(None) };
        let at = item.get(SETTLED_AT).and_then(|at| at.as_n().ok()).and_then(|at| at.parse().ok()).map(Timestamp);
        let failed = match at.filter(|_| text_in(&item, STATUS) == Some(task::FAILED)) {
            Some(at) => Some(decode::<StoredFailure>(TABLE, id.as_str(), item.clone())?.into_failed(at)),
            None => None,
        };
        Ok(Some((task_of(item)?, failed)))
    }

    async fn retry(&self, retry: &Retry) -> Result<Stored> {
        const WHAT: &str = "retry a failed task";
        let (key, change, assumes) = (self.task_key(&retry.id), again(retry), has_failed_in(retry.failed_in));
        if let Some(lane) = &retry.lane {
            let item = lane_item(lane, self.retention_ms)?;
            let writes = vec![
                transaction::put(WHAT, &self.tables.lanes, item, &[is_before(lane)])?,
                transaction::update(WHAT, key, change, &assumes)?,
            ];
            return Ok(Stored::when(self.transact(WHAT, Place::Lanes, writes).await?.is_ok()));
        }
        match self.update(WHAT, key, change, &assumes, ReturnValue::None).await? {
            Written::Done(_) => Ok(Stored::Yes),
            Written::Refused(None) => Ok(Stored::Conflict),
            // Our own write, whose answer was lost, or as good as it.
            Written::Refused(Some(old)) => Ok(Stored::when(task_of(old)?.waits_in(retry.failed_in.next()))),
        }
    }

    async fn unfile(&self, id: &TaskId) -> Result<Stored> {
        let change = Change::default().remove(FILED).remove(FILED_AT);
        let failed = [Clause::Equals(STATUS, text(task::FAILED))];
        let written = self.update("drop a failed task", self.task_key(id), change, &failed, ReturnValue::None).await?;
        Ok(Stored::when(matches!(written, Written::Done(_))))
    }
}
