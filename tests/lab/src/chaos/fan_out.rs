//! A tracked fan-out, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::fan_out::{FanOut, Portion, Work};
use crate::prelude::*;

/// A fan-out, and how long after the beginning its deadline is, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Random {
    pub(super) fan_out: FanOut,
    pub(super) deadline_ms: Option<u64>,
}

/// A fan-out that sends these messages.
pub(super) fn of(dice: &mut StdRng, bodies: &[String]) -> Random {
    let one_of = |dice: &mut StdRng, choices: &[u64]| choices[dice.random_range(0..choices.len())];
    let deadline_ms = dice.random_bool(0.3).then(|| one_of(dice, &[20_000, 90_000, 600_000]));
    let mut works: Vec<Work> =
        bodies.chunks(dice.random_range(1..=8)).map(|chunk| Work::Tasks(chunk.to_vec())).collect();
    if dice.random_bool(0.4) {
        // The messages' items lie in two groups, or in the second.
        let count = u64::from(GROUP_SIZE) - one_of(dice, &[0, 1, 2, 5]);
        let outcome = if dice.random_bool(0.5) { Outcome::Succeeded } else { Outcome::Failed };
        works.insert(dice.random_range(0..=works.len()), Work::Done(count, outcome));
    }
    if deadline_ms.is_some() && dice.random_bool(0.4) {
        works.push(Work::Elsewhere(1));
    }
    let mut portion = |(n, work)| Portion {
        key: format!("k{n}"),
        after_ms: one_of(dice, &[0, 0, 300, 5_000, 40_000]),
        times: dice.random_range(1..=2),
        work,
    };
    let portions = works.into_iter().enumerate().map(&mut portion).collect();
    let seal_after_ms = one_of(dice, &[0, 0, 200, 2_000, 20_000, 100_000]);
    let is_sealed = deadline_ms.is_none() || dice.random_bool(0.8);
    let seal_after_ms = is_sealed.then_some(seal_after_ms);
    let fan_out = FanOut { tracker: TrackerId::new("fan-out"), deadline: None, portions, seal_after_ms };
    Random { fan_out, deadline_ms }
}
