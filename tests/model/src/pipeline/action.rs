//! One thing that happens, and to whom.

use crate::harness::histories::After;
use crate::pipeline::world::Comes;

/// One thing that happens.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does its next I/O; a message that is due begins one.
    Step(Who, Comes, After),
    /// A process renews its session.
    Beat(u8),
    /// A process falls asleep, until its next step.
    Sleep(u8),
    /// A message comes twice: the queue has two of it, or it is delivered once more while a process has it in hand.
    /// Then it is still one message, which one acknowledgement deletes.
    Copy(Who),
    /// The lease of this shard's lock is over.
    LeaseOver(u8),
    /// A session's time is over.
    SessionOver(u8),
    /// A batch's window or pause is over.
    WaitOver(u8),
}

/// A process, or the one that a message begins.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Who {
    /// The message at this place.
    Message(u8),
    /// The process at this place.
    Running(u8),
}
