//! One I/O of a step: what it asks of the world, and what it is told.

use groupage_core::domain::batch::{Assumes, Batch, Member};
use groupage_core::domain::lock::{Acquisition, Held, Term};
use groupage_core::domain::message::{Elect, Group, Handle};
use groupage_core::domain::rest::Stage;
use groupage_core::domain::{
    BatchId, Beat, Candidate, Round, Seq, Session, SessionId, Target, Task, TaskId, Timestamp,
};
use groupage_core::ports::{Freshness, Settlement};

use crate::harness::act::Answer;
use crate::harness::kept::Kept;
use crate::harness::recorder::Recorder;

/// The calls of one step.
pub type Ports = Recorder<Op, Answer>;

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
    Signal(Target, Held),
    /// `Locks::advance`.
    Advance(Term, Seq, Timestamp),
    /// `Locks::release`.
    Release(Term, Seq, u64),
    Batch(BatchId),
    Store(Kept<Batch>, Assumes),
    OpenSession(Kept<Session>),
    Renew(Kept<Session>),
    EndSession(SessionId, Beat),
    Session(SessionId),
    /// `Outbox::send`.
    Send(Vec<Sent>),
    /// `Downstream::call`, with the batch and the items in its body.
    Call(BatchId, Vec<TaskId>),
    /// `Env::sleep`.
    Sleep,
}

/// A message that a step sends.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What it says.
    pub body: Kept<Body>,
    /// Whether it is hidden at first.
    pub delayed: bool,
}

/// A message between the steps.
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
            | Self::Store(..)
            | Self::OpenSession(_)
            | Self::Renew(_)
            | Self::EndSession(..)
            | Self::Send(_)
            | Self::Call(..) => true,
            Self::Read(..) | Self::Waiting(_) | Self::Lock(_) | Self::Batch(_) | Self::Session(_) | Self::Sleep => {
                false
            }
        }
    }
}
