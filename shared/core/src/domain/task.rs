//! One unit of work and where it stands.

use serde::{Deserialize, Serialize};

use super::id::{BatchId, LaneId, Round, Target, TaskId};
use super::outcome::Reason;
use super::stream::EventId;
use super::time::Timestamp;
use super::trace::{TraceParent, Traces};
use super::tracker::{ItemId, Outcome};
pub use super::traits::CREATED;
use super::traits::{Traits, are_usual};

/// Days a settled task and its batch stay readable; a stack may say otherwise.
///
/// A late duplicate of a message must find its task: a message lives for eighteen days at most, four in its queue and
/// fourteen in the dead-letter queue of the FIFO queue, which counts anew (of other queues: fourteen in all).
pub const RETENTION_DAYS: u64 = 30;

/// Where a task stands.
///
/// A task whose batch is being called is *shown* as in progress ([`Shown`](super::shown::Shown)), from its batch,
/// without a write per task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waits for its time, in the index of what is due. When that has come, an elect-leader or sweep lets it wait for a
    /// batch ([`fall_due`](crate::ports::Tasks::fall_due)), which makes it `Created`.
    Scheduled {
        /// What it is grouped by then.
        target: Target,
        /// When its time comes.
        due: Timestamp,
    },
    /// Waits for its turn: a task before it in its lane is not settled yet. Its turn makes it `Created`.
    Queued,
    /// Waits for a batch, in the index under `target`. A leader's [`join`](crate::ports::Tasks::join) moves it to
    /// `Batched`.
    Created {
        /// What it is grouped by.
        target: Target,
    },
    /// Names a batch: its member, or about to be. If the batch turns out to be without it, the process that finds that
    /// out moves it back to `Created`. The batch's outcome moves it to `Succeeded`, `Failed`, or, for another attempt,
    /// back to `Created` in the next round.
    Batched {
        /// The batch.
        batch: BatchId,
    },
    /// Settled: the downstream accepted it. Final.
    Succeeded {
        /// The batch that settled it.
        batch: BatchId,
    },
    /// Settled: refused for good, its attempts are used up, or a task before it in its lane failed. Final, unless a
    /// person runs it again: a [`retry`](crate::ports::Failures::retry) moves it to `Created`, in the next round.
    Failed {
        /// The batch that settled it; none did if it never had its turn.
        batch: Option<BatchId>,
        /// Why.
        reason: Reason,
    },
}

impl Status {
    /// The word stored in the `Status` attribute.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Scheduled { .. } => SCHEDULED,
            Self::Queued => QUEUED,
            Self::Created { .. } => CREATED,
            Self::Batched { .. } => BATCHED,
            Self::Succeeded { .. } => SUCCEEDED,
            Self::Failed { .. } => FAILED,
        }
    }

    /// The batch it is or was in.
    pub const fn batch(&self) -> Option<&BatchId> {
        match self {
            Self::Scheduled { .. } | Self::Queued | Self::Created { .. } => None,
            Self::Batched { batch } | Self::Succeeded { batch } => Some(batch),
            Self::Failed { batch, .. } => batch.as_ref(),
        }
    }

    /// Returns the Target of the batch that it waits for.
    pub const fn waits_for(&self) -> Option<&Target> {
        if let Self::Created { target } = self { Some(target) } else { None }
    }

    /// Returns the time that it waits for.
    pub const fn due(&self) -> Option<Timestamp> {
        if let Self::Scheduled { due, .. } = self { Some(*due) } else { None }
    }

    /// Returns why it failed.
    pub const fn reason(&self) -> Option<&Reason> {
        if let Self::Failed { reason, .. } = self { Some(reason) } else { None }
    }

    /// What became of it, if nothing more will happen to it.
    pub const fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Scheduled { .. } | Self::Queued | Self::Created { .. } | Self::Batched { .. } => None,
            Self::Succeeded { .. } => Some(Outcome::Succeeded),
            Self::Failed { .. } => Some(Outcome::Failed),
        }
    }

    /// Whether nothing more will happen to the task.
    pub const fn is_settled(&self) -> bool {
        self.outcome().is_some()
    }
}

