//! Failed tasks in memory.

use super::expiry::Row;
use super::{MemoryStore, Tables};
use crate::domain::failed::{Failed, Failure, Filed, Retry};
use crate::domain::id::{Part, Round, RouteName, Target, TaskId};
use crate::domain::task::{Status, Task};
use crate::domain::time::Timestamp;
use crate::ports::{Failures, Freshness, Result, Stored};

/// What is kept of a failure.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    failed: Failed,
    is_filed: bool,
    /// The round in which the task ended while it waited, until everybody has heard of it.
    untold: Option<Round>,
}

impl Tables {
    pub(super) fn file(&mut self, id: &TaskId, failure: &Failure, now: Timestamp) {
        let failed = Failed::of(id.clone(), now, failure);
        self.failures.insert(id.clone(), Kept { failed, is_filed: true, untold: None });
        self.keep_settled(id, failure.keep_ms, now);
    }

    /// Keeps what ended while it waited in this round. It is no failure for anybody to look into.
    pub(super) fn end(&mut self, (id, round): (&TaskId, Round), ending: &Failure, now: Timestamp) {
        let failed = Failed::of(id.clone(), now, ending);
        self.failures.insert(id.clone(), Kept { failed, is_filed: false, untold: Some(round) });
        self.keep_settled(id, 0, now);
    }

    /// Keeps what ended in a batch that is called without it.
    pub(super) fn keep(&mut self, id: &TaskId, ending: &Failure, now: Timestamp) {
        let failed = Failed::of(id.clone(), now, ending);
        self.failures.insert(id.clone(), Kept { failed, is_filed: false, untold: None });
        self.keep_settled(id, 0, now);
    }

    /// A settled task is kept for the retention, and for so long at least.
    pub(super) fn keep_settled(&mut self, id: &TaskId, keep_ms: u64, now: Timestamp) {
        let kept_ms = self.expiry.keeps.retention_ms.max(keep_ms);
        self.expiry.keep(Row::Task(id.clone()), Some(now.plus_ms(kept_ms)));
    }

    pub(super) fn heard_of(&mut self, id: &TaskId, round: Round) {
        if let Some(kept) = self.failures.get_mut(id).filter(|kept| kept.untold == Some(round)) {
            kept.untold = None;
        }
    }

    /// What ended while it waited and of which somebody may not have heard: Target, task, round, and when.
    pub(super) fn untold(&self) -> impl Iterator<Item = (&Target, &TaskId, Round, Timestamp)> {
        self.failures.values().filter_map(|kept| {
            let round = kept.untold?;
            Some((&kept.failed.target, &kept.failed.filed.id, round, kept.failed.filed.at))
        })
    }

    /// Leaves of a failure only why and when.
    pub(super) fn forget_failure(&mut self, id: &TaskId) {
        if let Some(kept) = self.failures.get_mut(id) {
            (kept.failed.target, kept.failed.answer, kept.is_filed) = (Target::new(String::new()), None, false);
        }
    }

    pub(super) fn failed_at(&self, id: &TaskId) -> Option<Timestamp> {
        self.failures.get(id).map(|kept| kept.failed.filed.at)
    }
}

/// As the index shows it.
fn entry(failed: &Failed) -> Failed {
    let mut entry = failed.clone();
    if let Some(answer) = &mut entry.answer {
        answer.text.clear();
    }
    entry
}

impl Failures for MemoryStore {
    async fn failed(
        &self,
        (route, part): (&RouteName, Part),
        (from, until): (Timestamp, Timestamp),
        after: Option<&Filed>,
        limit: usize,
    ) -> Result<Vec<Failed>> {
        let tables = self.tables();
        let filed = tables.failures.values().filter(|kept| kept.is_filed).map(|kept| &kept.failed);
        let mut found: Vec<Failed> = filed
            .filter(|failed| failed.target.route() == *route && Part::of_task(&failed.filed.id) == part)
            .filter(|failed| (from..until).contains(&failed.filed.at))
            .filter(|failed| after.is_none_or(|after| failed.filed > *after))
            .map(entry)
            .collect();
        found.sort_by(|a, b| a.filed.cmp(&b.filed));
        found.truncate(limit);
        Ok(found)
    }

    async fn with_failure(&self, id: &TaskId, _: Freshness) -> Result<Option<(Task, Option<Failed>)>> {
        let tables = self.tables();
        let failed = tables.failures.get(id).map(|kept| kept.failed.clone());
        Ok(tables.tasks.get(id).map(|task| (task.clone(), failed)))
    }

    async fn retry(&self, retry: &Retry) -> Result<Stored> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let next = retry.failed_in.next();
        let Some(task) = tables.tasks.get_mut(&retry.id) else { return Ok(Stored::Conflict) };
        if retry.lane.is_none() && task.waits_in(next) {
            return Ok(Stored::Yes);
        }
        if task.round != retry.failed_in || !matches!(task.status, Status::Failed { .. }) {
            return Ok(Stored::Conflict);
        }
        if let Some(lane) = &retry.lane
            && !tables.lanes.get(&lane.id).is_some_and(|all| all.is_before(lane))
        {
            return Ok(Stored::Conflict);
        }
        task.status = Status::Created { target: retry.target.clone() };
        (task.round, task.attempts, task.waits_since) = (next, 0, retry.at);
        let candidate = task.candidate();
        tables.failures.remove(&retry.id);
        tables.expiry.keep(Row::Task(retry.id.clone()), None);
        retry.lane.iter().for_each(|lane| tables.write_lane(lane));
        tables.show(&retry.target, candidate);
        Ok(Stored::Yes)
    }

    async fn unfile(&self, id: &TaskId) -> Result<Stored> {
        let mut tables = self.tables();
        let has_failed = tables.tasks.get(id).is_some_and(|task| matches!(task.status, Status::Failed { .. }));
        if let Some(kept) = tables.failures.get_mut(id) {
            kept.is_filed = false;
        }
        Ok(Stored::when(has_failed))
    }
}
