//! A state of the whole, and what may happen in it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::process::Process;
use super::world::{Ago, World};

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

/// Where one of those that take part stands.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Place {
    /// It is still to begin, or to begin anew.
    Waits,
    /// It is at work.
    Runs(Running),
    /// It is done.
    Ended,
}

/// A process, compared by its fingerprint.
#[derive(Clone, Debug)]
pub struct Running(pub Arc<Process>);

impl Hash for Running {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.fingerprint);
    }
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

impl Eq for Running {}

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

/// What becomes of a process after an I/O.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    GoesOn,
    /// It dies, and what it was told to do is begun anew.
    Dies,
    /// It dies, and nobody begins anew.
    DiesForGood,
}
