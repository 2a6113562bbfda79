//! A state of the whole, and what may happen in it.

use super::process::Calls;
use super::world::{Ago, World};
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
    /// The owner, the ackers in their order, and the sweep.
    pub places: Vec<Place>,
    /// Sweeps that have come so far.
    pub sweeps: u8,
    /// Deaths that may still come.
    pub crashes: u8,
    /// Whether a read that must not be old may be so.
    pub stale: bool,
}

/// A process does its next I/O, after which it may die.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Action {
    /// Which one.
    pub place: usize,
    /// What a read shows.
    pub ago: Ago,
    /// What becomes of it then.
    pub after: After,
}
