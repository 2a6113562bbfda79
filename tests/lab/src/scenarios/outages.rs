//! Stories of a downstream's bad days, and of a person who holds calls back.

use crate::prelude::*;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new("a downstream that is away", 6, |world| world.send(&parcels(6, 2)))
            .route("limits: { pause: route }")
            .answering(|_, before| Ok(if before < 3 { status(503, None) } else { ok("") })),
        Scenario::new("a secret that cannot be had", 6, |world| world.send(&parcels(6, 2)))
            .route("limits: { pause: route }")
            .answering(|_, before| match before {
                0 => Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))),
                _ => Ok(ok("")),
            }),
        Scenario::new("an outage that is waited out no longer", 3, |world| world.send(&parcels(3, 1)))
            .retry("attempts: 3, give_up_after_s: 60")
            .answering(|_, _| Ok(status(500, None))),
        Scenario::new("a task that crashes the downstream", 6, |world| {
            world.send(&parcels(6, 1)[..3]);
            world.send_later(5_000, &parcels(6, 1)[3..]);
        })
        .route("on_reject: bisect")
        .retry("attempts: 1, give_up_after_s: 300")
        .answering(|seen, _| {
            let crashes = seen.items.iter().any(|id| id == "p1");
            Ok(if crashes { status(503, None) } else { ok("") })
        }),
        Scenario::new("a route that a person holds", 6, |world| {
            world.hold_later(0, "parcels");
            world.send_later(500, &parcels(6, 2));
        })
        .route("limits: { pause: route }"),
    ]
}
