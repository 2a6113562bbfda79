//! The edges: a port that fails for hours, and a task that kills every worker which calls the downstream with it.

use std::collections::{BTreeMap, BTreeSet};

use groupage_lab::downstream::{Seen, status};
use groupage_lab::fan;
use groupage_lab::prelude::*;
use groupage_lab::process::{Lasting, Outage};

/// How long a port is out of order.
const HOURS_MS: u64 = 3 * 60 * 60 * 1000;
/// Limits that make every call pass its gates.
const LIMITS: &str = "limits: { in_flight_per_target: 1, in_flight: 2, calls_per_second: 5 }";

/// What came of a world at rest.
struct Came {
    /// Each task, with the reason if it failed.
    tasks: BTreeMap<String, Option<String>>,
    calls: Vec<Seen>,
    broken: Vec<String>,
    /// Which steps made which calls.
    made: BTreeSet<(&'static str, &'static str)>,
}

/// Sends tasks of one truck, with everything swept, and lets all of it come to rest.
fn tell(setting: Setting, lines: &str, tasks: usize, downstream: fn(&Seen, usize) -> u16) -> Result<Came, String> {
    in_virtual_time(async {
        let script = move |seen: &Seen, before| match downstream(seen, before) {
            200 => Ok(ok("")),
            other => Ok(status(other, None)),
        };
        let setting = Setting { seed: 3, latency_ms: 4, sweeps: true, ..setting };
        let world = World::new(setting, &routes_with(lines), Scripted::new(Box::new(script)));
        world.send(&parcels(tasks, 1));
        world.run_to_rest().await?;
        let sent: BTreeSet<String> = (0..tasks).map(|n| format!("p{n}")).collect();
        let reason = |task: &Task| task.status.reason().map(ToString::to_string);
        let all = world.tables().tasks();
        Ok(Came {
            tasks: all.iter().map(|task| (task.id.to_string(), reason(task))).collect(),
            calls: world.downstream.ledger(),
            broken: broken(&world, &sent),
            made: world.fate.points().into_iter().map(|point| (point.step, point.call)).collect(),
        })
    })
}

/// The downstream fails once for each key, so that an attempt too many shows.
fn fails_once(_: &Seen, before: usize) -> u16 {
    if before == 0 { 503 } else { 200 }
}

fn accepts(_: &Seen, _: usize) -> u16 {
    200
}

#[test]
fn a_port_that_fails_for_hours_uses_up_no_attempt_and_fails_no_task() {
    let well = tell(Setting::default(), LIMITS, 6, fails_once).expect("it comes to rest");
    let kinds: Vec<_> = well.made.into_iter().filter(|(_, call)| *call != "call").collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    let told = fan::each(&kinds, |&(step, call)| {
        let outage = Some(Outage { step, call, for_ms: HOURS_MS });
        let setting = Setting { lasting: Lasting { outage, ..Lasting::default() }, ..Setting::default() };
        let came = match tell(setting, LIMITS, 6, fails_once) {
            Err(stuck) => return Some(format!("{call} of {step}: {stuck}")),
            Ok(came) => came,
        };
        let failed: Vec<_> = came.tasks.iter().filter(|(_, reason)| reason.is_some()).collect();
        let good = came.broken.is_empty() && failed.is_empty() && came.tasks.len() == 6;
        (!good).then(|| format!("{call} of {step}: failed {failed:?}, broken {:?}", came.broken))
    });
    let bad: Vec<String> = told.into_iter().flatten().collect();
    assert!(bad.is_empty(), "{} of {} outages:\n{}", bad.len(), kinds.len(), bad.join("\n"));
}

#[test]
fn a_call_that_never_was_is_no_attempt() {
    for call in ["read", "gate", "store_gate", "open_session"] {
        let outage = Some(Outage { step: "batch-handler", call, for_ms: HOURS_MS });
        let setting = Setting { lasting: Lasting { outage, ..Lasting::default() }, ..Setting::default() };
        let came = tell(setting, LIMITS, 3, accepts).expect("it comes to rest");
        assert_eq!(came.calls.iter().map(|seen| seen.attempt).collect::<Vec<_>>(), [1], "after hours without {call}");
    }
}

fn deadly(task: &'static str) -> Setting {
    Setting { lasting: Lasting { deadly: Some(task), ..Lasting::default() }, ..Setting::default() }
}

const BISECT: &str = "on_reject: bisect";

#[test]
fn a_task_that_kills_its_workers_is_found_and_its_neighbours_succeed() {
    for poison in ["p0", "p1", "p2"] {
        let came = tell(deadly(poison), BISECT, 3, accepts).expect("it ends");
        let lost = |id: &str| (id == poison).then(|| "worker_lost".to_owned());
        let expected: BTreeMap<_, _> = (0..3).map(|n| format!("p{n}")).map(|id| (id.clone(), lost(&id))).collect();
        assert_eq!(came.tasks, expected);
        assert_eq!(came.broken, Vec::<String>::new());
        let whole = came.calls.iter().filter(|seen| !seen.key.contains('.')).count();
        assert_eq!(whole, 3, "the whole batch is called as often as its route allows");
        assert!(came.calls.len() <= 3 + 4, "{} calls", came.calls.len());
    }
}

#[test]
fn a_batch_that_kills_its_workers_ends_where_nothing_is_taken_apart() {
    let came = tell(deadly("p1"), "on_reject: fail", 3, accepts).expect("it ends");
    assert!(came.tasks.values().all(|reason| reason.as_deref() == Some("worker_lost")), "{:?}", came.tasks);
    assert_eq!((came.calls.len(), came.broken), (3, Vec::new()));
}

