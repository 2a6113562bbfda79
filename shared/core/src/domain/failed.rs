//! Failed tasks: what is kept of a failure, where it is found, and what a retry of one comes to.
//!
//! The write that settles a task as failed files it, by its route and the time, and a retry or a drop takes it out
//! again. So a task that succeeds pays nothing for it. A retry is a new round of the same task: the round is what keeps
//! late copies of the earlier outcome from it, in the task's own writes and in those of its lane.

use std::str::FromStr;

use super::answer::Excerpt;
use super::id::{LaneId, Round, RouteName, Target, TaskId};
use super::lane::Lane;
use super::outcome::Reason;
use super::task::{Status, Task};
use super::task_message::Rejection;
use super::time::Timestamp;
use super::traits::Traits;

/// For this many days a failed task is listed and can be retried, unless its route says otherwise.
pub const KEEP_DAYS: u64 = 14;

/// What is kept of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// What the task was grouped by, or would have been.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// Calls that it was part of, over the rounds since it was sent or retried.
    pub attempts: u32,
    /// What the downstream said.
    pub answer: Option<Excerpt>,
    /// For how long it is kept at least, in milliseconds.
    pub keep_ms: u64,
}

/// Where a failed task is filed: the time of its failure, then its id. As text it sorts as it does by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{:015}#{id}", at.0)]
pub struct Filed {
    /// When it failed.
    pub at: Timestamp,
    /// The task.
    pub id: TaskId,
}

impl FromStr for Filed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be the `next` of the page before";
        let (at, id) = text.split_once('#').ok_or(WRONG)?;
        let is_time = at.len() == 15 && at.bytes().all(|digit| digit.is_ascii_digit());
        let at = at.parse().ok().filter(|_| is_time).ok_or(WRONG)?;
        Ok(Self { at: Timestamp(at), id: TaskId::parse(id).map_err(|_| WRONG)? })
    }
}

/// A failed task as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which, and when it failed.
    pub filed: Filed,
    /// What it was grouped by, or would have been.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// Calls that it was part of.
    pub attempts: u32,
    /// What the downstream said; its text is not in the index.
    pub answer: Option<Excerpt>,
}

impl Failed {
    /// A failure as it is filed.
    pub fn of(id: TaskId, at: Timestamp, failure: &Failure) -> Self {
        let Failure { target, reason, attempts, answer, .. } = failure.clone();
        Self { filed: Filed { at, id }, target, reason, attempts, answer }
    }
}

/// Which failed tasks are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Their route.
    pub route: RouteName,
    /// Their Target, if only those of one are.
    pub target: Option<Target>,
    /// Why they failed, if only those of one reason are.
    pub reason: Option<Reason>,
    /// Those that failed at this time or later.
    pub from: Timestamp,
    /// Those that failed before this time.
    pub until: Timestamp,
}

/// Which failed tasks of whatever route are looked for: those that all of it holds for that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Their route.
    pub route: Option<RouteName>,
    /// Their Target.
    pub target: Option<Target>,
    /// Why they failed.
    pub reason: Option<Reason>,
    /// They failed at this time or later.
    pub from: Option<Timestamp>,
    /// They failed before this time.
    pub until: Option<Timestamp>,
}

impl Wanted {
    /// The same, of those that are kept for so long: later they are not listed, whenever their records go.
    pub fn kept_for(self, keep_ms: u64, now: Timestamp) -> Self {
        Self { from: self.from.max(Timestamp(now.0.saturating_sub(keep_ms))), ..self }
    }

    /// Whether this one is looked for.
    pub fn wants(&self, failed: &Failed) -> bool {
        (self.from..self.until).contains(&failed.filed.at)
            && self.target.as_ref().is_none_or(|target| *target == failed.target)
            && self.reason.as_ref().is_none_or(|reason| *reason == failed.reason)
    }
}

