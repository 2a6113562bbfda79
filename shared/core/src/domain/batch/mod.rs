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
//! A call that failed for now leaves the batch `paused`; when the pause is over it is claimed again. A claim whose
//! worker is lost counts as a call that was made; [`Batch::lost`] says what the batch comes to. A call that begins a
//! [`Job`] leaves it paused, too, until that has ended: it is looked at instead of called.
//!
//! Every write is conditional on the [`Revision`] its writer read, so two deliveries of one message cannot both
//! write. Candidates are written *before* they are moved (intent first): a process that finds the batch later can drive
//! each of them to a known fate. Once frozen, the members never change.

mod apart;
pub mod bisection;
mod collapse;
mod excused;
mod job;
mod left;
mod load;
mod lost;
mod omitted;
mod outputs;
mod pace;
mod room;
mod status;
pub mod urgency;

use std::collections::{BTreeMap, HashSet};

use self::bisection::Bisection;
use super::answer::{Excerpt, Excerpts};
use super::gate::{Asks, IN_PLACE_MS, Of, Ticket, Unit};
use super::id::{BatchId, Fence, Part, Revision, Round, SessionId, Target, TaskId};
use super::outcome::{Reason, Results};
use super::task::{Candidate, Task};
use super::time::Timestamp;
use super::traits::Traits;

pub use excused::{Excused, Unlucky};
pub use job::Job;
pub use left::{Left, Positions};
pub use load::{Load, MAX_MEMBERS};
pub use lost::Lost;
pub use omitted::{Omission, Omitted};
pub use outputs::{ByPosition, OUTLIVES_MS, OutputPart};
pub use pace::{Pace, next_look_ms};
pub use room::{Limits, Room};
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
#[must_use]
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
    /// The highest priority of its members, once these are final.
    pub priority: u8,
    /// The weight of its members together, once these are final; `None`: one each.
    pub weight: Option<u64>,
    /// While it is filled: the traits of those candidates that have some.
    pub traits: Option<Box<BTreeMap<TaskId, Traits>>>,
    /// Calls made so far, the present one included. Each claim is one: nothing that can fail lies between it and its
    /// call.
    pub attempts: u32,
    /// Calls of these that use up no attempt of its members, if there are any.
    pub excused: Option<Excused>,
    /// Calls of these of which the downstream surely did nothing.
    pub undone: u32,
    /// Members that it is called without, if there are any.
    pub omitted: Option<Box<Omitted>>,
    /// How far it has been taken apart, if that takes more than one claim.
    pub apart: Option<Box<Bisection>>,
    /// What its calls were answered that failed.
    pub answers: Option<Box<Excerpts>>,
    /// The job that its call has begun, if it has begun one.
    pub job: Option<Box<Job>>,
    /// The parts in which the outputs of its members are kept.
    pub outputs: Vec<OutputPart>,
    /// What is left of its pending follow-up, if some of it could not be done.
    pub left: Option<Box<Left>>,
    /// When its first candidates were written.
    pub created_at: Timestamp,
    /// From when on a process other than the one at work on it should look at it: sweep, or a worker that pulls.
    pub due: Timestamp,
    /// How often its message was sent anew, by sweep or by a delivery of one that has waited often; a message with a
    /// lower number is superseded.
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
#[must_use]
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
    /// Its call has begun a job: look whether that has ended.
    Look,
    /// A pause lasts: look again when it is over.
    LookAgain {
        /// When.
        at: Timestamp,
    },
    /// Nothing: it was never to be called, or is not frozen yet and its leader will hand it on.
    Nothing,
}

/// How long the process at work on a batch is left alone beyond what its state allows, in milliseconds. Longer than a
/// leader's lease outlasts its batch's window.
pub const GRACE_MS: u64 = 60_000;

impl Batch {
    /// A new batch with its first candidates.
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
            priority: 0,
            weight: None,
            traits: None,
            attempts: 0,
            excused: None,
            undone: 0,
            omitted: None,
            apart: None,
            answers: None,
            job: None,
            outputs: Vec::new(),
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

    /// The same open batch, for tasks of which the first has waited since then: its window began with that. It is not
    /// over before it is open.
    pub fn waited_for_since(self, since: Timestamp, wait_ms: u64) -> Self {
        let until = since.min(self.created_at).plus_ms(wait_ms).max(self.created_at);
        Self { status: Status::Open { until }, ..self }
    }

    /// A batch whose members name it already: it needs no leader, and is frozen by its first write.
    ///
    /// It has the time in place of a leader's fence, as a leader that is elected now would.
    pub fn express(id: BatchId, target: Target, members: &[Candidate], now: Timestamp) -> Self {
        Self { status: Status::Frozen, ..Self::open(id, target, Fence(now.0), members, now, 0) }.collapsed(now)
    }