/// Notices of what fails go to a queue of their own; `p1` fails for good, `p2` goes round again once.
mod a_queue_that_refuses {
    use groupage_core::domain::notice::{NotificationQueue, UNDELIVERABLE};
    use groupage_core::ports::{Destination, Env, Outgoing};
    use groupage_lab::downstream::fails_alone;
    use groupage_lab::process::Refusing;

    use super::*;

    const FAILURES: &str = "https://sqs.invalid/failures";
    const HOUR_MS: u64 = 60 * 60 * 1000;

    fn failures() -> Destination {
        Destination::Notification(NotificationQueue::Url(FAILURES.to_owned()))
    }

    /// What was sent where, and how often members were settled.
    struct Sent {
        default: Vec<Outgoing>,
        failures: Vec<Outgoing>,
        rejected: Vec<Outgoing>,
        settled: usize,
        put_back: usize,
        rested_after_ms: u64,
        broken: Vec<String>,
    }

    fn tell(refusing: Vec<Refusing>) -> Sent {
        in_virtual_time(async {
            let lasting = Lasting { refusing, ..Lasting::default() };
            let setting = Setting {
                seed: 3,
                latency_ms: 4,
                sweeps: true,
                lasting,
                patience_ms: 72 * HOUR_MS,
                ..Setting::default()
            };
            let routes =
                routes_with("on_reject: fail").replace("failure: default", &format!("failure: \"{FAILURES}\""));
            let world = World::new(setting, &routes, Scripted::new(Box::new(fails_alone)));
            let begun = world.env.now();
            world.send(&parcels(3, 1));
            world.run_to_rest().await.expect("it comes to rest");
            let calls = |call| world.fate.points().iter().filter(|point| point.call == call).count();
            let messages = |queue| world.queues.now().messages(&queue);
            let told_elsewhere = |line: &String| !line.contains("no notification of p1");
            Sent {
                default: messages(Destination::Notification(NotificationQueue::Default)),
                failures: messages(failures()),
                rejected: messages(Destination::Rejected),
                settled: calls("settle"),
                put_back: calls("put_back"),
                rested_after_ms: world.env.now().since(begun),
                broken: broken(&world, &BTreeSet::new()).into_iter().filter(told_elsewhere).collect(),
            }
        })
    }

    /// Its members' statuses are written, and the one that goes round again is on its way, before any notice is sent.
    #[test]
    fn an_output_that_cannot_be_read_keeps_back_notices_only() {
        let outage = Some(Outage { step: "batch-handler", call: "outputs", for_ms: HOUR_MS });
        let setting = Setting { seed: 3, latency_ms: 4, sweeps: true, ..Setting::default() };
        let setting = Setting { lasting: Lasting { outage, ..Lasting::default() }, ..setting };
        in_virtual_time(async {
            let world = World::new(setting, &routes_with("on_reject: fail"), Scripted::new(Box::new(fails_alone)));
            world.send(&parcels(3, 1));
            world.run_to_rest().await.expect("it comes to rest");
            assert_kept(&world, 3);
            let points = world.fate.points();
            let places = |call| (0..points.len()).filter(|n| points[*n].call == call).collect::<Vec<_>>();
            let (reads, statuses) = (places("outputs"), places("settle"));
            assert!(statuses[0] < reads[1], "statuses do not wait for the second try: {reads:?}, {statuses:?}");
        });
    }

    #[test]
    fn for_hours_has_nothing_else_sent_or_written_again() {
        let sent = tell(vec![Refusing { queue: failures(), for_ms: 3 * HOUR_MS }]);
        assert_eq!((sent.default.len(), sent.failures.len(), sent.rejected.len()), (2, 1, 0));
        assert_eq!((sent.settled, sent.put_back), (3, 1), "settled, put back");
        assert!(sent.rested_after_ms >= 3 * HOUR_MS);
        assert_eq!(sent.broken, Vec::<String>::new());
    }

    #[test]
    fn for_a_day_has_its_notices_in_the_rejected_queue() {
        let sent = tell(vec![Refusing { queue: failures(), for_ms: u64::MAX }]);
        assert_eq!((sent.default.len(), sent.failures.len(), sent.rejected.len()), (2, 0, 1));
        let attributes: BTreeMap<_, _> = sent.rejected[0].attributes.iter().cloned().collect();
        assert_eq!((attributes["Reason"].as_str(), attributes["Queue"].as_str()), (UNDELIVERABLE, FAILURES));
        assert!(sent.rejected[0].body.contains("\"task\":\"p1\""), "{}", sent.rejected[0].body);
        assert!((24 * HOUR_MS..25 * HOUR_MS).contains(&sent.rested_after_ms), "{} ms", sent.rested_after_ms);
        assert_eq!((sent.settled, sent.put_back, sent.broken), (3, 1, Vec::new()));
    }

    #[test]
    fn together_with_the_rejected_queue_loses_no_notice() {
        let rejected = Refusing { queue: Destination::Rejected, for_ms: 50 * HOUR_MS };
        let sent = tell(vec![Refusing { queue: failures(), for_ms: u64::MAX }, rejected]);
        assert_eq!((sent.default.len(), sent.failures.len(), sent.rejected.len()), (2, 0, 1));
        assert!((50 * HOUR_MS..51 * HOUR_MS).contains(&sent.rested_after_ms), "{} ms", sent.rested_after_ms);
        assert_eq!((sent.settled, sent.put_back, sent.broken), (3, 1, Vec::new()));
    }
}
