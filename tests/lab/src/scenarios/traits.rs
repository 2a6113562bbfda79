//! Stories of tasks that weigh more than others, that close their batch, and that replace older ones.

use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let newest_of_two = |name, count, begin: fn(&World)| Scenario::new(name, count, begin).route("collapse: key");
    vec![
        Scenario::new("batches that are full by weight", 6, six_of_one)
            .window("wait_ms: 1000, weight: n, max_weight: 5"),
        Scenario::new("a task that closes an open batch", 3, closes_later).window(CLOSES),
        Scenario::new("a task that closes its batch at once", 3, |world| world.send(&parcels(3, 1)))
            .window(CLOSES)
            .express(),
        newest_of_two("the newest of two keys", 5, five_of_two_keys),
        newest_of_two("the newest of two keys, beside the express path", 5, five_of_two_keys).express(),
        newest_of_two("the newest of a key, of which one returns", 5, five_of_two_keys)
            .answering(crate::downstream::fails_alone),
        newest_of_two("a newer one while the batch is frozen", 4, newer_while_it_freezes)
            .setting(|setting| setting.lag = Lag { index_ms: 500, read_ms: 200, ..Lag::default() }),
        newest_of_two("the newest of a key is cancelled", 4, |world| {
            world.hold_later(0, "parcels");
            world.send_later(500, &(0..4).map(|n| keyed(n, 0, n % 2, 1)).collect::<Vec<_>>());
            world.cancel_later(6_000, &["p3"]);
        })
        .swept(),
    ]
}

/// The first one waits for long, unless the last one comes.
const CLOSES: &str = "wait_ms: 60000, close_when: \"n == `2`\"";

fn six_of_one(world: &World) {
    world.send(&parcels(6, 1));
}

fn closes_later(world: &World) {
    let bodies = parcels(3, 1);
    world.send(&bodies[..2]);
    world.send_later(4_000, &bodies[2..]);
}

fn five_of_two_keys(world: &World) {
    world.send(&(0..5).map(|n| keyed(n, 0, n % 2, 1)).collect::<Vec<_>>());
}

/// The window is over after a second: these come just before and after that.
fn newer_while_it_freezes(world: &World) {
    let bodies: Vec<String> = (0..4).map(|n| keyed(n, 0, 0, 1)).collect();
    world.send(&bodies[..1]);
    for (body, at_ms) in bodies[1..].iter().zip([985, 1_010, 1_040]) {
        world.send_later(at_ms, std::slice::from_ref(body));
    }
}
