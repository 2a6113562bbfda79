//! Ordered routes end to end on ports in memory: who goes before whom, how fast, and what cannot be ordered.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use groupage_tests::clock::in_virtual_time;
use groupage_tests::downstream::{Scripted, ok};
use groupage_tests::process::{Fault, Plan, Side};
use groupage_tests::promises::broken;
use groupage_tests::scenario::keyed;
use groupage_tests::world::{Setting, World};
use shared::domain::task::Status;
use shared::ports::{Destination, Env};

fn routes(order: &str) -> String {
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    ordered_by: key\n    order: {{ {order} }}\n    \
         batch: {{ max_items: 100, wait_ms: 0 }}\n    downstream: {{ http: {{ url: \"http://downstream.invalid/\" }} }}\n    \
         notify: {{ success: default }}\n"
    )
}

/// A world with calls of a second.
fn world(order: &str) -> World {
    let downstream = Scripted::new(Box::new(|_, _| Ok(ok("")))).taking(|| 1_000);
    World::new(Setting { latency_ms: 5, ..Setting::default() }, &routes(order), downstream)
}

/// How many tasks a second of so many keys, with as many tasks each, reach their end.
fn per_second(keys: usize, each: usize) -> f64 {
    in_virtual_time(async {
        let world = world("");
        let bodies: Vec<String> = (0..keys * each).map(|n| keyed(n, 0, n % keys, n / keys + 1)).collect();
        let sent = bodies.iter().enumerate().map(|(n, _)| format!("p{n}")).collect();
        let began = world.env.now();
        world.send(&bodies);
        world.run_to_rest().await.unwrap();
        assert_eq!(broken(&world, &sent), Vec::<String>::new());
        let settled = world.downstream.ledger().into_iter().map(|seen| seen.items.len()).sum::<usize>();
        assert_eq!(settled, keys * each);
        (keys * each) as f64 * 1_000.0 / world.env.now().since(began) as f64
    })
}

#[test]
fn twenty_keys_run_fifteen_times_as_fast_as_one() {
    let (one, twenty) = (per_second(1, 40), per_second(20, 40));
    println!("one key: {one:.3} tasks a second, 20 keys: {twenty:.3}, {:.1} times as many", twenty / one);
    assert!(twenty >= 15.0 * one);
}

#[test]
fn a_task_that_cannot_be_written_keeps_those_behind_it_back() {
    // More than one transaction takes.
    const TASKS: usize = 120;
    let told = |plan: Plan| {
        in_virtual_time(async {
            let downstream = Scripted::new(Box::new(|_, _| Ok(ok(""))));
            let world = World::new(Setting { plan, latency_ms: 5, ..Setting::default() }, &routes(""), downstream);
            let bodies: Vec<String> = (0..TASKS).map(|n| keyed(n, 0, 0, n + 1)).collect();
            world.send(&bodies);
            world.run_to_rest().await.unwrap();
            let ids: Vec<String> = (0..TASKS).map(|n| format!("p{n}")).collect();
            assert_eq!(broken(&world, &ids.iter().cloned().collect()), Vec::<String>::new());
            // In the order in which they were sent, not only in that in which they were accepted.
            let mut called: Vec<String> = world.downstream.ledger().into_iter().flat_map(|seen| seen.items).collect();
            called.dedup();
            assert_eq!(called, ids);
            world.fate.points()
        })
    };
    let points = told(Plan::Nothing);
    let transactions = || points.iter().enumerate().filter(|(_, point)| point.call == "line_up").map(|(at, _)| at);
    assert_eq!(transactions().count(), 3);
    for at in transactions() {
        for (side, fault) in [
            (Side::Before, Fault::Error),
            (Side::After, Fault::Error),
            (Side::Before, Fault::Death),
            (Side::After, Fault::Death),
        ] {
            told(Plan::At(at, side, fault));
        }
    }
}

#[test]
fn what_cannot_be_ordered_is_rejected_and_its_neighbours_go_on() {
    in_virtual_time(async {
        let world = world("sequence: turn");
        let body = |id: &str, rest: &str| format!(r#"{{"id":"{id}","payload":{{"truck":"t"{rest}}}}}"#);
        let report = world
            .register(&[
                body("no-key", r#","turn":1"#),
                body("no-turn", r#","key":"k""#),
                body("two", r#","key":"k","turn":2"#),
                body("one", r#","key":"k","turn":1"#),
                body("also-two", r#","key":"k","turn":2"#),
                body("zero", r#","key":"k","turn":0"#),
            ])
            .await;
        assert_eq!((report.registered, report.rejected, report.failed.len()), (2, 4, 0));
        let rejected = world.queues.now().messages(&Destination::Rejected);
        let reasons: Vec<String> = rejected
            .iter()
            .map(|message| message.attributes.iter().find(|(name, _)| *name == "Reason").unwrap().1.clone())
            .collect();
        assert_eq!(reasons, ["bad_order", "bad_order", "bad_sequence", "bad_sequence"]);
        // The same again changes nothing, nor does a number that is over.
        let again =
            world.register(&[body("one", r#","key":"k","turn":1"#), body("two", r#","key":"k","turn":2"#)]).await;
        assert_eq!((again.repeated, again.rejected), (2, 0));
        world.run_to_rest().await.unwrap();
        let late =
            world.register(&[body("late", r#","key":"k","turn":2"#), body("one", r#","key":"k","turn":1"#)]).await;
        assert_eq!((late.repeated, late.rejected), (1, 1));
        let tasks = world.tables().tasks();
        assert_eq!(tasks.len(), 2);
        assert!(tasks.iter().all(|task| matches!(task.status, Status::Succeeded { .. })));
    });
}
