//! Stories of ordered routes.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use groupage_core::ports::{Answer, NoAnswer};

use crate::downstream::{Seen, ok};
use crate::scenario::{Scenario, keyed};
use crate::world::World;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        one_key(),
        two_keys_over_two_targets(),
        numbers_that_come_the_wrong_way_round(),
        the_same_tasks_twice(),
        a_failure_that_is_skipped(),
        a_failure_that_holds(),
        a_failure_that_fails_the_rest(),
        a_lost_hand_over(),
    ]
}

/// So many messages of one key.
fn of_one_key(count: usize) -> Vec<String> {
    (0..count).map(|n| keyed(n, 0, 0, n + 1)).collect()
}

fn story(name: &'static str, tasks: usize, order: &str, begin: crate::scenario::Beginning) -> Scenario {
    Scenario::new(name, tasks, begin).route(&format!("ordered_by: key\n    order: {{ {order} }}"))
}

fn send(world: &World, events: &[Vec<String>]) -> LocalBoxFuture<'static, Result<(), String>> {
    events.iter().for_each(|event| world.send(event));
    async { Ok(()) }.boxed_local()
}

fn one_key() -> Scenario {
    story("an order key", 3, "", |world| send(world, &[of_one_key(3)]))
}

fn two_keys_over_two_targets() -> Scenario {
    let begin: crate::scenario::Beginning = |world| {
        let bodies: Vec<String> = (0..6).map(|n| keyed(n, n / 3, n % 2, n / 2 + 1)).collect();
        send(world, &[bodies[..4].to_vec(), bodies[4..].to_vec()])
    };
    story("two order keys over two Targets", 6, "", begin)
}

fn numbers_that_come_the_wrong_way_round() -> Scenario {
    story("numbers that come the wrong way round", 3, "sequence: turn", |world| {
        let bodies = of_one_key(3);
        send(world, &[vec![bodies[2].clone()], vec![bodies[1].clone(), bodies[0].clone()]])
    })
}

fn the_same_tasks_twice() -> Scenario {
    story("the same ordered tasks twice", 2, "", |world| send(world, &[of_one_key(2), of_one_key(2)]))
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

fn a_failure_that_is_skipped() -> Scenario {
    story("a failure in order, skipped", 3, "on_failure: skip", |world| send(world, &[of_one_key(3)]))
        .answering(second_fails)
}

fn a_failure_that_holds() -> Scenario {
    story("a failure in order, held", 3, "on_failure: hold", |world| send(world, &[of_one_key(3)]))
        .answering(second_fails)
}

fn a_failure_that_fails_the_rest() -> Scenario {
    story("a failure in order that fails the rest", 5, "on_failure: fail_rest", |world| {
        let bodies = of_one_key(5);
        world.send_later(30_000, &bodies[3..]);
        send(world, &[bodies[..3].to_vec()])
    })
    .answering(second_fails)
}

/// Every message is lost while a lane's turn is on its way from one task to the next.
fn a_lost_hand_over() -> Scenario {
    story("a lost hand-over", 3, "", |world| {
        async {
            world.send(&of_one_key(3));
            let handed_over = || world.tables().lanes().iter().any(|(lane, _)| lane.head.0 == 1);
            world.run_while(|| !handed_over()).await?;
            world.queues.lose_everything();
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}
