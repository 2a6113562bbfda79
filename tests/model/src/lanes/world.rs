//! The tables of one lane, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::lane::{OnFailure, Queued, State};
use groupage_core::domain::task::Status;
use groupage_core::ports::{LinedUp, Newcomer};

use super::setting::{Promise, Rule, Setting, number, task};
use crate::prelude::*;

/// The tables.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct World {
    lane: Option<Kept<Lane>>,
    queued: BTreeMap<u64, Kept<Queued>>,
    pub(super) tasks: BTreeMap<u8, Kept<Task>>,
    /// The turns that tasks came with.
    turns: BTreeMap<u8, u64>,
    /// Who had which turn.
    had: BTreeMap<u64, u8>,
    /// For whom a leader was sent.
    pub(super) elected: BTreeSet<u8>,
    /// Of whose failure people are told.
    pub(super) told: BTreeSet<u8>,
    /// Whether a task failed and no person has let the lane go on since.
    failed: bool,
}

impl World {
    /// Those who wait for a batch.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u8> {
        self.tasks.iter().filter(|(_, task)| matches!(task.status, Status::Created { .. })).map(|(task, _)| *task)
    }

    /// Whether a failure stops the lane.
    pub(super) fn is_stopped(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.is_stopped())
    }

    /// If a call settled the task, whether it failed.
    pub(super) fn failed_in_a_call(&self, task: u8) -> Option<bool> {
        let status = &self.tasks.get(&task)?.status;
        status.batch().and(status.outcome()).map(|outcome| outcome == Outcome::Failed)
    }

    /// Whether nobody is lost, once everybody has done what they had to.
    pub(super) fn is_whole(&self, setting: &Setting) -> bool {
        if self.waiting().any(|task| !self.elected.contains(&task)) {
            return false;
        }
        let Some(lane) = &self.lane else { return setting.tasks() == 0 };
        let is_there = |(task, number): (u8, Option<u64>)| {
            let is_used = |number| number < lane.head.0 || self.turns.values().any(|turn| *turn == number);
            self.tasks.contains_key(&task) || number.is_some_and(is_used)
        };
        if !setting.brought().all(is_there) {
            return false;
        }
        if self.waiting().next().is_some() {
            return true;
        }
        let is_queued = |(turn, queued): (&u64, &Kept<Queued>)| {
            let task = number(&queued.candidate.id);
            // Those before it have not all come, or a person must let it go on.
            let waits_on = match lane.state {
                State::Free => setting.by_sequence,
                State::Held(_) => true,
                State::Taken(_) | State::Failing(_) => false,
            };
            waits_on && *turn > lane.head.0 && self.is(task, |status| *status == Status::Queued)
        };
        let places = self.queued.values().map(|queued| &queued.candidate.id);
        let places: BTreeSet<u8> = places.map(number).collect();
        let is_settled = |(task, row): (&u8, &Kept<Task>)| match &row.status {
            Status::Queued => places.contains(task),
            Status::Failed { batch: None, .. } => self.told.contains(task),
            Status::Succeeded { .. } | Status::Failed { batch: Some(_), .. } => true,
            Status::Scheduled { .. } | Status::Created { .. } | Status::Batched { .. } => false,
        };
        let is_moving = matches!(lane.state, State::Taken(_));
        !is_moving && self.queued.iter().all(is_queued) && self.tasks.iter().all(is_settled)
    }

    fn is_before(&self, next: &Lane) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.revision.next() == next.revision)
    }

    fn is(&self, task: u8, says: impl FnOnce(&Status) -> bool) -> bool {
        self.tasks.get(&task).is_some_and(|task| says(&task.status))
    }

    fn set(&mut self, task: u8, status: impl FnOnce(&Status) -> Status) {
        if let Some(row) = self.tasks.get_mut(&task) {
            *row = Kept::new(Task { status: status(&row.status), ..(**row).clone() });
        }
    }
}

