//! Failed tasks end to end on ports in memory: run again, each by its own name, with what waits for them.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::task::Status;
use groupage_core::domain::tracker::{End, Ending, State};
use groupage_lab::downstream::Seen;
use groupage_lab::fan_out::FanOut;
use groupage_lab::prelude::*;

/// Refuses each call with `p1` in it, the first time.
fn refuses_once(seen: &Seen, _: usize) -> Result<Answer, NoAnswer> {
    let refused = seen.batches_before == 0 && seen.items.iter().any(|item| item == "p1");
    let body = b"{\"error\": \"no such truck\"}\n".to_vec();
    Ok(if refused { Answer { status: 422, body, ..Answer::default() } } else { ok("") })
}

fn world(lines: &str, retries: usize) -> World {
    let setting = Setting { retries, sweeps: true, latency_ms: 4, ..Setting::default() };
    World::new(setting, &routes_with(lines), Scripted::new(Box::new(refuses_once)))
}

fn calls_of(world: &World, id: &str) -> usize {
    world.downstream.ledger().iter().filter(|seen| seen.items.iter().any(|item| item == id)).count()
}

/// Sending a task again never runs it again: its id stands for the failed one.
#[test]
fn a_failed_task_runs_again_by_a_retry_and_not_by_a_repeat_of_its_message() {
    in_virtual_time(async {
        let world = world("", 0);
        world.send(&parcels(2, 1));
        world.run_to_rest().await.unwrap();
        world.send(&parcels(2, 1));
        world.run_to_rest().await.unwrap();
        assert_eq!(calls_of(&world, "p1"), 1);
    });
    in_virtual_time(async {
        let world = world("", 1);
        world.send(&parcels(2, 1));
        world.run_to_rest().await.unwrap();
        assert_eq!(calls_of(&world, "p1"), 2);
        for task in world.tables().tasks() {
            assert!(matches!(task.status, Status::Succeeded { .. }), "{task:?}");
            assert_eq!((task.round, task.attempts), (Round(1), 0));
        }
        assert_kept(&world, 2);
    });
}

#[tokio::test(start_paused = true)]
async fn a_tracker_hears_of_a_failed_task_once_whatever_becomes_of_its_retry() {
    let world = world("on_reject: bisect", 1);
    world.fan_out_later(0, FanOut::of(&[&parcels(3, 1)]));
    world.run_to_rest().await.unwrap();
    let tasks = world.tables().tasks();
    assert!(tasks.iter().all(|task| matches!(task.status, Status::Succeeded { .. })), "{tasks:?}");
    let tracker = world.tables().trackers().remove(0);
    let State::Ended(End { how, failed, missing, .. }) = tracker.state else { panic!("{tracker:?}") };
    assert_eq!((how, failed, missing), (Ending::Completed, 1, 0), "the first outcome counts");
    assert_kept(&world, 3);
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_failed_task_wait_while_it_runs_again() {
    let world = world("ordered_by: key\n    order: { on_failure: hold }", 1);
    world.send(&(0..3).map(|n| keyed(n, 0, 0, n + 1)).collect::<Vec<_>>());
    world.run_to_rest().await.unwrap();
    let called: Vec<String> = world.downstream.ledger().into_iter().flat_map(|seen| seen.items).collect();
    assert_eq!(called, ["p0", "p1", "p1", "p2"]);
    assert_kept(&world, 3);
}

#[test]
fn what_the_downstream_said_is_kept_with_the_failure_alone_and_taken_apart() {
    for lines in ["", "on_reject: bisect"] {
        in_virtual_time(async {
            let world = world(lines, 0);
            world.send(&parcels(3, 1));
            world.run_to_rest().await.unwrap();
            let calls = world.downstream.ledger().len();
            assert_eq!(calls > 1, lines.ends_with("bisect"), "{calls} calls");
            let failure = world.store.failure(&TaskId::new("p1")).await.unwrap().expect("it failed");
            assert_eq!(failure.reason.as_str(), "http_422");
            let text = r#"{"error": "no such truck"}"#.to_owned();
            assert_eq!(failure.answer, Some(Excerpt { status: 422, text }));
        });
    }
}
