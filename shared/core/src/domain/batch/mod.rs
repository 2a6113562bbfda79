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
//! A batch on the express path is frozen by its first write: its members named it before.
//!
//! A call that failed for now leaves the batch `paused`; when the pause is over it is claimed again. A claim whose worker is
//! lost counts as a call that was made; [`Batch::lost`] says what the batch comes to.
//!
//! Every write is conditional on the [`Revision`] its writer read, so two deliveries of one message cannot both
//! write. Candidates are written *before* they are moved (intent first): whoever finds the batch later can drive each
//! of them to a known fate. Once frozen, the members never change.

pub mod bisection;
mod left;
mod lost;
mod room;
mod status;

use self::bisection::Bisection;
use super::gate::{IN_PLACE_MS, Ticket};
use super::id::{BatchId, Fence, Part, Revision, Round, SessionId, Target, TaskId};
use super::outcome::Results;
use super::task::{Candidate, Task};
use super::time::Timestamp;

pub use left::{Left, Positions};
pub use lost::Lost;
pub use room::{Limits, Pace, Room, next_look_ms};
pub use status::{Claim, FollowUp, Status};

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
    /// The fence of the leader that made it; the time in milliseconds if it needed none.
    pub fence: Fence,
    /// Rises with every write.
    pub revision: Revision,
    /// Where it stands.
    pub status: Status,
    /// Candidates while open or closing, members from then on.
    pub members: Vec<Member>,
    /// Bytes of the candidates' payloads.
    pub bytes: u64,
    /// Calls made so far, the present one included. Each claim is one: nothing that can fail lies between it and its call.
    pub attempts: u32,
    /// How far it has been taken apart, once it has lost its workers.
    pub apart: Option<Box<Bisection>>,
    /// What is left of its pending follow-up, if some of it could not be done.
    pub left: Option<Box<Left>>,
    /// When its first candidates were written.
    pub created_at: Timestamp,
    /// From when on somebody other than whoever is at work on it should look at it: sweep, or a worker that pulls.
    pub due: Timestamp,
    /// How often sweep sent its message again; a message with a lower number is superseded.
    pub nudges: u32,
    /// Whether it waits, once frozen, for a worker that pulls.
    pub pulled: bool,
    /// Its number in the line of the gate that it waits at, if the wait is long.
    pub ticket: Option<Ticket>,
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
    /// A worker has claimed it: ask for its session, and take over if that is over.
    AskFor {
        /// The session.
        session: SessionId,
    },
    /// A pause lasts: look again when it is over.
    LookAgain {
        /// When.
        at: Timestamp,
    },
    /// Nothing: it was never to be called, or is not frozen yet and its leader will hand it on.
    Nothing,
}

