//! Targets of which the routes file says something else, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;

/// The line of the route, or none. Tasks of an ordered route cannot wait for the clock.
pub(super) fn of(dice: &mut StdRng, may_wait: bool) -> Option<String> {
    if !dice.random_bool(0.3) {
        return None;
    }
    let (items, wait_ms) = (dice.random_range(1..=4), [0, 500, 2_000][dice.random_range(0..3)]);
    let closes = if may_wait && dice.random_bool(0.4) { ", close_at: '*/2 * * * *'" } else { "" };
    let limits = ["{}", "{ in_flight_per_target: 1 }", "{ in_flight_per_target: 2 }"][dice.random_range(0..3)];
    let names = ["t1", "t*"][dice.random_range(0..2)];
    Some(format!(
        "    targets: [{{ match: '{names}', batch: {{ max_items: {items}, wait_ms: {wait_ms}{closes} }}, limits: {limits} }}]\n"
    ))
}
