//! One I/O of a call about a lane: what it asks of the tables, and what it is told.

use groupage_core::domain::id::{TaskId, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::domain::task::Task;
use groupage_core::ports::{LinedUp, Newcomer};

use crate::kept::Kept;

/// What a call asks for.
#[derive(Clone, Debug)]
pub enum Op {
    /// `Lanes::lane`.
    Lane,
    /// `Lanes::line_up`: the lane, whether it is new, and who comes.
    LineUp(Kept<Lane>, bool, Kept<Vec<Newcomer>>),
    /// `Lanes::store_lane`.
    StoreLane(Kept<Lane>),
    /// `Lanes::queued`.
    Queued(Turn, Turn),
    /// `Lanes::leave`.
    Leave(Kept<Vec<Queued>>),
    /// `Tasks::read`.
    Read(Vec<TaskId>),
    /// `Tasks::take_turn`.
    TakeTurn(TaskId),
    /// `Tasks::pass_over`.
    PassOver(TaskId),
    /// `Outbox::send` of an election.
    Elect(Vec<TaskId>),
    /// `Outbox::send` of a failed task's notice.
    Tell(TaskId),
}

impl Op {
    /// Whether it writes or sends something.
    pub(super) const fn is_write(&self) -> bool {
        match self {
            Self::Lane | Self::Queued(..) | Self::Read(_) => false,
            Self::LineUp(..)
            | Self::StoreLane(_)
            | Self::Leave(_)
            | Self::TakeTurn(_)
            | Self::PassOver(_)
            | Self::Elect(_)
            | Self::Tell(_) => true,
        }
    }

    /// Whether it sends something: nobody sees that before the end.
    pub(super) const fn is_sending(&self) -> bool {
        matches!(self, Self::Elect(_) | Self::Tell(_))
    }
}

/// What it is told.
#[derive(Clone, Debug, Hash)]
pub enum Answer {
    /// The lane.
    Lane(Option<Kept<Lane>>),
    /// What became of those who came.
    LinedUp(Kept<LinedUp>),
    /// Who waits.
    Queued(Kept<Vec<Queued>>),
    /// Tasks.
    Tasks(Vec<Kept<Task>>),
    /// Whether the lane is as written, the task waits, or the task failed so.
    Is(bool),
    /// It is done.
    Done,
}
