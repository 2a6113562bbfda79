//! The tables of one lane, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::id::{BatchId, TaskId, Turn};
use groupage_core::domain::lane::{Lane, OnFailure, Queued, State};
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::task::{Status, Task};
use groupage_core::ports::{LinedUp, Newcomer};

use super::io::{Answer, Op};
use super::process::Role;
use super::rules::{Promise, Rule};
use super::setting::{Does, Setting, number, task};
use crate::kept::Kept;

/// The tables.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct World {
    lane: Option<Kept<Lane>>,
    queued: BTreeMap<u64, Kept<Queued>>,
    tasks: BTreeMap<u8, Kept<Task>>,
    /// The turns that tasks came with.
    turns: BTreeMap<u8, u64>,
    /// Who had which turn.
    had: BTreeMap<u64, u8>,
    /// For whom a leader was sent.
    elected: BTreeSet<u8>,
    /// Of whose failure people are told.
    told: BTreeSet<u8>,
    /// Whether a task failed and no person has let the lane go on since.
    failed: bool,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
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
        match self.tasks.get(&task)?.status {
            Status::Succeeded { .. } => Some(false),
            Status::Failed { batch: Some(_), .. } => Some(true),
            Status::Queued | Status::Created { .. } | Status::Batched { .. } | Status::Failed { batch: None, .. } => {
                None
            }
        }
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
            Status::Created { .. } | Status::Batched { .. } => false,
        };
        let is_moving = matches!(lane.state, State::Taken(_));
        !is_moving && self.queued.iter().all(is_queued) && self.tasks.iter().all(is_settled)
    }

    /// Carries out an I/O.
    pub(super) fn apply(&mut self, op: &Op, role: Role, setting: &Setting, removed: Option<Rule>) -> Answer {
        match op {
            Op::Lane => Answer::Lane(self.lane.clone().map(|lane| shown(lane, role, setting, removed))),
            Op::LineUp(lane, is_new, newcomers) => {
                Answer::LinedUp(Kept::new(self.line_up(lane, *is_new, newcomers, setting, removed)))
            }
            Op::StoreLane(lane) => Answer::Is(self.store_lane(lane, role, removed)),
            Op::Queued(from, to) => Answer::Queued(Kept::new(self.queued(*from, *to, role, setting, removed))),
            Op::Leave(queued) => {
                queued.iter().for_each(|queued| self.leave(queued, removed));
                Answer::Done
            }
            Op::Read(ids) => Answer::Tasks(ids.iter().filter_map(|id| self.tasks.get(&number(id)).cloned()).collect()),
            Op::TakeTurn(id) => Answer::Is(self.take_turn(id, setting, removed)),
            Op::PassOver(id) => Answer::Is(self.pass_over(number(id))),
            Op::Elect(ids) => {
                self.elected.extend(ids.iter().map(number));
                Answer::Done
            }
            Op::Tell(id) => {
                self.told.insert(number(id));
                Answer::Done
            }
        }
    }

    /// A call settles a task.
    pub(super) fn settle(&mut self, task: u8, failed: bool, setting: &Setting) {
        let batch = BatchId::new("b");
        self.set(task, |_| match failed {
            false => Status::Succeeded { batch },
            true => Status::Failed { batch: Some(batch), reason: Reason::new("no") },
        });
        self.failed |= failed && setting.on_failure != OnFailure::Skip;
    }

    fn line_up(
        &mut self,
        lane: &Lane,
        is_new: bool,
        newcomers: &[Newcomer],
        setting: &Setting,
        removed: Option<Rule>,
    ) -> LinedUp {
        let before = newcomers.iter().filter_map(|newcomer| self.tasks.get(&number(&newcomer.task.id)));
        let before: Vec<Task> = before.map(|task| (**task).clone()).collect();
        if !before.is_empty() && removed != Some(Rule::NewTask) {
            return LinedUp::Before(before);
        }
        let is_as_read = if is_new { self.lane.is_none() } else { self.is_before(lane) };
        if !is_as_read && removed != Some(Rule::LinedUpAsRead) {
            return LinedUp::Conflict;
        }
        let turns = newcomers.iter().filter_map(|newcomer| newcomer.queued.as_ref().map(|queued| queued.turn));
        let used: Vec<Turn> = turns.filter(|turn| self.queued.contains_key(&turn.0)).collect();
        if !used.is_empty() && removed != Some(Rule::FreeTurn) {
            return LinedUp::Used(used);
        }
        self.lane = Some(Kept::new(lane.clone()));
        for Newcomer { task, queued } in newcomers {
            let turn = queued.as_ref().map_or(lane.head, |queued| queued.turn).0;
            let task = (number(&task.id), Kept::new(task.clone()));
            self.turns.insert(task.0, turn);
            self.tasks.insert(task.0, task.1);
            match queued {
                None => self.let_in(task.0, turn, setting),
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

    fn store_lane(&mut self, lane: &Kept<Lane>, role: Role, removed: Option<Rule>) -> bool {
        if self.lane.as_ref() == Some(lane) {
            return true;
        }
        if self.lane.is_none() || !self.is_before(lane) && removed != Some(Rule::LaneAsRead) {
            return false;
        }
        self.failed &= !matches!(role, Role::One(_));
        self.lane = Some(lane.clone());
        true
    }

    fn queued(&self, from: Turn, to: Turn, role: Role, setting: &Setting, removed: Option<Rule>) -> Vec<Queued> {
        let is_failing = self.lane.as_ref().is_some_and(|lane| matches!(lane.state, State::Failing(_)));
        if removed == Some(Rule::PassedOverFirst) && is_failing && is_person(role, setting) {
            return Vec::new();
        }
        self.queued.range(from.0..to.0).map(|(_, queued)| (**queued).clone()).collect()
    }

    fn leave(&mut self, queued: &Queued, removed: Option<Rule>) {
        let turn = queued.turn.0;
        let is_its = self.queued.get(&turn).is_some_and(|waits| waits.candidate.id == queued.candidate.id);
        if is_its || removed == Some(Rule::LeavesItsOwn) {
            self.queued.remove(&turn);
        }
    }

    fn take_turn(&mut self, id: &TaskId, setting: &Setting, removed: Option<Rule>) -> bool {
        let task = number(id);
        let turn = self.turns.get(&task).copied().unwrap_or_default();
        if removed == Some(Rule::SentBeforeLeft) {
            self.queued.remove(&turn);
        }
        if removed != Some(Rule::LetInOnce) && !self.is(task, |status| *status == Status::Queued) {
            return self.is(task, |status| matches!(status, Status::Created { .. }));
        }
        let target = setting.arrival((task, turn)).target;
        self.set(task, |_| Status::Created { target });
        self.let_in(task, turn, setting);
        true
    }

    fn pass_over(&mut self, task: u8) -> bool {
        if self.is(task, |status| *status == Status::Queued) {
            self.set(task, |_| Status::Failed { batch: None, reason: Reason::new("predecessor_failed") });
        }
        self.is(task, |status| matches!(status, Status::Failed { batch: None, .. }))
    }

    fn let_in(&mut self, task: u8, turn: u64, setting: &Setting) {
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
            let has_come = have_it.peek().is_some() || setting.on_failure == OnFailure::FailRest;
            has_come && have_it.all(|(other, _)| *other == task || self.is(*other, Status::is_settled))
        };
        if !(setting.first()..turn).all(is_over) {
            self.breaks(Promise::InOrder);
        }
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

    pub(super) fn breaks(&mut self, promise: Promise) {
        self.broken = self.broken.or(Some(promise));
    }
}

/// The lane as a process sees it: without a rule it looks as if that had nothing to say.
fn shown(lane: Kept<Lane>, role: Role, setting: &Setting, removed: Option<Rule>) -> Kept<Lane> {
    match (removed, role) {
        (Some(Rule::OwnTurn), Role::FollowsUp { task: own, .. }) if matches!(lane.state, State::Taken(_)) => {
            Kept::new(Lane { state: State::Taken(task(own)), ..(*lane).clone() })
        }
        (Some(Rule::StoppedForAll), Role::One(_)) if lane.is_stopped() && !is_person(role, setting) => {
            Kept::new(Lane { state: State::Free, head: lane.next, ..(*lane).clone() })
        }
        _ => lane,
    }
}

fn is_person(role: Role, setting: &Setting) -> bool {
    matches!(role, Role::One(n) if setting.who.get(n) == Some(&Does::LetsGoOn))
}
