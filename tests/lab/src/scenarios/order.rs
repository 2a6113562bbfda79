//! Stories of ordered routes.

use futures::FutureExt;

use crate::downstream::Seen;
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        story("an order key", 3, "", |world| world.send(&of_one_key(3))),
        story("two order keys over two Targets", 6, "", |world| {
            let bodies: Vec<String> = (0..6).map(|n| keyed(n, n / 3, n % 2, n / 2 + 1)).collect();
            world.send(&bodies[..4]);
            world.send(&bodies[4..]);
        }),
        story("numbers that come the wrong way round", 3, "sequence: turn", |world| {
            let bodies = of_one_key(3);
            world.send(&bodies[2..]);
            world.send(&[bodies[1].clone(), bodies[0].clone()]);
        }),
        story("a number that never comes, given up", 2, "sequence: turn", |world| {
            world.send(&[1, 3].map(|turn| keyed(turn / 2, 0, 0, turn)));
            world.skip_later(5_000, LaneId::of(&RouteName::new("parcels"), "k0"), 2);
        }),
        story("the same ordered tasks twice", 2, "", |world| {
            world.send(&of_one_key(2));
            world.send(&of_one_key(2));
        }),
        story("a failure in order, skipped", 3, "on_failure: skip", |world| world.send(&of_one_key(3)))
            .answering(second_fails),
        story("a failure in order, held", 3, "on_failure: hold", |world| world.send(&of_one_key(3)))
            .answering(second_fails),
        story("a failure in order that fails the rest", 5, "on_failure: fail_rest", |world| {
            let bodies = of_one_key(5);
            world.send_later(30_000, &bodies[3..]);
            world.send(&bodies[..3]);
        })
        .answering(second_fails),
        // Every message is lost while a lane's turn is on its way from one task to the next.
        story("a lost hand-over", 3, "", |world| world.send(&of_one_key(3)))
            .then(|world| {
                async {
                    let handed_over = || world.tables().lanes().iter().any(|(lane, _)| lane.head.0 == 1);
                    world.run_while(|| !handed_over()).await?;
                    world.queues.lose_everything();
                    Ok(())
                }
                .boxed_local()
            })
            .swept(),
    ]
}

/// This many messages of one key.
fn of_one_key(count: usize) -> Vec<String> {
    (0..count).map(|n| keyed(n, 0, 0, n + 1)).collect()
}

fn story(name: &'static str, tasks: usize, order: &str, begin: fn(&World)) -> Scenario {
    Scenario::new(name, tasks, begin).route(&format!("ordered_by: key\n    order: {{ {order} }}"))
}

/// `p1` fails for good.
fn second_fails(seen: &Seen, _: usize) -> Result<Answer, NoAnswer> {
    let result = |id: &String| {
        let status = if id == "p1" { "failed" } else { "succeeded" };
        serde_json::json!({ "id": id, "status": status, "reason": "too_heavy" })
    };
    let results: Vec<_> = seen.items.iter().map(result).collect();
    Ok(ok(&serde_json::json!({ "results": results }).to_string()))
}
