//! For how long a random run's records are kept.

use groupage_core::memory::Keeps;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::setting::Expires;

const MINUTE_MS: u64 = 60_000;

/// What expires, if anything does: a run is over within hours, and its messages repeat themselves for minutes.
pub(super) fn of(dice: &mut StdRng) -> Option<Expires> {
    let keeps = Keeps { retention_ms: 30 * MINUTE_MS, idle_ms: 20 * MINUTE_MS, session_ms: 10 * MINUTE_MS };
    let late = [0.0, 0.5, 0.98][dice.random_range(0..3)];
    dice.random_bool(0.2).then_some(Expires { keeps, late, standstill_ms: 50 * MINUTE_MS })
}
