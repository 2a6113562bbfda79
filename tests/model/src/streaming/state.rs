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
    /// Those of the setting in their order, and the sweep.
    pub places: Vec<Place>,
    /// Sweeps that have come so far.
    pub sweeps: u8,
    /// Deaths that may still come.
    pub crashes: u8,
}

/// A process does its next I/O, which may be its last: then it begins anew.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Action {
    /// Which one.
    pub place: usize,
    /// Whether it dies then.
    pub dies: bool,
}