/// How long whoever is at work on a batch is left alone beyond what its state allows, in milliseconds. Longer than a
/// leader's lease outlasts its batch's window.
pub const GRACE_MS: u64 = 60_000;

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
            apart: None,
            left: None,
            created_at: now,
            due: now.plus_ms(wait_ms + GRACE_MS),
            nudges: 0,
            pulled: false,
            ticket: None,
        };
        batch.add(candidates);
        batch
    }

    /// The same open batch, for tasks of which the first has waited since then: its window began with that. It is not over before
    /// it is open.
    #[must_use]
    pub fn waited_for_since(self, since: Timestamp, wait_ms: u64) -> Self {
        let until = since.min(self.created_at).plus_ms(wait_ms).max(self.created_at);
        Self { status: Status::Open { until }, ..self }
    }

    /// A batch whose members name it already: it needs no leader, and is frozen by its first write.
    ///
    /// It has the time in place of a leader's fence, as a leader that is elected now would.
    #[must_use]
    pub fn express(id: BatchId, target: Target, members: &[Candidate], now: Timestamp) -> Self {
        Self { status: Status::Frozen, ..Self::open(id, target, Fence(now.0), members, now, 0) }
    }

    /// The item that takes the place of a batch that was never written.
    #[must_use]
    pub fn void(id: BatchId, target: Target, now: Timestamp) -> Self {
        Self { status: Status::Void, ..Self::open(id, target, Fence(0), &[], now, 0) }
    }

    /// This batch with more candidates beside the members that `joined` it, `bytes` of payloads together. Only an open
    /// batch takes any: callers check [`Status::Open`] first, and know what became of every earlier candidate.
    ///
    /// Candidates that turned out to be elsewhere are left out. In that round nobody can move them in any more, and a
    /// batch that kept them would grow with every move that is refused, beyond its limits and what its item may hold.
    #[must_use]
    pub fn with_candidates(&self, joined: &[Member], bytes: u64, candidates: &[Candidate]) -> Self {
        let mut next = Self { members: joined.to_vec(), bytes, ..self.revised(self.status.clone()) };
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
            Status::InProgress { claim } => Duty::AskFor { session: claim.session.clone() },
            Status::Paused { until } if *until > now => Duty::LookAgain { at: *until },
            Status::Paused { .. } => Duty::Call,
            Status::Settled { follow_up: FollowUp::Pending | FollowUp::Returning, .. } => Duty::FollowUp,
            Status::Settled { follow_up: FollowUp::Done, .. }
            | Status::Open { .. }
            | Status::Closing
            | Status::Empty
            | Status::Void => Duty::Nothing,
        }
    }

    /// Whether its members are final and its outcome is not recorded yet.
    #[must_use]
    pub const fn is_callable(&self) -> bool {
        match self.status {
            Status::Frozen | Status::InProgress { .. } | Status::Paused { .. } => true,
            Status::Open { .. } | Status::Closing | Status::Settled { .. } | Status::Empty | Status::Void => false,
        }
    }

    /// Whether a task is among its candidates or members, in just the round that it is in.
    #[must_use]
    pub fn has(&self, task: &Task) -> bool {
        self.members.iter().any(|member| member.round == task.round && member.id == task.id)
    }

    /// The session that has claimed it.
    #[must_use]
    pub const fn claimed_by(&self) -> Option<&SessionId> {
        match &self.status {
            Status::InProgress { claim } => Some(&claim.session),
            Status::Open { .. }
            | Status::Closing
            | Status::Frozen
            | Status::Paused { .. }
            | Status::Settled { .. }
            | Status::Empty
            | Status::Void => None,
        }
    }

    /// When somebody who finds it in the index of unfinished batches should look at it; `None` if nothing is left to
    /// do and the index does not show it.
    #[must_use]
    pub const fn unfinished(&self) -> Option<Timestamp> {
        match self.status {
            Status::Open { .. }
            | Status::Closing
            | Status::Frozen
            | Status::InProgress { .. }
            | Status::Paused { .. }
            | Status::Settled { follow_up: FollowUp::Pending | FollowUp::Returning, .. } => Some(self.due),
            Status::Settled { follow_up: FollowUp::Done, .. } | Status::Empty | Status::Void => None,
        }
    }

    /// How many calls of it each of its members was part of.
    #[must_use]
    pub fn calls_of_each(&self) -> u32 {
        self.apart.as_deref().map_or(self.attempts, Bisection::attempts)
    }

    /// This batch, claimed for one more call: that of its next part, if it is being taken apart.
    #[must_use]
    pub fn claimed(&self, claim: Claim) -> Self {
        let mut claimed = Self { attempts: self.attempts + 1, ..self.revised(Status::InProgress { claim }) };
        if let Some(apart) = &mut claimed.apart {
            apart.begin();
        }
        claimed
    }

    /// This claimed batch, taken apart so far.
    #[must_use]
    pub fn taken_apart(&self, apart: Bisection) -> Self {
        Self { apart: Some(Box::new(apart)), ..self.revised(self.status.clone()) }
    }

    /// This batch with its claim given up, for the same call to be made again after a pause.
    #[must_use]
    pub fn paused(&self, until: Timestamp) -> Self {
        self.revised(Status::Paused { until }).due_at(until.plus_ms(GRACE_MS))
    }

    /// This batch, which is to be called and whose worker, if it has one, is gone, with a ticket for the time `at`. Workers that pull leave it alone until just before, sweep for a while longer.
    #[must_use]
    pub fn waiting(&self, ticket: Ticket, at: Timestamp) -> Self {
        let due = if self.pulled { Timestamp(at.0.saturating_sub(IN_PLACE_MS)) } else { at.plus_ms(GRACE_MS) };
        let status = match &self.status {
            // Its worker is gone.
            Status::InProgress { .. } => Status::Paused { until: Timestamp(at.0.saturating_sub(IN_PLACE_MS)) },
            other @ (Status::Open { .. }
            | Status::Closing
            | Status::Frozen
            | Status::Paused { .. }
            | Status::Settled { .. }
            | Status::Empty
            | Status::Void) => other.clone(),
        };
        Self { ticket: Some(ticket), ..self.revised(status) }.due_at(due)
    }

    /// This batch with its outcome recorded.
    #[must_use]
    pub fn settled(&self, results: Results, at: Timestamp) -> Self {
        Self {
            apart: None,
            ticket: None,
            ..self.revised(Status::Settled { at, results, follow_up: FollowUp::Pending })
        }
    }

    /// This settled batch with nothing left to do; any other stays as it is, but for its revision.
    #[must_use]
    pub fn followed_up(&self) -> Self {
        self.with_follow_up(FollowUp::Done)
    }

    /// This settled batch with nothing left to do but to wait for members to return, the last one then.
    #[must_use]
    pub fn returning(&self, last: Timestamp) -> Self {
        self.with_follow_up(FollowUp::Returning).due_at(last.plus_ms(GRACE_MS))
    }

    /// This settled batch, of whose follow-up only this is left.
    #[must_use]
    pub fn with_left(&self, left: Left) -> Self {
        Self { left: Some(Box::new(left)), ..self.revised(self.status.clone()) }
    }

    fn with_follow_up(&self, next: FollowUp) -> Self {
        let mut revised = Self { left: None, ..self.revised(self.status.clone()) };
        if let Status::Settled { follow_up, .. } = &mut revised.status {
            *follow_up = next;
        }
        revised
    }

    /// This batch with its message sent again by sweep: earlier ones are superseded. The pause before the next time
    /// doubles with each, up to a quarter of an hour.
    #[must_use]
    pub fn nudged(&self, now: Timestamp) -> Self {
        let pause_ms = GRACE_MS << self.nudges.min(4);
        Self { nudges: self.nudges + 1, ..self.revised(self.status.clone()) }.due_at(now.plus_ms(pause_ms))
    }

    /// The same write of a batch that workers pull: they may claim it from `due` on.
    #[must_use]
    pub fn pulled_from(self, due: Timestamp) -> Self {
        Self { pulled: true, ..self.due_at(due) }
    }

    /// The part of its route in which the index of unfinished batches lists it.
    #[must_use]
    pub fn part(&self) -> Part {
        let part = Part::of(&self.id);
        if self.pulled && self.is_callable() { part.pulled() } else { part }
    }

    /// The same write, with another time for others to look at the batch.
    #[must_use]
    pub fn due_at(self, due: Timestamp) -> Self {
        Self { due, ..self }
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

#[cfg(test)]
mod tests {
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
    fn a_batch_is_called_from_its_freezing_to_its_outcome_and_listed_until_nothing_is_left_to_do() {
        let frozen = batch().frozen(batch().members);
        let settled = frozen.settled(Results::new(), Timestamp(1));
        let claim = Claim { session: SessionId::new("r/s") };
        for (batch, callable, unfinished) in [
            (batch(), false, true),
            (batch().closing(), false, true),
            (frozen.clone(), true, true),
            (frozen.claimed(claim.clone()), true, true),
            (frozen.paused(Timestamp(9)), true, true),
            (settled.clone(), false, true),
            (settled.returning(Timestamp(9)), false, true),
            (settled.followed_up(), false, false),
            (batch().frozen(Vec::new()), false, false),
            (Batch::void(batch().id, batch().target, Timestamp(0)), false, false),
        ] {
            assert_eq!((batch.is_callable(), batch.unfinished().is_some()), (callable, unfinished), "{batch:?}");
            let claimed_by = matches!(batch.status, Status::InProgress { .. }).then_some(&claim.session);
            assert_eq!(batch.claimed_by(), claimed_by);
            let (own, pulled) = (batch.part(), batch.clone().pulled_from(Timestamp(7)));
            assert_eq!((pulled.part(), pulled.due), (if callable { own.pulled() } else { own }, Timestamp(7)));
        }
    }

    #[test]
    fn nobody_looks_at_a_batch_before_whoever_is_at_work_on_it_had_its_time() {
        assert_eq!(batch().status, Status::Open { until: Timestamp(100) });
        assert_eq!(batch().unfinished(), Some(Timestamp(100 + GRACE_MS)));
        let frozen = batch().frozen(batch().members);
        assert_eq!(frozen.paused(Timestamp(50)).unfinished(), Some(Timestamp(50 + GRACE_MS)));
        let settled = frozen.settled(Results::new(), Timestamp(1));
        assert_eq!(settled.returning(Timestamp(70)).unfinished(), Some(Timestamp(70 + GRACE_MS)));
        assert_eq!(settled.returning(Timestamp(70)).duty(Timestamp(0)), Duty::FollowUp);
    }

    #[test]
    fn a_task_is_in_a_batch_in_one_round_only_and_all_bytes_count() {
        let again = Candidate { round: Round(1), ..candidate(1, 10) };
        let (target, candidates) = (batch().target, [candidate(1, 10), candidate(2, 5), again]);
        let express = Batch::express(BatchId::new("b"), target.clone(), &candidates, Timestamp(3));
        assert_eq!((express.members.len(), express.bytes), (2, 25));
        assert_eq!((express.duty(Timestamp(3)), express.fence), (Duty::Call, Fence(3)), "it needs no leader");
        let task = |id: &str| Task::new(TaskId::new(id), target.clone(), String::new(), String::new(), Timestamp(0));
        assert!(express.has(&Task { round: Round(1), ..task("t1") }) && express.has(&task("t2")));
        assert!(!express.has(&task("t1")) && !express.has(&task("t3")), "not in that round, or not at all");
        let frozen = express.frozen(vec![Member { id: TaskId::new("t2"), round: Round(0) }]);
        assert!(!frozen.has(&Task { round: Round(1), ..task("t1") }), "it did not come");
    }

    #[test]
    fn the_window_of_tasks_that_waited_begins_with_their_wait_and_ends_with_the_opening_at_the_earliest() {
        let target = batch().target;
        let opened = Batch::open(BatchId::new("b"), target, Fence(1), &[], Timestamp(1_000), 100);
        let until = |since| opened.clone().waited_for_since(Timestamp(since), 100).status;
        let expected = [500, 950, 1_000, 2_000].map(until);
        assert_eq!(expected, [1_000, 1_050, 1_100, 1_100].map(|until| Status::Open { until: Timestamp(until) }));
    }

    #[test]
    fn a_claimed_batch_is_asked_for_by_its_session() {
        let session = SessionId::new("#handlers-1/s");
        let claimed = batch().frozen(batch().members).claimed(Claim { session: session.clone() });
        assert_eq!(claimed.duty(Timestamp(49)), Duty::AskFor { session });
    }

    #[test]
    fn each_claim_counts_as_a_call_and_nothing_else_does() {
        let claim = || Claim { session: SessionId::new("#handlers-1/s") };
        let frozen = batch().frozen(batch().members);
        let once = frozen.claimed(claim());
        let twice = once.claimed(claim());
        assert_eq!([frozen.attempts, once.attempts, twice.attempts], [0, 1, 2]);
        let others = [once.paused(Timestamp(9)), once.nudged(Timestamp(9)), once.settled(Results::new(), Timestamp(9))];
        assert!(others.iter().all(|other| other.attempts == 1));
    }

    #[test]
    fn a_batch_leaves_the_index_when_nothing_is_left_to_do() {
        let settled = batch().frozen(batch().members).settled(Results::new(), Timestamp(1));
        assert!(settled.unfinished().is_some());
        assert_eq!(settled.followed_up().unfinished(), None);
        assert_eq!(settled.followed_up().duty(Timestamp(9)), Duty::Nothing);
        assert_eq!(batch().frozen(Vec::new()).unfinished(), None);
    }

    #[test]
    fn a_batch_that_is_sent_on_again_and_again_is_left_alone_for_longer_each_time() {
        let (once, now) = (batch().frozen(batch().members).nudged(Timestamp(0)), Timestamp(0));
        let twice = once.nudged(now);
        assert_eq!((once.nudges, twice.nudges), (1, 2));
        assert!(twice.due > once.due);
        assert!((0..99).fold(once, |batch, _| batch.nudged(now)).due <= Timestamp(16 * GRACE_MS));
    }

    #[test]
    fn a_pause_keeps_every_message_from_calling_until_it_is_over() {
        let paused = batch().frozen(batch().members).paused(Timestamp(50));
        assert_eq!(paused.duty(Timestamp(49)), Duty::LookAgain { at: Timestamp(50) });
        assert_eq!(paused.duty(Timestamp(50)), Duty::Call);
    }

    #[test]
    fn an_open_batch_keeps_no_candidate_that_is_elsewhere() {
        let (mut open, joined) = (batch(), batch().members);
        for n in 2..9 {
            open = open.with_candidates(&joined, 10, &[candidate(n, 5)]);
            assert_eq!((open.members.len(), open.bytes), (2, 15));
        }
        assert_eq!(open.members, [joined, vec![Member { id: TaskId::new("t8"), round: Round(0) }]].concat());
    }

    #[test]
    fn a_long_wait_is_written_down_with_its_ticket_and_settling_ends_it() {
        use crate::domain::gate::Of;
        let ticket = Ticket { of: Of::Route, number: 7, attempts: 0 };
        let frozen = batch().frozen(batch().members);
        let waiting = frozen.waiting(ticket, Timestamp(900_000));
        assert_eq!((waiting.ticket, waiting.due), (Some(ticket), Timestamp(900_000 + GRACE_MS)));
        assert_eq!((waiting.duty(Timestamp(1)), waiting.attempts), (Duty::Call, 0));
        let pulled = frozen.clone().pulled_from(Timestamp(1)).waiting(ticket, Timestamp(900_000));
        assert_eq!(pulled.due, Timestamp(900_000 - IN_PLACE_MS), "a worker finds it in time to wait in place");
        let left =
            frozen.claimed(Claim { session: SessionId::new("#handlers-1/s") }).waiting(ticket, Timestamp(900_000));
        assert_eq!(left.claimed_by(), None);
        assert_eq!(left.duty(Timestamp(900_000 - IN_PLACE_MS)), Duty::Call);
        assert_eq!(waiting.settled(Results::new(), Timestamp(1)).ticket, None);
    }

    #[test]
    fn every_step_raises_the_revision() {
        let open = batch();
        let frozen = open.frozen(open.members.clone());
        assert!(open.with_candidates(&[], 0, &[]).revision > open.revision);
        assert!(frozen.revision > open.revision);
        assert!(frozen.settled(Results::new(), Timestamp(1)).revision > frozen.revision);
    }
}
