//! A state of the whole, and what may happen in it.

use super::process::Calls;
use super::world::World;
use crate::histories;

pub use crate::histories::After;

/// A process at work.
pub type Running = histories::Running<Calls>;
/// Where one of those that take part stands.
pub type Place = histories::Place<Running>;

/// A state.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    /// The tables.
    pub world: World,
    /// Those of the setting in their order, and the sweep.
    pub places: Vec<Place>,
    /// Sweeps that have come so far.
    pub sweeps: u8,
    /// Deaths that may still come.
    pub crashes: u8,
    /// Copies of takings that may still come.
    pub copies: u8,
    /// Reads that may still miss what was put last.
    pub lags: u8,
}

/// What may happen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does its next I/O, which may miss what was put last, and may be its last.
    Io {
        /// Which one.
        place: usize,
        /// Whether it misses what was put last.
        lags: bool,
        /// What becomes of it then.
        after: After,
    },
    /// A copy of a taking comes.
    Copy(usize),
}