    /// The item that takes the place of a batch that was never written.
    pub fn void(id: BatchId, target: Target, now: Timestamp) -> Self {
        Self { status: Status::Void, ..Self::open(id, target, Fence(0), &[], now, 0) }
    }

    /// This batch with more candidates beside the members that `joined` it, `bytes` of payloads together. Only an open
    /// batch takes any: callers check [`Status::Open`] first, and know what became of every earlier candidate.
    ///
    /// Candidates that turned out to be elsewhere are left out. In that round nobody can move them in any more, and a
    /// batch that kept them would grow with every move that is refused, beyond its limits and what its item may hold.
    pub fn with_candidates(&self, joined: &[Member], bytes: u64, candidates: &[Candidate]) -> Self {
        let mut next = Self { bytes, ..self.revised(self.status.clone()).with_members(joined.to_vec()) };
        if let Some(traits) = &mut next.traits {
            let joined: HashSet<&TaskId> = joined.iter().map(|member| &member.id).collect();
            traits.retain(|id, _| joined.contains(id));
        }
        next.add(candidates);
        next
    }

    /// This batch, taking no more candidates.
    pub fn closing(&self) -> Self {
        self.revised(Status::Closing)
    }

    /// This batch with its final members: frozen, or empty if there are none.
    pub fn frozen(&self, members: Vec<Member>) -> Self {
        let status = if members.is_empty() { Status::Empty } else { Status::Frozen };
        self.revised(status).with_members(members)
    }

