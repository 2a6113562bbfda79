//! Tasks in memory, with their index.

use std::collections::BTreeMap;

use super::due::{in_order, segment_of};
use super::{MemoryStore, Tables};
use crate::domain::batch::Member;
use crate::domain::failed::{Failure, Filed};
use crate::domain::shelf::Position;
use crate::domain::task::{Candidate, Status, Task, Ties};
use crate::domain::{BatchId, Part, Round, Target, TaskId, Timestamp, TrackerId, Traits};
use crate::ports::{
    Entries, Entry, Freshness, Joined, Look, Page, PassedOver, PutBack, Registered, Result, Scheduled, Segment,
    Settlement, Sought, Spot, Stored, Tasks, Waiting, WaitingPage, WayBack,
};

impl Tables {
    pub(super) fn show(&mut self, target: &Target, candidate: Candidate) {
        self.waiting.entry(target.clone()).or_default().show(candidate);
    }

    fn hide(&mut self, target: &Target, id: &TaskId) {
        if let Some(waiting) = self.waiting.get_mut(target) {
            waiting.hide(id);
        }
    }
}

impl Tasks for MemoryStore {
    type Cursor = Spot;

    async fn register(&self, task: &Task) -> Result<Registered> {
        let mut tables = self.tables();
        if let Some(existing) = tables.tasks.get(&task.id) {
            return Ok(Registered::Existing(Box::new(existing.clone())));
        }
        if let Status::Created { target } = &task.status {
            tables.show(target, task.candidate());
        }
        if let Status::Scheduled { due, .. } = &task.status {
            tables.due.insert((*due, task.id.clone()));
        }
        tables.tasks.insert(task.id.clone(), task.clone());
        Ok(Registered::New)
    }

    async fn read(&self, ids: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        let tables = self.tables();
        Ok(ids.iter().filter_map(|id| tables.tasks.get(id).cloned()).collect())
    }

    async fn waiting(&self, target: &Target, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        Ok(self.tables().waiting.get(target).map_or_else(Page::default, |waiting| waiting.page(after, limit)))
    }

    async fn urgent(&self, target: &Target, above: u8, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        Ok(self.tables().waiting.get(target).map_or_else(Page::default, |waiting| waiting.urgent(above, after, limit)))
    }

    async fn waiting_long(&self, look: Look<'_, Segment>) -> Result<WaitingPage> {
        let Look { part, before, after, limit } = look;
        let tables = self.tables();
        let waiting: BTreeMap<&TaskId, (&Target, &Candidate)> = tables
            .waiting
            .iter()
            .flat_map(|(target, waiting)| waiting.iter().map(move |candidate| (&candidate.id, (target, candidate))))
            .filter(|(id, _)| {
                segment_of(id.as_str(), part.of) == part.index
                    && after.is_none_or(|after| id.as_str() > after.0.as_str())
            })
            .collect();
        let next =
            if waiting.len() > limit { waiting.keys().nth(limit - 1).map(|id| Position(id.to_string())) } else { None };
        let waits_since = |id: &TaskId| tables.tasks.get(id).map(|task| task.waits_since);
        let tasks = waiting
            .into_iter()
            .take(limit)
            .filter_map(|(id, (target, candidate))| {
                let since = waits_since(id)?;
                Some(Waiting { target: target.clone(), candidate: candidate.clone(), since })
            })
            .filter(|waiting| waiting.since < before)
            .collect();
        // Each time from the first: they are few.
        let untold =
            tables.untold().filter(|(_, id, _, at)| segment_of(id.as_str(), part.of) == part.index && *at < before);
        let ended = untold.map(|(target, id, round, since)| {
            let candidate = Candidate { id: id.clone(), round, bytes: 0, traits: Traits::default() };
            Waiting { target: target.clone(), candidate, since }
        });
        Ok(WaitingPage { tasks, ended: ended.collect(), next })
    }

    async fn due(&self, look: Look<'_>) -> Result<Entries<Scheduled>> {
        let tables = self.tables();
        let of_part = tables.due.iter().filter(|(due, id)| *due < look.before && Part::of_task(id) == look.part);
        let entry = |(due, id): &(Timestamp, TaskId)| {
            let Status::Scheduled { target, .. } = &tables.tasks.get(id)?.status else { return None };
            let what = Scheduled { id: id.clone(), target: target.clone(), due: *due };
            Some(Entry { at: Position(Filed { at: *due, id: id.clone() }.to_string()), what })
        };
        Ok(in_order(of_part.filter_map(entry), look.after, look.limit))
    }

    async fn fall_due(&self, (id, _): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<Option<Waiting>> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(id) else { return Ok(None) };
        if let Status::Scheduled { due, .. } = task.status
            && due <= now
        {
            task.status = Status::Created { target: target.clone() };
            task.waits_since = now;
            let candidate = task.candidate();
            tables.due.remove(&(due, id.clone()));
            tables.show(target, candidate);
        }
        let task = tables.tasks.get(id).filter(|task| task.waits_in(Round(0)));
        Ok(task.map(|task| Waiting::new(task, target)))
    }

    async fn unsettled_of(&self, tracker: &TrackerId, after: Option<&TaskId>, limit: usize) -> Result<Sought> {
        let tables = self.tables();
        let mut page: Vec<&Task> = tables.tasks.values().filter(|task| after.is_none_or(|at| task.id > *at)).collect();
        page.sort_unstable_by_key(|task| &task.id);
        page.truncate(limit);
        let next = (page.len() == limit).then(|| page.last().map(|last| last.id.clone())).flatten();
        let is_wanted = |task: &&&Task| {
            !task.status.is_settled() && task.item.as_ref().is_some_and(|item| item.tracker == *tracker)
        };
        Ok(Sought { found: page.iter().filter(is_wanted).map(|task| task.id.clone()).collect(), next })
    }

