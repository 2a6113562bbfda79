//! A route whose Targets have shards, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

/// How many shards, and whether there is so much to do that they get leaders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    count: u8,
    /// How many tasks there are then, all of one Target and within a short while.
    pub(super) hot: Option<usize>,
}

/// A route with shards, or none.
pub(super) fn of(dice: &mut StdRng) -> Option<Random> {
    dice.random_bool(0.3).then(|| Random {
        count: dice.random_range(2..=4),
        hot: dice.random_bool(0.6).then(|| dice.random_range(20..=60)),
    })
}

impl Random {
    /// The line of the route.
    pub(super) fn route(self) -> String {
        format!("    shards: {}\n", self.count)
    }

    /// When an event comes that would come at `at_ms`.
    pub(super) fn moment(self, at_ms: u64) -> u64 {
        if self.hot.is_some() { at_ms % 1_000 } else { at_ms }
    }
}
