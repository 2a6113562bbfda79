//! An ordered route, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::scenario::keyed;

/// How the tasks of a run follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    keys: usize,
    by_sequence: bool,
    on_failure: &'static str,
}

/// An ordered route, or none.
pub(super) fn of(dice: &mut StdRng) -> Option<Random> {
    dice.random_bool(0.35).then(|| Random {
        keys: dice.random_range(1..=5),
        by_sequence: dice.random_bool(0.4),
        on_failure: ["hold", "skip", "fail_rest"][dice.random_range(0..3)],
    })
}

impl Random {
    /// The same, but numbered as they are accepted.
    pub(super) const fn by_arrival(self) -> Self {
        Self { by_sequence: false, ..self }
    }

    /// The lines of the route.
    pub(super) fn route(self) -> String {
        let sequence = if self.by_sequence { "sequence: turn, " } else { "" };
        format!("    ordered_by: key\n    order: {{ {sequence}on_failure: {} }}\n", self.on_failure)
    }

    /// The message with this number.
    pub(super) fn parcel(self, n: usize, truck: usize) -> String {
        keyed(n, truck, n % self.keys, n / self.keys + 1)
    }
}
