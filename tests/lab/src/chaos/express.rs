//! Tasks that fill batches by themselves, and records that come again in other company.

use rand::RngExt;
use rand::rngs::StdRng;

/// What a seed has of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    /// Whether the route makes full batches at once.
    pub(super) express: bool,
    /// Whether messages of the task queue come several at once, and again in other company.
    pub(super) mixes: bool,
    /// Whether all tasks come in one event.
    burst: bool,
    /// Whether another event holds some of the tasks, whatever event they came in first.
    overlaps: bool,
}

pub(super) fn of(dice: &mut StdRng) -> Random {
    let express = dice.random_bool(0.8);
    Random {
        express,
        mixes: dice.random_bool(0.7),
        burst: express && dice.random_bool(0.7),
        overlaps: express && dice.random_bool(0.4),
    }
}

impl Random {
    /// The events of the tasks, given those that they would come in otherwise.
    pub(super) fn events(self, dice: &mut StdRng, bodies: &[String], events: &mut Vec<(u64, Vec<String>)>) {
        if self.burst {
            *events = vec![(0, bodies.to_vec())];
        }
        if self.overlaps {
            let from = dice.random_range(0..bodies.len());
            let to = dice.random_range(from..bodies.len()) + 1;
            let at = [0, 0, 5, 100, 61_000][dice.random_range(0..5)];
            events.push((at, bodies[from..to].to_vec()));
        }
    }
}