impl Act<'_, Setting> {
    /// A call settles a task.
    pub(super) fn settle(&mut self, task: u8, failed: bool) {
        let batch = BatchId::new("b");
        self.set(task, |_| match failed {
            false => Status::Succeeded { batch },
            true => Status::Failed { batch: Some(batch), reason: Reason::new("no") },
        });
        self.failed |= failed && self.of.on_failure != OnFailure::Skip;
    }

    pub(super) fn line_up(&mut self, lane: &Kept<Lane>, is_new: bool, newcomers: &[Newcomer]) -> LinedUp {
        let before = newcomers.iter().filter_map(|newcomer| self.tasks.get(&number(&newcomer.task.id)));
        let before: Vec<Task> = before.map(|task| (**task).clone()).collect();
        if !before.is_empty() && !self.without(Rule::NewTask) {
            return LinedUp::Before(before);
        }
        let is_as_read = if is_new { self.lane.is_none() } else { self.is_before(lane) };
        if !is_as_read && !self.without(Rule::LinedUpAsRead) {
            return LinedUp::Conflict;
        }
        let turns = newcomers.iter().filter_map(|newcomer| newcomer.queued.as_ref().map(|queued| queued.turn));
        let used: Vec<Turn> = turns.filter(|turn| self.queued.contains_key(&turn.0)).collect();
        if !used.is_empty() && !self.without(Rule::FreeTurn) {
            return LinedUp::Used(used);
        }
        self.lane = Some(lane.clone());
        for Newcomer { task, queued } in newcomers {
            let turn = queued.as_ref().map_or(lane.head, |queued| queued.turn).0;
            let task = (number(&task.id), Kept::new(task.clone()));
            self.turns.insert(task.0, turn);
            self.tasks.insert(task.0, task.1);
            match queued {
                None => self.let_in(task.0, turn),
                Some(queued) => {
                    let other = self.queued.insert(turn, Kept::new(queued.clone()));
                    if other.is_some_and(|other| other.candidate.id != queued.candidate.id) {
                        self.breaks(Promise::OneTaskATurn);
                    }
                }
            }
        }
        LinedUp::Yes
    }

    pub(super) fn store_lane(&mut self, lane: &Kept<Lane>) -> Stored {
        if self.lane.as_ref() == Some(lane) {
            return Stored::Yes;
        }
        if self.lane.is_none() || !self.is_before(lane) && !self.without(Rule::LaneAsRead) {
            return Stored::Conflict;
        }
        self.failed &= self.is_follow_up();
        self.lane = Some(lane.clone());
        Stored::Yes
    }

    pub(super) fn queued(&self, from: Turn, to: Turn) -> Vec<Kept<Queued>> {
        let is_failing = self.lane.as_ref().is_some_and(|lane| matches!(lane.state, State::Failing(_)));
        if self.without(Rule::PassedOverFirst) && is_failing && self.is_person() {
            return Vec::new();
        }
        self.queued.range(from.0..to.0).map(|(_, queued)| queued.clone()).collect()
    }

    pub(super) fn leave(&mut self, queued: &Queued) {
        let turn = queued.turn.0;
        let is_its = self.queued.get(&turn).is_some_and(|waits| waits.candidate.id == queued.candidate.id);
        if is_its || self.without(Rule::LeavesItsOwn) {
            self.queued.remove(&turn);
        }
    }

    pub(super) fn take_turn(&mut self, id: &TaskId) -> PutBack {
        let task = number(id);
        let turn = self.turns.get(&task).copied().unwrap_or_default();
        if self.without(Rule::SentBeforeLeft) {
            self.queued.remove(&turn);
        }
        if !self.without(Rule::LetInOnce) && !self.is(task, |status| *status == Status::Queued) {
            let waits = self.is(task, |status| matches!(status, Status::Created { .. }));
            return if waits { PutBack::Waits } else { PutBack::MovedOn };
        }
        let target = self.of.arrival((task, turn)).target;
        self.set(task, |_| Status::Created { target });
        self.let_in(task, turn);
        PutBack::Waits
    }

    pub(super) fn pass_over(&mut self, task: u8) -> bool {
        if self.is(task, |status| *status == Status::Queued) {
            self.set(task, |_| Status::Failed { batch: None, reason: Reason::new("predecessor_failed") });
        }
        self.is(task, |status| matches!(status, Status::Failed { batch: None, .. }))
    }

    fn let_in(&mut self, task: u8, turn: u64) {
        if self.had.values().any(|other| *other == task) {
            self.breaks(Promise::TurnOnce);
        }
        if self.had.insert(turn, task).is_some_and(|other| other != task) {
            self.breaks(Promise::OneTaskATurn);
        }
        if self.failed {
            self.breaks(Promise::StoppedIsStopped);
        }
        let is_over = |before: u64| {
            let mut have_it = self.turns.iter().filter(|(_, turn)| **turn == before).peekable();
            let has_come = have_it.peek().is_some() || self.of.on_failure == OnFailure::FailRest;
            has_come && have_it.all(|(other, _)| *other == task || self.is(*other, Status::is_settled))
        };
        if !(self.of.first()..turn).all(is_over) {
            self.breaks(Promise::InOrder);
        }
    }

    /// The lane as a process sees it: without a rule it looks as if that had nothing to say.
    pub(super) fn shown_lane(&self) -> Option<Kept<Lane>> {
        let lane = self.lane.clone()?;
        let own = self.place().and_then(|place| self.of.follow_up(place));
        Some(match (self.removed, own) {
            (Some(Rule::OwnTurn), Some(own)) if matches!(lane.state, State::Taken(_)) => {
                Kept::new(Lane { state: State::Taken(task(own.task)), ..(*lane).clone() })
            }
            (Some(Rule::StoppedForAll), None) if lane.is_stopped() && !self.is_person() => {
                Kept::new(Lane { state: State::Free, head: lane.next, ..(*lane).clone() })
            }
            _ => lane,
        })
    }

    fn is_person(&self) -> bool {
        self.place().is_some_and(|place| self.of.is_person(place))
    }

    fn is_follow_up(&self) -> bool {
        self.place().is_some_and(|place| self.of.follow_up(place).is_some())
    }
}
