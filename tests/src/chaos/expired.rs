//! Tasks that are wanted for a while only, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::scenario::expiring;

/// Some of these messages, in some of the runs, are of tasks that are wanted for some seconds.
pub(super) fn some(dice: &mut StdRng, bodies: Vec<String>) -> Vec<String> {
    if !dice.random_bool(0.3) {
        return bodies;
    }
    let seconds = |dice: &mut StdRng| [0, 1, 3, 30][dice.random_range(0..4)];
    let each = bodies.into_iter();
    each.map(|body| if dice.random_bool(0.4) { expiring(&body, seconds(dice)) } else { body }).collect()
}
