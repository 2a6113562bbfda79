//! Tasks that are wanted for a while only, or not at once, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::scenario::{expiring, scheduled};

/// Some of these messages, in some of the runs, are of tasks that are wanted for some seconds.
pub(super) fn some(dice: &mut StdRng, bodies: Vec<String>) -> Vec<String> {
    if !dice.random_bool(0.3) {
        return bodies;
    }
    let seconds = |dice: &mut StdRng| [0, 1, 3, 30][dice.random_range(0..4)];
    let each = bodies.into_iter();
    each.map(|body| if dice.random_bool(0.4) { expiring(&body, seconds(dice)) } else { body }).collect()
}

/// Some of these messages, in some of the runs, are of tasks that wait for their time. No ordered route and no stream
/// takes such.
pub(super) fn later(dice: &mut StdRng, bodies: Vec<String>) -> Vec<String> {
    if !dice.random_bool(0.3) {
        return bodies;
    }
    let each = bodies.into_iter();
    // One that would expire before its time is refused.
    let may_wait = |body: &str| !body.contains("expires_at");
    let later = |body: String| {
        let waits = dice.random_bool(0.4) && may_wait(&body);
        if waits { scheduled(&body, [0, 2, 40, 1_200][dice.random_range(0..4)]) } else { body }
    };
    each.map(later).collect()
}
