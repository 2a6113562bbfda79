//! Lanes: the tasks of one order key, each of which has its turn when the one before it is settled.
//!
//! The index of waiting tasks cannot give order, since it lags. A lane numbers its tasks as they are accepted, in one
//! transaction with the tasks themselves, so numbers have no holes; or the tasks bring their numbers along, and a hole
//! waits for the task that fills it. Only the task whose turn it is enters the pipeline. From there on it is grouped,
//! called and retried as any other, beside tasks of other lanes, and its successor follows when its outcome is
//! recorded.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{LaneId, Revision, Round, Target, TaskId, Turn};
use super::task::{Candidate, Task};
use super::time::Timestamp;
use super::tracker::Outcome;

/// What a failed task means to those behind it in its lane. Other lanes never notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They wait until a person lets the lane go on (`groupage lane resume`).
    #[default]
    Hold,
    /// The next one has its turn.
    Skip,
    /// They fail too, and so does whatever comes, until a person lets the lane go on.
    FailRest,
}

/// Who says in which order a lane's tasks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The task that is accepted first goes first.
    ByArrival,
    /// The tasks' own numbers, from this one on, without holes.
    BySequence {
        /// The number of a lane's first task.
        first: Turn,
    },
}

/// The highest number that a task may bring along: expressions tell whole numbers up to here apart.
pub const MAX_SEQUENCE: u64 = (1 << 51) - 1;

/// Where a route wants a task to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its lane.
    pub lane: LaneId,
    /// Who numbers the lane's tasks.
    pub numbering: Numbering,
    /// The task's own number, if tasks bring theirs along.
    pub sequence: Option<Turn>,
}

/// Where a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has the turn: the task that gets the number `head` goes on at once.
    Free,
    /// This task has the turn; it is on its way through the pipeline.
    Taken(TaskId),
    /// This task failed, and nobody goes on until a person says so.
    Held(TaskId),
    /// This task failed, and so does every task that comes, until a person says otherwise.
    Failing(TaskId),
}

/// A lane as its item says it; its size does not depend on how many tasks wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its id.
    pub id: LaneId,
    /// Where it stands.
    pub state: State,
    /// Whose turn it is, or will be. All numbers below have had their turn, or never will.
    pub head: Turn,
    /// One more than the highest number of all.
    pub next: Turn,
    /// Outcomes of the task that has the turn count from this round on: those of earlier rounds are late copies of what
    /// was retried since.
    pub since: Round,
    /// Whether its tasks bring their numbers along. Such a lane is never forgotten, as its numbers would begin anew.
    pub by_sequence: bool,
    /// Whether a person let it go on who may have died before the task was let in that has the turn.
    pub is_resuming: bool,
    /// Rises with every write.
    pub revision: Revision,
    /// The time when it was written last, or since which it stands still.
    pub active_at: Timestamp,
}

/// A task that waits for its turn: what its successor's turn needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its number.
    pub turn: Turn,
    /// What it will be grouped by.
    pub target: Target,
    /// The task, in the round in which it will wait for a batch.
    pub candidate: Candidate,
}

/// What a task that comes to its lane finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has its turn at once.
    First,
    /// It waits for its turn.
    Behind(Turn),
    /// It brings a number that is used already, by another task.
    Used,
    /// It brings a number that is too far ahead of those that have come.
    TooFarAhead,
    /// It brings a number, and the lane counts arrivals; or the other way round.
    OtherNumbering,
}

/// How far ahead of the lane's turn a number may be. One that is far beyond all others is a mistake; with `fail_rest`
/// it would use up all numbers before it.
pub const MAX_AHEAD: u64 = 1_000_000;

/// A number that a lane has missed for this long may never come.
const MISSING_MS: u64 = 60_000;

/// Returns the time since when a lane has missed a number that may never come.
pub const fn missing_since(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub(MISSING_MS))
}

impl Lane {
    /// A lane that nobody has ever been in. Its revisions begin at `now`, so that they differ from those of a lane of
    /// this id that was forgotten.
    pub const fn open(id: LaneId, numbering: Numbering, now: Timestamp) -> Self {
        let (head, by_sequence) = match numbering {
            Numbering::ByArrival => (Turn(0), false),
            Numbering::BySequence { first } => (first, true),
        };
        let (revision, since, is_resuming) = (Revision(now.0), Round(0), false);
        Self { id, state: State::Free, head, next: head, since, by_sequence, is_resuming, revision, active_at: now }
    }

    /// The lane after these tasks have come to it, in this order, and what each of them finds; `None` if it has not
    /// changed.
    pub fn lined_up(&self, tasks: &[(TaskId, Option<Turn>)], now: Timestamp) -> (Option<Self>, Vec<Place>) {
        let mut lane = self.clone();
        let mut used = BTreeSet::new();
        let places: Vec<Place> = tasks
            .iter()
            .map(|(task, sequence)| {
                let turn = sequence.unwrap_or(lane.next);
                if sequence.is_some() != lane.by_sequence {
                    return Place::OtherNumbering;
                }
                // Where everybody fails it does not matter whose number is used.
                let is_over = !matches!(lane.state, State::Failing(_))
                    && (turn < lane.head || (turn == lane.head && lane.state != State::Free));
                if is_over || !used.insert(turn) {
                    return Place::Used;
                }
                if turn.0.saturating_sub(lane.head.0) > MAX_AHEAD && lane.by_sequence {
                    return Place::TooFarAhead;
                }
                lane.next = lane.next.max(turn.next());
                match &lane.state {
                    State::Free if turn == lane.head => {
                        lane.state = State::Taken(task.clone());
                        return Place::First;
                    }
                    // Its turn is over before it came.
                    State::Failing(_) => lane.head = lane.next,
                    State::Free | State::Taken(_) | State::Held(_) => {}
                }
                Place::Behind(turn)
            })
            .collect();
        let came = places.iter().any(|place| matches!(place, Place::First | Place::Behind(_)));
        // A task that comes to a lane that stands still does not move it.
        let stands = (self.is_stopped() || self.missing().is_some()) && lane.state == self.state;
        let at = if stands { self.active_at } else { now };
        (came.then(|| lane.written(at)), places)
    }