/// A failed task that goes into its next round, and the lane that waits for it again. Both are written together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The task.
    pub id: TaskId,
    /// The round in which it failed.
    pub failed_in: Round,
    /// What it is grouped by now.
    pub target: Target,
    /// Its lane as it is then, if it has one.
    pub lane: Option<Lane>,
    /// What grouping needs to know of it beside its size.
    pub traits: Traits,
    /// When.
    pub at: Timestamp,
}

/// Why a task is not retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is none of this id.
    #[error("no task with this id is known: it was never registered, or it was settled long ago")]
    Unknown,
    /// It has not failed, or somebody retried it.
    #[error("not failed: it is {0}")]
    NotFailed(&'static str),
    /// The time is past until which its sender wants it.
    #[error("it was wanted until {}: send its work as a new task", .0.shown())]
    Expired(Timestamp),
    /// Tasks after it in its lane have had their turn.
    #[error("its order key `{}` has gone on without it: send its work as a new task, which comes last", .0.key())]
    PassedOver(LaneId),
    /// Nobody knows what it was.
    #[error("its contents were erased")]
    Erased,
    /// No route takes it now.
    #[error("no route takes it now: {0}")]
    NoRoute(Rejection),
}

impl Task {
    /// What a retry of it comes to, if it is grouped by `target` now and `lane` is its lane as it was read.
    pub fn retried(&self, target: Target, lane: Option<&Lane>, now: Timestamp) -> Result<Retry, Refused> {
        match &self.status {
            Status::Failed { .. } => {}
            Status::Scheduled { .. }
            | Status::Queued
            | Status::Created { .. }
            | Status::Batched { .. }
            | Status::Succeeded { .. } => {
                return Err(Refused::NotFailed(self.status.word()));
            }
        }
        if let Some(expires_at) = self.expires_at.filter(|expires_at| *expires_at <= now) {
            return Err(Refused::Expired(expires_at));
        }
        let lane = match &self.lane {
            None => None,
            Some(id) => {
                let resumed = lane.and_then(|lane| lane.retried(&self.id, self.round, now));
                Some(resumed.ok_or_else(|| Refused::PassedOver(id.clone()))?)
            }
        };
        let (id, traits) = (self.id.clone(), self.traits);
        Ok(Retry { id, failed_in: self.round, target, lane, traits, at: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{BatchId, Turn};
    use crate::domain::lane::{Numbering, OnFailure, State};
    use crate::domain::tracker::Outcome;

    const NOW: Timestamp = Timestamp(9_000);

    fn target() -> Target {
        Target::new("r:t")
    }

    fn failed(lane: Option<LaneId>) -> Task {
        let task = Task::new(TaskId::new("a"), target(), "{}".to_owned(), String::new(), Timestamp(5));
        let status = Status::Failed { batch: Some(BatchId::new("b")), reason: Reason::new("http_400") };
        Task { status, round: Round(3), attempts: 5, lane, ..task }
    }

    fn lane(state: State) -> Lane {
        let id = LaneId::of(&RouteName::new("r"), "k");
        Lane { state, head: Turn(4), next: Turn(9), ..Lane::open(id, Numbering::ByArrival, Timestamp(1)) }
    }

    #[test]
    fn a_failed_task_goes_into_its_next_round_and_any_other_stays() {
        let retry = failed(None).retried(target(), None, NOW).unwrap();
        assert_eq!((retry.failed_in, retry.lane, retry.at), (Round(3), None, NOW));
        let batch = BatchId::new("b");
        for status in [
            Status::Queued,
            Status::Created { target: target() },
            Status::Batched { batch: batch.clone() },
            Status::Succeeded { batch },
        ] {
            let word = status.word();
            let other = Task { status, ..failed(None) };
            assert_eq!(other.retried(target(), None, NOW), Err(Refused::NotFailed(word)));
        }
    }

    #[test]
    fn what_nobody_wants_any_more_is_not_run_again() {
        let until = |at| failed(None).expiring(Some(Timestamp(at))).retried(target(), None, NOW);
        assert!(until(NOW.0 + 1).is_ok());
        assert_eq!(until(NOW.0), Err(Refused::Expired(NOW)));
    }

    #[test]
    fn a_lane_waits_again_for_the_task_that_holds_it_and_takes_back_no_turn() {
        let (own, other) = (TaskId::new("a"), TaskId::new("other"));
        let id = lane(State::Free).id;
        for state in [State::Held(own.clone()), State::Taken(own.clone())] {
            let before = lane(state);
            let after = failed(Some(id.clone())).retried(target(), Some(&before), NOW).unwrap().lane.unwrap();
            assert_eq!((after.state, after.head), (State::Taken(own.clone()), before.head));
            assert_eq!((after.revision, after.since), (before.revision.next(), Round(4)));
        }
        let states = [State::Free, State::Failing(own), State::Held(other.clone()), State::Taken(other)];
        for state in states.map(Some).into_iter().chain([None]) {
            let refused = failed(Some(id.clone())).retried(target(), state.map(lane).as_ref(), NOW);
            assert_eq!(refused, Err(Refused::PassedOver(id.clone())));
        }
    }

    #[test]
    fn a_late_copy_of_the_earlier_outcome_changes_nothing_for_the_lane() {
        let own = TaskId::new("a");
        let held = lane(State::Held(own.clone()));
        let again = held.retried(&own, Round(3), NOW).unwrap();
        let settled = |round, outcome| again.settled((&own, round), outcome, OnFailure::Hold, None, NOW);
        assert_eq!(settled(Round(3), Outcome::Failed), None);
        assert_eq!(settled(Round(4), Outcome::Failed).unwrap().state, State::Held(own.clone()));
        let gone_on = settled(Round(5), Outcome::Succeeded).unwrap();
        assert_eq!((gone_on.state, gone_on.head, gone_on.since), (State::Free, Turn(5), Round(0)));
    }

    #[test]
    fn a_place_sorts_as_text_as_it_does_by_itself_and_is_read_again() {
        let filed = |at, id: &str| Filed { at: Timestamp(at), id: TaskId::new(id) };
        let mut places = vec![filed(1_700_000_000_123, "b#1"), filed(99, "z"), filed(1_700_000_000_123, "a")];
        places.sort();
        let mut texts: Vec<String> = places.iter().map(ToString::to_string).collect();
        assert_eq!(texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Filed>>(), places);
        texts.sort();
        assert_eq!(texts, places.iter().map(ToString::to_string).collect::<Vec<_>>());
        for wrong in ["", "#a", "12#a", "00000000000000x#a", "000000000000099#", "000000000000099#ä"] {
            assert!(wrong.parse::<Filed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn those_are_wanted_that_the_filter_names() {
        let failure = Failure { target: target(), reason: Reason::new("x"), attempts: 1, answer: None, keep_ms: 0 };
        let failed = Failed::of(TaskId::new("a"), Timestamp(50), &failure);
        let (from, until, route) = (Timestamp(50), Timestamp(51), RouteName::new("r"));
        let wanted = Wanted { route, target: None, reason: None, from, until };
        assert!(wanted.wants(&failed));
        assert!(wanted.clone().kept_for(10, Timestamp(60)).wants(&failed));
        assert!(!wanted.clone().kept_for(10, Timestamp(61)).wants(&failed));
        let (target, reason) = (Some(target()), Some(Reason::new("x")));
        assert!(Wanted { target, reason, ..wanted.clone() }.wants(&failed));
        for other in [
            Wanted { target: Some(Target::new("r:u")), ..wanted.clone() },
            Wanted { reason: Some(Reason::new("y")), ..wanted.clone() },
            Wanted { from: until, ..wanted.clone() },
            Wanted { until: from, ..wanted },
        ] {
            assert!(!other.wants(&failed), "{other:?}");
        }
    }
}
