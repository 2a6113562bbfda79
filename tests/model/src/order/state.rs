//! A state of the whole, and what may happen in it.

use super::process::Calls;
use super::world::World;
use crate::histories;

/// A process at work.
pub type Running = histories::Running<Calls>;
/// Where one of those that take part stands.
pub type Place = histories::Place<Running>;

/// A state.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    /// The tables.
    pub world: World,
    /// Those of the setting in their order, then each task's follow-up, then each task's second follow-up.
    pub places: Vec<Place>,
    /// Deaths that may still come.
    pub crashes: u8,
    /// Follow-ups that may still come twice.
    pub copies: u8,
}

/// What may happen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does its next I/O, which may be its last: then it begins anew.
    Io {
        /// Which one.
        place: usize,
        /// Whether it dies then.
        dies: bool,
    },
    /// The pipeline settles a task that waits for a batch.
    Settle {
        /// Which one.
        task: u8,
        /// Whether it fails.
        failed: bool,
    },
}