/// The stored word for [`Status::Scheduled`].
pub const SCHEDULED: &str = "scheduled";
/// The stored word for [`Status::Queued`].
pub const QUEUED: &str = "queued";
/// The stored word for [`Status::Batched`].
pub const BATCHED: &str = "batched";
/// The stored word for [`Status::Succeeded`].
pub const SUCCEEDED: &str = "succeeded";
/// The stored word for [`Status::Failed`].
pub const FAILED: &str = "failed";

/// A task as its table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Where it stands.
    pub status: Status,
    /// How often it has returned to waiting.
    pub round: Round,
    /// Calls it was part of in earlier rounds.
    pub attempts: u32,
    /// Set if one of these may have been carried out, although no answer says so.
    pub is_unsure: bool,
    /// The payload as the sender wrote it, less insignificant white space.
    pub payload: String,
    /// [`digest`](super::id::digest) of payload, item and event: tells a repeat from another task under the same id.
    pub digest: String,
    /// When it was registered.
    pub created_at: Timestamp,
    /// Since when it has waited, in this round: in its first, since it or those that it gathered with came.
    pub waits_since: Timestamp,
    /// The tracker's item that is acked when it settles.
    pub item: Option<ItemId>,
    /// The stream's event that is settled with it.
    pub event: Option<EventId>,
    /// The lane that it goes in, if its route is ordered.
    pub lane: Option<LaneId>,
    /// Until when its sender wants it: no call of it begins later.
    pub expires_at: Option<Timestamp>,
    /// What its sender says that it belongs to.
    pub trace: Option<TraceParent>,
    /// What its route read out of its payload for the one that groups it.
    pub traits: Traits,
}

/// Who must hear that a task is settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// The tracker's item that is acked.
    pub item: Option<ItemId>,
    /// The stream's event that is settled.
    pub event: Option<EventId>,
    /// The lane whose next task has its turn.
    pub lane: Option<LaneId>,
}

impl Task {
    /// A task as registration first writes it.
    #[must_use]
    pub fn new(id: TaskId, target: Target, payload: String, digest: String, now: Timestamp) -> Self {
        Self {
            id,
            status: Status::Created { target },
            round: Round(0),
            attempts: 0,
            is_unsure: false,
            payload,
            digest,
            created_at: now,
            waits_since: now,
            item: None,
            event: None,
            lane: None,
            expires_at: None,
            trace: None,
            traits: Traits::default(),
        }
    }

    /// The same task, for a tracker's item.
    #[must_use]
    pub fn with_item(self, item: Option<ItemId>) -> Self {
        Self { item, ..self }
    }

    /// The same task, as a stream's event.
    #[must_use]
    pub fn with_event(self, event: Option<EventId>) -> Self {
        Self { event, ..self }
    }

    /// The same task, wanted until then.
    #[must_use]
    pub fn expiring(self, expires_at: Option<Timestamp>) -> Self {
        Self { expires_at, ..self }
    }

    /// The same task, of this trace.
    #[must_use]
    pub fn traced(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }

    /// The same task with these traits.
    #[must_use]
    pub fn with_traits(self, traits: Traits) -> Self {
        Self { traits, ..self }
    }

    /// The same task in a lane, where it waits for its turn.
    #[must_use]
    pub fn queued_in(self, lane: LaneId) -> Self {
        Self { status: Status::Queued, lane: Some(lane), ..self }
    }

    /// The same task, if it waits for a batch: not before this time.
    #[must_use]
    pub fn scheduled(self, due: Timestamp) -> Self {
        match self.status {
            Status::Created { target } => Self { status: Status::Scheduled { target, due }, ..self },
            Status::Scheduled { .. }
            | Status::Queued
            | Status::Batched { .. }
            | Status::Succeeded { .. }
            | Status::Failed { .. } => self,
        }
    }

    /// The same task, named by a batch from the beginning.
    #[must_use]
    pub fn batched_in(self, batch: BatchId) -> Self {
        Self { status: Status::Batched { batch }, ..self }
    }

    /// Who must hear that it is settled.
    pub fn ties(&self) -> Ties {
        Ties { item: self.item.clone(), event: self.event.clone(), lane: self.lane.clone() }
    }

    /// What grouping needs to know of it.
    pub fn candidate(&self) -> Candidate {
        let bytes = payload_bytes(&self.payload);
        Candidate { id: self.id.clone(), round: self.round, bytes, traits: self.traits }
    }

