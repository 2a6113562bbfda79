//! One I/O of a step: what it asks of the world, and what it is told.

use std::fmt::Debug;

use groupage_core::domain::batch::Assumes;
use groupage_core::domain::gate::Scope;
use groupage_core::domain::lock::Acquisition;
use groupage_core::domain::rest::Stage;

use crate::harness::recorder::Recorder;
use crate::prelude::*;

/// The calls of one step.
pub type Ports = Recorder<Op, Told>;

/// An answer, and when it was given.
#[derive(Clone, Debug, Hash)]
pub struct Told {
    /// The time, in milliseconds.
    pub at: u64,
    /// The answer.
    pub answer: Answer,
}

/// Returns an answer that carries this value.
pub fn told<T: Clone + Debug + Send + Sync + 'static>(value: T) -> Answer {
    Answer::of(Kept::new(value))
}

/// What a step asks for.
#[derive(Clone, Debug)]
pub enum Op {
    Register(Task),
    Read(Vec<TaskId>, Freshness),
    /// `Tasks::waiting`, from the beginning of the index.
    Waiting(Target),
    Join(TaskId, Round, BatchId),
    /// `Tasks::put_back`.
    PutBack(Candidate, BatchId, Target, u32),
    /// `Tasks::settle`.
    Settle(Member, BatchId, Settlement),
    Lock(Target),
    /// `Locks::acquire`.
    Acquire(Target, Acquisition),
    /// `Locks::signal`.
    Signal(Term),
    /// `Locks::advance`.
    Advance(Term, Seq, Timestamp),
    /// `Locks::release`.
    Release(Term, Seq, u64),
    Gate(Scope),
    StoreGate(Scope, Kept<Gate>),
    /// `Gates::take_ticket`, of this flow, so far behind its last one.
    TakeTicket(Scope, u64, u64),
    /// `Gates::give_back` of a lease, once a call has ended then.
    GiveBack(Scope, BatchId, Timestamp, Option<Timestamp>),
    Batch(BatchId),
    Store(Kept<Batch>, Assumes),
    /// `Batches::all_unfinished`, of those that are due before now.
    Unfinished(Timestamp),
    OpenSession(Kept<Session>),
    Renew(Kept<Session>),
    EndSession(SessionId, Beat),
    Session(SessionId),
    Sessions(Pool),
    /// `Outbox::send`.
    Send(Vec<Sent>),
    /// `Downstream::call` begins, with the batch and the items in its body.
    Call(BatchId, Vec<TaskId>),
    /// `Env::sleep`, until then.
    Sleep(u64),
    /// A pause that nobody lives to see the end of, unless the model says so: between heartbeats, or for a look that
    /// takes too long.
    Pause,
}

/// A message that a step sends.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What it says.
    pub body: Kept<Body>,
    /// The time for which it is hidden at first, in milliseconds.
    pub delay_ms: u64,
}

/// The beginning of a step: a message, or the time for sweep.
#[derive(Clone, Debug)]
pub enum Body {
    /// To register-task: the tasks with these numbers, in one event.
    Register(Vec<u8>),
    /// To register-task: the rest of an event, and how far it has come.
    Rest(Vec<u8>, Stage),
    /// To elect-leader.
    Elect(Elect),
    /// To group-batch.
    Group(Group),
    /// To batch-handler.
    Handle(Handle),
    /// Sweep begins by itself.
    Sweep,
}

impl Body {
    /// Which step gets it, and about whom.
    pub fn title(&self) -> String {
        let short = |id: &BatchId| id.as_str().chars().take(4).collect::<String>();
        match self {
            Self::Register(numbers) => format!("register {numbers:?}"),
            Self::Rest(numbers, stage) => format!("register a rest, {numbers:?}, {stage:?}"),
            Self::Elect(Elect::Waiting(election)) => format!("elect {}", election.workflow),
            Self::Elect(Elect::Several(elections)) => format!("elect {} workflows", elections.len()),
            Self::Elect(Elect::Returning(returning)) => format!("elect, back from {}", short(&returning.batch)),
            Self::Elect(Elect::Due(due)) => format!("elect {} that are due", due.tasks.len()),
            Self::Group(Group::Lead(lead)) => format!("lead {} under {}", lead.term.workflow, lead.term.fence),
            Self::Group(Group::Finish(finish)) => format!("finish {}", short(&finish.batch)),
            Self::Handle(handle) => format!("handle {}", short(&handle.batch)),
            Self::Sweep => "sweep".to_owned(),
        }
    }

    /// The batch that is to be called.
    pub const fn handled(&self) -> Option<&BatchId> {
        match self {
            Self::Handle(handle) => Some(&handle.batch),
            Self::Register(_) | Self::Rest(..) | Self::Elect(_) | Self::Group(_) | Self::Sweep => None,
        }
    }
}

/// What the downstream says.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Says {
    /// Every member is accepted.
    Accepted,
    /// The first member failed for now.
    FirstFailed,
    /// Not before some time has passed.
    RetryAfter,
    /// Try again later.
    Unavailable,
}

impl Op {
    /// Whether it can change what others see. A step that dies after a look dies as well before it.
    pub const fn writes(&self) -> bool {
        match self {
            Self::Register(_)
            | Self::Join(..)
            | Self::PutBack(..)
            | Self::Settle(..)
            | Self::Acquire(..)
            | Self::Signal(..)
            | Self::Advance(..)
            | Self::Release(..)
            | Self::StoreGate(..)
            | Self::TakeTicket(..)
            | Self::GiveBack(..)
            | Self::Store(..)
            | Self::OpenSession(_)
            | Self::Renew(_)
            | Self::EndSession(..)
            | Self::Send(_)
            | Self::Call(..) => true,
            Self::Read(..)
            | Self::Waiting(_)
            | Self::Lock(_)
            | Self::Gate(_)
            | Self::Batch(_)
            | Self::Unfinished(..)
            | Self::Session(_)
            | Self::Sessions(_)
            | Self::Sleep(_)
            | Self::Pause => false,
        }
    }

    /// Returns whether it is about a gate: most others are of one batch alone.
    pub const fn is_of_a_gate(&self) -> bool {
        matches!(self, Self::Gate(_) | Self::StoreGate(..) | Self::TakeTicket(..) | Self::GiveBack(..))
    }
}