    async fn take_turn(&self, (id, _): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(id) else { return Ok(PutBack::Ended) };
        if task.status == Status::Queued {
            task.status = Status::Created { target: target.clone() };
            task.waits_since = now;
            let candidate = task.candidate();
            tables.show(target, candidate);
            return Ok(PutBack::Waits);
        }
        Ok(match &task.status {
            status if status.ended().is_some() => PutBack::Ended,
            _ if task.waits_in(Round(0)) => PutBack::Waits,
            Status::Scheduled { .. }
            | Status::Queued
            | Status::Created { .. }
            | Status::Batched { .. }
            | Status::Succeeded { .. }
            | Status::Failed { .. } => PutBack::MovedOn,
        })
    }

    async fn pass_over(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let Some(task) = tables.tasks.get_mut(id) else { return Ok(None) };
        if task.status == Status::Queued {
            task.status = Status::Failed { batch: None, reason: failure.reason.clone() };
            let (ties, trace) = (task.ties(), task.trace);
            tables.file(id, failure, now);
            return Ok(Some(PassedOver { ties, at: now, trace }));
        }
        let was = task.status == Status::Failed { batch: None, reason: failure.reason.clone() };
        let (ties, trace) = (task.ties(), task.trace);
        Ok(tables.failed_at(id).filter(|_| was).map(|at| PassedOver { ties, at, trace }))
    }

    async fn end(&self, id: &TaskId, round: Round, ending: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let Some(task) = tables.tasks.get_mut(id).filter(|task| task.round == round) else { return Ok(None) };
        let (ties, trace) = (task.ties(), task.trace);
        let ended = Status::Failed { batch: None, reason: ending.reason.clone() };
        match &task.status {
            Status::Scheduled { .. } | Status::Queued => {
                if let Status::Scheduled { due, .. } = task.status {
                    tables.due.remove(&(due, id.clone()));
                }
                task.status = ended;
                tables.end((id, round), ending, now);
                Ok(Some(PassedOver { ties, at: now, trace }))
            }
            Status::Created { target } => {
                let target = target.clone();
                task.status = ended;
                tables.hide(&target, id);
                tables.end((id, round), ending, now);
                Ok(Some(PassedOver { ties, at: now, trace }))
            }
            status if *status == ended => Ok(tables.failed_at(id).map(|at| PassedOver { ties, at, trace })),
            Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => Ok(None),
        }
    }

    async fn heard_of(&self, id: &TaskId, round: Round) -> Result<()> {
        self.tables().heard_of(id, round);
        Ok(())
    }

    async fn erase(&self, id: &TaskId, round: Round) -> Result<Stored> {
        let mut tables = self.tables();
        let is_untold = tables.untold().any(|(_, untold, ..)| untold == id);
        let task = tables.tasks.get_mut(id);
        let Some(task) = task.filter(|task| task.round == round && task.status.is_settled() && !is_untold) else {
            return Ok(Stored::Conflict);
        };
        (task.payload, task.digest, task.lane, task.trace) = (String::new(), String::new(), None, None);
        task.traits = Traits::default();
        tables.forget_failure(id);
        Ok(Stored::Yes)
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(id).filter(|task| task.round == round) else {
            return Ok(Joined::Elsewhere);
        };
        match &task.status {
            Status::Created { target } => {
                let target = target.clone();
                task.status = Status::Batched { batch: batch.clone() };
                tables.hide(&target, id);
                Ok(Joined::Yes)
            }
            Status::Batched { batch: named } if named == batch => Ok(Joined::Yes),
            Status::Scheduled { .. }
            | Status::Queued
            | Status::Batched { .. }
            | Status::Succeeded { .. }
            | Status::Failed { .. } => Ok(Joined::Elsewhere),
        }
    }

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        let WayBack { member, batch, target, attempts, is_unsure, at } = back;
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(&member.id) else { return Ok(PutBack::MovedOn) };
        if task.waits_in(member.round.next()) {
            return Ok(PutBack::Waits);
        }
        if task.round != member.round || task.status != (Status::Batched { batch: batch.clone() }) {
            return Ok(PutBack::MovedOn);
        }
        task.status = Status::Created { target: target.clone() };
        task.round = member.round.next();
        task.attempts = attempts;
        task.is_unsure = is_unsure;
        task.waits_since = at;
        let candidate = task.candidate();
        tables.show(target, candidate);
        Ok(PutBack::Waits)
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(&member.id) else { return Ok(Ties::default()) };
        let ties = task.ties();
        if task.round == member.round && task.status == (Status::Batched { batch: batch.clone() }) {
            match settlement {
                Settlement::Succeeded => {
                    task.status = Status::Succeeded { batch: batch.clone() };
                    tables.keep_settled(&member.id, 0, now);
                }
                Settlement::Failed(failure) => {
                    task.status = Status::Failed { batch: Some(batch.clone()), reason: failure.reason.clone() };
                    tables.file(&member.id, failure, now);
                }
                Settlement::Ended { ended, attempts } => {
                    task.status = Status::Failed { batch: Some(batch.clone()), reason: ended.reason() };
                    let target = Target::new(String::new());
                    let ending =
                        Failure { target, reason: ended.reason(), attempts: *attempts, answer: None, keep_ms: 0 };
                    tables.keep(&member.id, &ending, now);
                }
            }
        }
        Ok(ties)
    }
}