    /// Whether it waits, in just this round.
    pub fn waits_in(&self, round: Round) -> bool {
        self.round == round && matches!(self.status, Status::Created { .. })
    }
}

/// The trace contexts of those tasks that have one.
pub fn traces<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Traces {
    tasks.into_iter().filter_map(|task| Some((task.id.clone(), task.trace?))).collect()
}

/// A task that may become a batch's member: carried by messages and by the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The task.
    pub id: TaskId,
    /// The round it was seen waiting in; its move is conditional on it.
    pub round: Round,
    /// Bytes of its payload.
    pub bytes: u32,
    /// What else grouping needs to know of it.
    #[serde(default, skip_serializing_if = "are_usual")]
    pub traits: Traits,
}

/// A payload's size as batch limits count it, in bytes.
pub fn payload_bytes(payload: &str) -> u32 {
    u32::try_from(payload.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RouteName;

    fn target() -> Target {
        Target::of(&RouteName::new("r"), "t")
    }

    fn task() -> Task {
        Task::new(TaskId::new("a"), target(), r#"{"a":"é"}"#.to_owned(), String::new(), Timestamp(5))
    }

    #[test]
    fn a_status_says_its_word_its_batch_and_what_became_of_the_task() {
        let batch = BatchId::new("b");
        let failed = |batch| Status::Failed { batch, reason: Reason::new("http_400") };
        for (status, word, in_batch, outcome) in [
            (Status::Scheduled { target: target(), due: Timestamp(7) }, "scheduled", None, None),
            (Status::Queued, "queued", None, None),
            (Status::Created { target: target() }, "created", None, None),
            (Status::Batched { batch: batch.clone() }, "batched", Some(&batch), None),
            (Status::Succeeded { batch: batch.clone() }, "succeeded", Some(&batch), Some(Outcome::Succeeded)),
            (failed(Some(batch.clone())), "failed", Some(&batch), Some(Outcome::Failed)),
            (failed(None), "failed", None, Some(Outcome::Failed)),
        ] {
            assert_eq!((status.word(), status.batch(), status.outcome()), (word, in_batch, outcome));
            assert_eq!(status.is_settled(), outcome.is_some());
        }
    }

    #[test]
    fn a_task_waits_in_its_own_round_only_and_in_no_batch_or_queue() {
        let again = Task { round: Round(2), ..task() };
        assert!(again.waits_in(Round(2)));
        assert!(!again.waits_in(Round(1)), "it has left that round");
        assert!(!again.clone().batched_in(BatchId::new("b")).waits_in(Round(2)));
        assert!(!again.queued_in(LaneId::of(&RouteName::new("r"), "k")).waits_in(Round(2)));
    }

    #[test]
    fn a_task_that_is_scheduled_waits_for_no_batch_yet() {
        let scheduled = task().scheduled(Timestamp(9));
        assert_eq!(scheduled.status, Status::Scheduled { target: target(), due: Timestamp(9) });
        assert!(!scheduled.waits_in(Round(0)));
        assert_eq!(task().batched_in(BatchId::new("b")).scheduled(Timestamp(9)).status.word(), "batched");
    }

    #[test]
    fn whatever_waits_for_a_task_is_told_of_it() {
        assert_eq!(task().ties(), Ties::default());
        let ties = Ties {
            item: ItemId::parse("t:0:1").ok(),
            event: EventId::parse("s:1:2").ok(),
            lane: Some(LaneId::of(&RouteName::new("r"), "k")),
        };
        let tied = task().with_item(ties.item.clone()).with_event(ties.event.clone());
        assert_eq!(tied.queued_in(ties.lane.clone().unwrap()).ties(), ties);
    }

    #[test]
    fn only_tasks_with_a_context_are_among_the_traces() {
        let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let with = Task { id: TaskId::new("b"), ..task() }.traced(Some(trace));
        assert_eq!(traces([&with, &task()]), Traces::from([(TaskId::new("b"), trace)]));
    }

    #[test]
    fn a_candidate_is_as_large_as_its_payload_in_bytes() {
        let again = Task { round: Round(2), ..task() };
        let traits = Traits { weight: 3, ..Traits::default() };
        let candidate = Candidate { id: TaskId::new("a"), round: Round(2), bytes: 10, traits };
        assert_eq!(again.with_traits(traits).candidate(), candidate);
    }
}