    /// The number whose task has its turn when the one at the head is settled.
    pub const fn following(&self) -> Turn {
        self.head.next()
    }

    /// The lane after a task was settled in this round; `next` is the task with the number that follows, if it has
    /// come. `None` if that task does not have the turn: its successor was let in already, or it was retried since.
    pub fn settled(
        &self,
        (task, round): (&TaskId, Round),
        outcome: Outcome,
        on_failure: OnFailure,
        next: Option<&Queued>,
        now: Timestamp,
    ) -> Option<Self> {
        if self.state != State::Taken(task.clone()) || round < self.since {
            return None;
        }
        Some(match (outcome, on_failure) {
            (Outcome::Failed, OnFailure::Hold) => Self { state: State::Held(task.clone()), ..self.written(now) },
            (Outcome::Failed, OnFailure::FailRest) => {
                let state = State::Failing(task.clone());
                Self { state, head: self.next, since: Round(0), ..self.written(now) }
            }
            (Outcome::Failed, OnFailure::Skip) | (Outcome::Succeeded, _) => self.gone_on(next, now),
        })
    }

    /// The lane after the task at its head, which failed in this round, was retried: it has the turn again. `None` if
    /// others had theirs since.
    #[must_use]
    pub fn retried(&self, task: &TaskId, failed_in: Round, now: Timestamp) -> Option<Self> {
        match &self.state {
            State::Taken(at_head) | State::Held(at_head) if at_head == task => {
                Some(Self { state: State::Taken(task.clone()), since: failed_in.next(), ..self.written(now) })
            }
            State::Free | State::Taken(_) | State::Held(_) | State::Failing(_) => None,
        }
    }

    /// The lane after the task at its head was passed by, which ended while it waited for its turn; `None` if no task
    /// has the turn.
    pub fn passed_by(&self, next: Option<&Queued>, now: Timestamp) -> Option<Self> {
        let is_resuming = self.is_resuming && next.is_some();
        matches!(self.state, State::Taken(_)).then(|| Self { is_resuming, ..self.gone_on(next, now) })
    }

    /// The lane after a person let it go on; `None` if nothing stops it.
    pub fn resumed(&self, next: Option<&Queued>, now: Timestamp) -> Option<Self> {
        match &self.state {
            State::Free | State::Taken(_) => None,
            State::Held(_) => Some(Self { is_resuming: next.is_some(), ..self.gone_on(next, now) }),
            State::Failing(_) => Some(Self { state: State::Free, ..self.written(now) }),
        }
    }

    /// The lane after a person gave a missing number up: the first task that waits has the turn. `None` if the lane
    /// does not wait for that number.
    pub fn skipped(&self, missing: Turn, first: &Queued, now: Timestamp) -> Option<Self> {
        let state = State::Taken(first.candidate.id.clone());
        let is_missing = self.missing() == Some(missing) && first.turn > missing;
        is_missing.then(|| Self { state, head: first.turn, since: Round(0), is_resuming: true, ..self.written(now) })
    }

    /// The number that tasks which have come wait for, if it has not come.
    pub fn missing(&self) -> Option<Turn> {
        (self.state == State::Free && self.head < self.next).then_some(self.head)
    }

    /// The lane after the task was let in that has the turn; `None` if nobody doubted that.
    pub fn entered(&self, now: Timestamp) -> Option<Self> {
        self.is_resuming.then(|| self.written(now))
    }

    /// Whether a failure stopped it, until a person has let it go on.
    pub const fn is_stopped(&self) -> bool {
        match self.state {
            State::Free | State::Taken(_) => self.is_resuming,
            State::Held(_) | State::Failing(_) => true,
        }
    }

    /// Whether this task's failure stopped it.
    pub fn is_stopped_by(&self, task: &TaskId) -> bool {
        match &self.state {
            State::Free | State::Taken(_) => false,
            State::Held(failed) | State::Failing(failed) => failed == task,
        }
    }

    /// Whether it may be forgotten once nothing has happened for long.
    pub fn is_idle(&self) -> bool {
        self.state == State::Free && !self.by_sequence
    }

    /// Who has the turn and has not had it before: the task at the head, if it still waits there.
    pub fn has_turn(&self, queued: &Queued) -> bool {
        queued.turn == self.head && self.state == State::Taken(queued.candidate.id.clone())
    }

    fn gone_on(&self, next: Option<&Queued>, now: Timestamp) -> Self {
        let state = next.map_or(State::Free, |next| State::Taken(next.candidate.id.clone()));
        Self { state, head: self.following(), since: Round(0), ..self.written(now) }
    }

    fn written(&self, now: Timestamp) -> Self {
        Self { revision: self.revision.next(), active_at: now, is_resuming: false, ..self.clone() }
    }
}

impl Queued {
    /// A task that waits for this turn.
    pub fn of(task: &Task, target: Target, turn: Turn) -> Self {
        Self { turn, target, candidate: task.candidate() }
    }
}

#[cfg(test)]
mod tests;