    /// What is to be done with this batch by a worker that was handed it.
    pub fn duty(&self, now: Timestamp) -> Duty {
        match &self.status {
            Status::Frozen => Duty::Call,
            Status::InProgress { claim } => Duty::AskFor { session: claim.session.clone() },
            Status::Paused { until } if *until > now => Duty::LookAgain { at: *until },
            Status::Paused { .. } if self.job.is_some() => Duty::Look,
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
    pub const fn is_callable(&self) -> bool {
        match self.status {
            Status::Frozen | Status::InProgress { .. } | Status::Paused { .. } => true,
            Status::Open { .. } | Status::Closing | Status::Settled { .. } | Status::Empty | Status::Void => false,
        }
    }

    /// Whether a task is among its candidates or members, in just the round that it is in.
    pub fn has(&self, task: &Task) -> bool {
        self.members.iter().any(|member| member.round == task.round && member.id == task.id)
    }

    /// The session that has claimed it.
    pub const fn claimed_by(&self) -> Option<&SessionId> {
        if let Status::InProgress { claim } = &self.status { Some(&claim.session) } else { None }
    }

    /// When somebody who finds it in the index of unfinished batches should look at it; `None` if nothing is left to
    /// do and the index does not show it.
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

    /// Since when nothing of it is left to do. Anything else never expires: nobody may have been told of it.
    pub const fn over_since(&self) -> Option<Timestamp> {
        match self.status {
            Status::Settled { at, follow_up: FollowUp::Done, .. } => Some(at),
            Status::Empty | Status::Void => Some(self.created_at),
            Status::Open { .. }
            | Status::Closing
            | Status::Frozen
            | Status::InProgress { .. }
            | Status::Paused { .. }
            | Status::Settled { follow_up: FollowUp::Pending | FollowUp::Returning, .. } => None,
        }
    }

    /// Returns what its call takes of a rate of these units. A part of it takes as much as the whole.
    pub fn cost(&self, of: Unit) -> u64 {
        let items = self.members.len().saturating_sub(self.omits()) as u64;
        match of {
            Unit::Calls => 1,
            Unit::Items => items,
            Unit::Bytes => self.bytes,
            Unit::Weight => self.weight.unwrap_or(items),
        }
    }

    /// How many calls of it count as attempts of its members, apart from those of its parts.
    pub fn counted(&self) -> u32 {
        self.attempts - self.excused.map_or(0, |excused| excused.calls.min(self.attempts))
    }

    /// Whether a call before the present one may run still, or was carried out.
    pub const fn may_be_done(&self) -> bool {
        self.attempts > self.undone + 1
    }

    /// Returns whether a call of it may run still, or was carried out, if the last one got no answer.
    pub const fn was_unanswered(&self) -> bool {
        self.attempts > self.undone
    }

    /// How many calls of it each of its members was part of, of those that count.
    pub fn calls_of_each(&self) -> u32 {
        self.apart.as_deref().map_or_else(|| self.counted(), Bisection::attempts)
    }

    /// This batch, claimed for one more call: that of its next part, if it is being taken apart.
    pub fn claimed(&self, claim: Claim) -> Self {
        let mut claimed = Self { attempts: self.attempts + 1, ..self.revised(Status::InProgress { claim }) };
        if let Some(apart) = &mut claimed.apart {
            apart.begin();
        }
        claimed
    }

    /// The same batch, with what a call of it was answered; the next write keeps it.
    pub fn answered(mut self, answer: Option<(Reason, Excerpt)>) -> Self {
        if let Some((reason, excerpt)) = answer {
            let kept = self.answers.take().map(|kept| *kept).unwrap_or_default();
            self.answers = Some(Box::new(kept.with(reason, excerpt)));
        }
        self
    }

    /// This claimed batch, taken apart so far.
    pub fn taken_apart(&self, apart: Bisection) -> Self {
        Self { apart: Some(Box::new(apart)), ..self.revised(self.status.clone()) }
    }

    /// This batch with its claim given up, for the same call to be made again after a pause.
    pub fn paused(&self, until: Timestamp) -> Self {
        self.revised(Status::Paused { until }).due_at(until.plus_ms(GRACE_MS))
    }

    /// This batch, which is to be called and whose worker, if it has one, is gone, until the time `at`, perhaps with a
    /// ticket. Workers that pull leave it alone until just before, sweep for a while longer.
    pub fn waiting(&self, ticket: Option<Ticket>, at: Timestamp) -> Self {
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
        Self { ticket: ticket.or(self.ticket), ..self.revised(status) }.due_at(due)
    }

    /// Returns how this batch asks at such a limiter for its next call.
    pub fn asks(&self, of: Of) -> Asks {
        let ticket = self.ticket.filter(|ticket| ticket.attempts == self.attempts && ticket.of == of);
        ticket.map_or(Asks::Anew, |ticket| Asks::With(ticket.number))
    }

    /// Returns this batch with the next revision: a claim by what was read before is refused.
    pub fn noted(self) -> Self {
        self.revised(self.status.clone())
    }

    /// This batch with its outcome recorded. Of members that it was called without, what was noted counts.
    pub fn settled(&self, mut results: Results, at: Timestamp) -> Self {
        results.extend(self.omission_results());
        // Its permits may still have to be given back.
        let job = self.job.clone().map(|job| Box::new(Job { uncalled: Vec::new(), ..*job }));
        Self {
            apart: None,
            ticket: None,
            job,
            ..self.revised(Status::Settled { at, results, follow_up: FollowUp::Pending })
        }
    }

    /// This settled batch with nothing left to do; any other stays as it is, except its revision.
    pub fn followed_up(&self) -> Self {
        self.with_follow_up(FollowUp::Done)
    }

    /// This settled batch with nothing left to do but to wait for members to return, the last one then.
    pub fn returning(&self, last: Timestamp) -> Self {
        self.with_follow_up(FollowUp::Returning).due_at(last.plus_ms(GRACE_MS))
    }

    /// This settled batch, of whose follow-up only this is left.
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
    pub fn nudged(&self, now: Timestamp) -> Self {
        let pause_ms = GRACE_MS << self.nudges.min(4);
        Self { nudges: self.nudges + 1, ..self.revised(self.status.clone()) }.due_at(now.plus_ms(pause_ms))
    }

    /// Returns this batch, which waits, with a message that comes at this time: all others are superseded. `None` if it
    /// does not wait: a worker has claimed it, or it is not to be called.
    pub fn woken(&self, at: Timestamp) -> Option<Self> {
        let status = match self.status {
            Status::Frozen => Status::Frozen,
            Status::Paused { until } => Status::Paused { until: until.min(at) },
            Status::Open { .. }
            | Status::Closing
            | Status::InProgress { .. }
            | Status::Settled { .. }
            | Status::Empty
            | Status::Void => return None,
        };
        let due = if self.pulled { at } else { at.plus_ms(GRACE_MS) };
        Some(Self { nudges: self.nudges + 1, ..self.revised(status) }.due_at(due))
    }

    /// The same write of a batch that workers pull: they may claim it from `due` on.
    pub fn pulled_from(self, due: Timestamp) -> Self {
        Self { pulled: true, ..self.due_at(due) }
    }

    /// The part of its route in which the index of unfinished batches lists it.
    pub fn part(&self) -> Part {
        let part = Part::of(&self.id);
        if self.pulled && self.is_callable() { part.pulled() } else { part }
    }

    /// The same write, with another time for others to look at the batch.
    pub fn due_at(self, due: Timestamp) -> Self {
        Self { due, ..self }
    }

    fn revised(&self, status: Status) -> Self {
        Self { status, revision: self.revision.next(), ..self.clone() }
    }

    fn add(&mut self, candidates: &[Candidate]) {
        self.bytes += candidates.iter().map(|candidate| u64::from(candidate.bytes)).sum::<u64>();
        for Candidate { id, round, traits, .. } in candidates {
            if *traits != Traits::default() {
                self.traits.get_or_insert_default().insert(id.clone(), *traits);
            }
            // A task that missed in a round which it has left may come in its next: then only that one counts.
            match self.members.iter_mut().find(|member| member.id == *id) {
                Some(member) => member.round = member.round.max(*round),
                None => self.members.push(Member { id: id.clone(), round: *round }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
