//! A batch from its first candidate to its outcome.
//!
//! ```text
//!            candidates added          members named           claimed            outcome recorded
//!  (absent) ──────────────▶ open ──────────────────▶ frozen ──────────▶ in-progress ──────────▶ settled
//!      │                     │ successor, repeat       ▲ ▲                 │ ▲
//!      │ void                └──▶ closing ─────────────┘ │                 ▼ │ claimed
//!      ▼                             │ none left         │               paused
//!    void                            └──▶ empty ◀────────┘ (never called)
//! ```
//!
//! A call that failed for now leaves the batch `paused`; when the pause is over it is claimed again.
//!
//! Every write is conditional on the [`Revision`] its writer read, so two deliveries of one message cannot both
//! write. Candidates are written *before* they are moved (intent first): whoever finds the batch later can drive each
//! of them to a known fate. Once frozen, the members never change.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::id::{BatchId, Fence, Revision, Round, Target, TaskId, WorkerId};
use super::outcome::Results;
use super::task::Candidate;
use super::time::Timestamp;

/// Where a batch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its leader adds candidates until it is full or its window is over; then freezes it.
    Open {
        /// When the window is over.
        until: Timestamp,
    },
    /// Takes no more candidates: somebody other than its leader drives each to a known fate and freezes it.
    Closing,
    /// Its members are final; a message about it is on its way to the batch-handler, who claims it.
    Frozen,
    /// A worker has claimed it and makes the call; the same worker records the outcome, or pauses it for a later
    /// attempt. When the claim is over, anyone may claim it again.
    InProgress {
        /// The right to process it.
        claim: Claim,
    },
    /// Its call failed for now. Whoever is handed it after the pause claims it and makes the same call again; before
    /// that, nobody does, however many messages name it.
    Paused {
        /// When the pause is over.
        until: Timestamp,
    },
    /// The outcome is recorded: this write is the one acknowledgement. What follows (members' statuses,
    /// notifications) is derived from it and may be repeated.
    Settled {
        /// When.
        at: Timestamp,
        /// The members that did not succeed.
        results: Results,
    },
    /// Closed without a member; never called. Final.
    Empty,
    /// Put in place of a batch that was named but never written, so that its writer, should it wake up, fails. Final.
    Void,
}

impl Status {
    /// The word stored in the `Status` attribute.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Closing => "closing",
            Self::Frozen => "frozen",
            Self::InProgress { .. } => "in-progress",
            Self::Paused { .. } => "paused",
            Self::Settled { .. } => "settled",
            Self::Empty => "empty",
            Self::Void => "void",
        }
    }

    /// Whether nothing can happen to the batch any more that its table does not already say.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::Empty | Self::Void => true,
            Self::Open { .. } | Self::Closing | Self::Frozen | Self::InProgress { .. } | Self::Paused { .. } => false,
        }
    }
}

/// A worker's temporary right to process a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who.
    pub worker: WorkerId,
    /// When others may claim the batch.
    pub until: Timestamp,
}

/// A candidate or member: a task in the round it was waiting in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The task.
    pub id: TaskId,
    /// The round; every later write to the task is conditional on it.
    pub round: Round,
}

/// A batch as its table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id.
    pub id: BatchId,
    /// The one Target of all its members.
    pub target: Target,
    /// The fence of the leader that made it.
    pub fence: Fence,
    /// Rises with every write.
    pub revision: Revision,
    /// Where it stands.
    pub status: Status,
    /// Candidates while open or closing, members from then on.
    pub members: Vec<Member>,
    /// Bytes of the candidates' payloads.
    pub bytes: u64,
    /// Calls made so far, the present one included.
    pub attempts: u32,
    /// When its first candidates were written.
    pub created_at: Timestamp,
}

/// What a write of a batch assumes of what it overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumes {
    /// No item is there.
    Absent,
    /// The item is the one that was read.
    At(Revision),
}

/// What a worker that was handed a batch should do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Claim it and make the call.
    Call,
    /// Derive what follows from the recorded outcome, again if need be.
    FollowUp,
    /// Another worker's claim is live, or a pause lasts: look again when it is over.
    LookAgain {
        /// When.
        at: Timestamp,
    },
    /// Nothing: it was never to be called, or is not frozen yet and its leader will hand it on.
    Nothing,
}

