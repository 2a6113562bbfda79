//! Stories of tasks that a person cancels: while they wait for a leader, are candidates of an open batch, are members
//! of one that waits for its call, wait for their turn, or have it. Sweep runs in all of them: it makes up for a person
//! who died before everybody had heard.

use crate::fan_out::FanOut;
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("waiting tasks that are cancelled", 4, |world| {
            world.send(&parcels(4, 2));
            world.cancel_later(12, &["p0", "p1"]);
            // By then they are in a batch, or called.
            world.cancel_later(600, &["p2"]);
        }),
        Scenario::new("tasks that are cancelled while their batch's window is open", 4, |world| {
            world.send(&parcels(2, 1));
            world.cancel_later(3_000, &["p0", "p1"]);
            world.send_later(5_000, &parcels(4, 1)[2..]);
        })
        .window("wait_ms: 20000"),
        Scenario::new("an item whose task is cancelled", 3, |world| {
            world.fan_out_later(0, FanOut::of(&[&parcels(3, 1)]));
            world.cancel_later(40, &["p1"]);
        }),
        Scenario::new("members of batches that wait, cancelled", 5, |world| {
            world.hold_later(0, "parcels");
            world.send_later(500, &parcels(5, 2));
            // One of three, and both of two.
            world.cancel_later(6_000, &["p0", "p1", "p3"]);
        }),
        Scenario::new("the tasks of a tracker, cancelled", 4, |world| {
            world.hold_later(0, "parcels");
            let mut bodies = parcels(4, 2);
            bodies[3] = scheduled(&bodies[3], 1_000);
            let mut fan_out = FanOut::of(&[&bodies]);
            fan_out.portions[0].after_ms = 500;
            let tracker = fan_out.tracker.clone();
            world.fan_out_later(0, fan_out);
            // Two are in batches that wait by then, and one waits for its time.
            world.cancel_tracker_later(6_000, &tracker);
        }),
        ordered("a member with its turn that is cancelled in its batch", |world| {
            world.hold_later(0, "parcels");
            world.send_later(500, &(0..3).map(|n| keyed(n, 0, 0, n + 1)).collect::<Vec<_>>());
            world.cancel_later(6_000, &["p0"]);
        }),
        ordered("a task that is cancelled before its turn", |world| {
            send_three(world);
            world.cancel_later(1_500, &["p1"]);
        })
        .taking(2_000),
        ordered("tasks that are cancelled while they have their turn", |world| {
            send_three(world);
            world.cancel_later(12, &["p0", "p1"]);
        }),
    ];
    stories.map(Scenario::swept).into()
}

fn ordered(name: &'static str, begin: fn(&World)) -> Scenario {
    Scenario::new(name, 3, begin).route("ordered_by: key")
}

fn send_three(world: &World) {
    world.send(&(0..3).map(|n| keyed(n, 0, 0, n + 1)).collect::<Vec<_>>());
}
