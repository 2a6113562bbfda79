//! Stories of tasks that nobody wants any more by the time that they would be called: at a gate, in an outage, with an
//! item, or with others of their order key behind them.

use crate::downstream::{ok, status};
use crate::fan_out::FanOut;
use crate::scenario::{Scenario, expiring, keyed, parcels};

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("tasks that expire at a gate", 5, |world| {
            world.hold_later(0, "parcels");
            let parcels = parcels(5, 2);
            let wanted = |n: usize| expiring(&parcels[n], 10);
            world.send_later(500, &[wanted(0), parcels[1].clone(), parcels[2].clone(), wanted(3), wanted(4)]);
        }),
        Scenario::new("a batch of which all expire at a gate", 2, |world| {
            world.hold_later(0, "parcels");
            world.send_later(500, &parcels(2, 1).iter().map(|body| expiring(body, 10)).collect::<Vec<_>>());
        }),
        Scenario::new("a batch of which all expire after its call failed", 2, |world| {
            world.send(&parcels(2, 1).iter().map(|body| expiring(body, 4)).collect::<Vec<_>>());
        })
        .answering(|_, before| Ok(if before < 3 { status(503, None) } else { ok("") })),
        Scenario::new("an item whose task expires", 2, |world| {
            let parcels = parcels(2, 1);
            world.fan_out_later(0, FanOut::of(&[&[expiring(&parcels[0], 0), parcels[1].clone()]]));
        }),
        Scenario::new("tasks that expire in their lane", 3, |world| {
            world.hold_later(0, "parcels");
            let bodies = (0..3).map(|n| keyed(n, 0, 0, n + 1));
            let wanted = |(n, body): (usize, String)| if n < 2 { expiring(&body, 10) } else { body };
            world.send_later(500, &bodies.enumerate().map(wanted).collect::<Vec<_>>());
        })
        .route("ordered_by: key"),
    ];
    stories.map(Scenario::swept).into()
}