impl Batch {
    /// A new batch with its first candidates.
    #[must_use]
    pub fn open(
        id: BatchId,
        target: Target,
        fence: Fence,
        candidates: &[Candidate],
        now: Timestamp,
        wait_ms: u64,
    ) -> Self {
        let mut batch = Self {
            id,
            target,
            fence,
            revision: Revision(1),
            status: Status::Open { until: now.plus_ms(wait_ms) },
            members: Vec::new(),
            bytes: 0,
            attempts: 0,
            created_at: now,
        };
        batch.add(candidates);
        batch
    }

    /// The item that takes the place of a batch that was never written.
    #[must_use]
    pub fn void(id: BatchId, target: Target, now: Timestamp) -> Self {
        Self { status: Status::Void, ..Self::open(id, target, Fence(0), &[], now, 0) }
    }

    /// This batch with more candidates. Only an open batch takes any: callers check [`Status::Open`] first.
    #[must_use]
    pub fn with_candidates(&self, candidates: &[Candidate]) -> Self {
        let mut next = self.revised(self.status.clone());
        next.add(candidates);
        next
    }

    /// This batch, taking no more candidates.
    #[must_use]
    pub fn closing(&self) -> Self {
        self.revised(Status::Closing)
    }

    /// This batch with its final members: frozen, or empty if there are none.
    #[must_use]
    pub fn frozen(&self, members: Vec<Member>) -> Self {
        let status = if members.is_empty() { Status::Empty } else { Status::Frozen };
        Self { members, ..self.revised(status) }
    }

    /// What is to be done with this batch by a worker that was handed it.
    #[must_use]
    pub fn duty(&self, now: Timestamp) -> Duty {
        match &self.status {
            Status::Frozen => Duty::Call,
            Status::InProgress { claim } if claim.until > now => Duty::LookAgain { at: claim.until },
            Status::Paused { until } if *until > now => Duty::LookAgain { at: *until },
            Status::InProgress { .. } | Status::Paused { .. } => Duty::Call,
            Status::Settled { .. } => Duty::FollowUp,
            Status::Open { .. } | Status::Closing | Status::Empty | Status::Void => Duty::Nothing,
        }
    }

    /// Whether a worker's claim is live.
    #[must_use]
    pub fn is_claimed(&self, now: Timestamp) -> bool {
        matches!(&self.status, Status::InProgress { claim } if claim.until > now)
    }

    /// This batch, claimed for one more call.
    #[must_use]
    pub fn claimed(&self, claim: Claim) -> Self {
        Self { attempts: self.attempts + 1, ..self.revised(Status::InProgress { claim }) }
    }

    /// This batch with its claim given up, for the same call to be made again after a pause.
    #[must_use]
    pub fn paused(&self, until: Timestamp) -> Self {
        self.revised(Status::Paused { until })
    }

    /// This batch with its outcome recorded.
    #[must_use]
    pub fn settled(&self, results: Results, at: Timestamp) -> Self {
        self.revised(Status::Settled { at, results })
    }

    fn revised(&self, status: Status) -> Self {
        Self { status, revision: self.revision.next(), ..self.clone() }
    }

    fn add(&mut self, candidates: &[Candidate]) {
        self.bytes += candidates.iter().map(|candidate| u64::from(candidate.bytes)).sum::<u64>();
        for Candidate { id, round, .. } in candidates {
            // A task that missed in a round which it has left may come in its next: then only that one counts.
            match self.members.iter_mut().find(|member| member.id == *id) {
                Some(member) => member.round = member.round.max(*round),
                None => self.members.push(Member { id: id.clone(), round: *round }),
            }
        }
    }
}

/// How much one call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members.
    pub max_items: usize,
    /// Bytes of payloads, all members together.
    pub max_bytes: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    pub wait_ms: u64,
}

/// Room left in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Members that still fit.
    pub items: usize,
    /// Bytes that still fit.
    pub bytes: u64,
    /// Whether the batch has no member yet: it then takes one task of any size, so that a limit which was lowered
    /// after a task's registration cannot keep it waiting for ever.
    pub empty: bool,
}

impl Limits {
    /// The room of an empty batch.
    #[must_use]
    pub const fn room(&self) -> Room {
        Room { items: self.max_items, bytes: self.max_bytes, empty: true }
    }

    /// The room left beside `joined` members with `bytes` of payloads.
    #[must_use]
    pub const fn room_beside(&self, joined: usize, bytes: u64) -> Room {
        Room {
            items: self.max_items.saturating_sub(joined),
            bytes: self.max_bytes.saturating_sub(bytes),
            empty: joined == 0,
        }
    }
}

impl Room {
    /// What is left of this room beside `candidates`.
    #[must_use]
    pub fn beside(&self, candidates: &[Candidate]) -> Self {
        let bytes: u64 = candidates.iter().map(|candidate| u64::from(candidate.bytes)).sum();
        Self {
            items: self.items.saturating_sub(candidates.len()),
            bytes: self.bytes.saturating_sub(bytes),
            empty: self.empty && candidates.is_empty(),
        }
    }

    /// Takes candidates from the front of `queue` while they fit. Returns them, and whether the batch is now full:
    /// no items are left, or the next candidate does not fit in the bytes.
    pub fn take(&self, queue: &mut VecDeque<Candidate>) -> (Vec<Candidate>, bool) {
        let mut taken = Vec::new();
        let mut bytes = 0_u64;
        while let Some(next) = queue.front() {
            let size = u64::from(next.bytes);
            let fits = bytes + size <= self.bytes || (self.empty && taken.is_empty());
            if taken.len() == self.items || !fits {
                return (taken, true);
            }
            bytes += size;
            taken.extend(queue.pop_front());
        }
        let full = taken.len() >= self.items;
        (taken, full)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::RouteName;

    fn candidate(n: u32, bytes: u32) -> Candidate {
        Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes }
    }

    fn batch() -> Batch {
        let target = Target::of(&RouteName::new("r"), "t");
        Batch::open(BatchId::new("b"), target, Fence(1), &[candidate(1, 10)], Timestamp(0), 100)
    }

    #[test]
    fn a_batch_without_members_is_never_called() {
        let empty = batch().frozen(Vec::new());
        assert_eq!(empty.duty(Timestamp(0)), Duty::Nothing);
    }

    #[test]
    fn a_live_claim_keeps_other_workers_away_and_a_dead_one_does_not() {
        let claimed =
            batch().frozen(batch().members).claimed(Claim { worker: WorkerId::new("w"), until: Timestamp(50) });
        assert_eq!(claimed.duty(Timestamp(49)), Duty::LookAgain { at: Timestamp(50) });
        assert_eq!(claimed.duty(Timestamp(50)), Duty::Call);
    }

    #[test]
    fn a_pause_keeps_every_message_from_calling_until_it_is_over() {
        let paused = batch().frozen(batch().members).paused(Timestamp(50));
        assert_eq!(paused.duty(Timestamp(49)), Duty::LookAgain { at: Timestamp(50) });
        assert_eq!(paused.duty(Timestamp(50)), Duty::Call);
    }

    #[test]
    fn every_step_raises_the_revision() {
        let open = batch();
        let frozen = open.frozen(open.members.clone());
        assert!(open.with_candidates(&[]).revision > open.revision);
        assert!(frozen.revision > open.revision);
        assert!(frozen.settled(Results::new(), Timestamp(1)).revision > frozen.revision);
    }

    #[test]
    fn an_empty_batch_takes_one_task_that_is_larger_than_the_limit() {
        let mut queue = VecDeque::from([candidate(1, 600), candidate(2, 1)]);
        let (taken, full) = Room { items: 9, bytes: 500, empty: true }.take(&mut queue);
        assert_eq!((taken.len(), full), (1, true));
    }

    proptest! {
        #[test]
        fn what_is_taken_fits_and_nothing_that_fits_is_left_in_front(
            sizes in proptest::collection::vec(0_u32..100, 0..50), items in 0_usize..20, bytes in 0_u64..500,
        ) {
            let mut queue: VecDeque<_> = sizes.iter().zip(0..).map(|(size, n)| candidate(n, *size)).collect();
            let before = queue.len();
            let (taken, full) = Room { items, bytes, empty: false }.take(&mut queue);
            let total: u64 = taken.iter().map(|c| u64::from(c.bytes)).sum();
            prop_assert!(taken.len() <= items && total <= bytes);
            prop_assert_eq!(taken.len() + queue.len(), before);
            if !full {
                prop_assert!(queue.is_empty() && taken.len() < items);
            }
        }
    }
}
