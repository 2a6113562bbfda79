//! Downstreams that accept a batch and finish it later. Whatever befalls a worker, a job is begun once, its tasks are
//! what its results say, and its permits are its own for as long as it runs.

use groupage_lab::prelude::*;
use std::collections::BTreeMap;

use groupage_core::domain::batch::Status as BatchStatus;
use groupage_core::domain::task::Status;
use groupage_lab::downstream::{Seen, begun, fails_alone, running};
use tokio::time::Instant;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// A route with jobs, with these fields of `job` and these lines besides.
fn routes(job: &str, lines: &str) -> String {
    let job = format!(", job: {{ url: headers.location, ended: \"!(body.state == 'running')\"{job} }}");
    file(&job, lines)
}

fn file(job: &str, lines: &str) -> String {
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: 3, wait_ms: 0 }}\n    \
         downstream: {{ http: {{ url: \"http://downstream.invalid/load\", timeout_ms: 5000{job} }} }}\n    \
         notify: {{ failure: default, success: default }}\n    {lines}\n"
    )
}

fn setting() -> Setting {
    Setting { seed: 7, latency_ms: 4, sweeps: true, patience_ms: 60 * HOUR_MS, ..Setting::default() }
}

/// A downstream whose jobs take so long, in milliseconds, and then come to this.
fn jobs(takes_ms: u64, comes_to: impl Fn(&Seen, u64) -> Result<Answer, NoAnswer> + Send + Sync + 'static) -> Scripted {
    Scripted::new(Box::new(|seen, _| Ok(begun(seen, "{}")))).with_jobs(takes_ms, move |seen, since_ms, _| {
        if since_ms < takes_ms { Ok(running()) } else { comes_to(seen, since_ms) }
    })
}

/// The state of a world at rest.
struct Came {
    /// The reason of each task that failed.
    failed: BTreeMap<String, String>,
    succeeded: usize,
    /// Each call with its time from the beginning on, in milliseconds.
    calls: Vec<(u64, Seen)>,
    /// The time of each look.
    looks: Vec<u64>,
    batches: Vec<Batch>,
    /// Permits that nobody has given back.
    permits: usize,
}

fn came(setting: Setting, file: &str, downstream: Scripted, bodies: &[String]) -> Came {
    in_virtual_time(async {
        let begun = Instant::now();
        let world = World::new(setting, file, downstream);
        world.send(bodies);
        world.run_to_rest().await.expect("it comes to rest");
        assert_kept(&world, bodies.len());
        let at = |at: Instant| u64::try_from(at.duration_since(begun).as_millis()).unwrap_or(u64::MAX);
        let (all, now) = (world.tables().tasks(), world.env.now());
        let failed = all.iter().filter_map(|task| Some((task.id.to_string(), task.status.reason()?.to_string())));
        let live = |(_, gate): &(Scope, Gate)| gate.permits.leases.values().filter(|lease| **lease > now).count();
        Came {
            failed: failed.collect(),
            succeeded: all.iter().filter(|task| matches!(task.status, Status::Succeeded { .. })).count(),
            calls: world.downstream.ledger().into_iter().map(|seen| (at(seen.at), seen)).collect(),
            looks: world.downstream.looks().into_iter().map(|(_, when, _)| at(when)).collect(),
            batches: world.tables().batches(),
            permits: world.tables().gates().iter().map(live).sum(),
        }
    })
}

fn all_fail(count: usize, reason: &str) -> BTreeMap<String, String> {
    (0..count).map(|n| (format!("p{n}"), reason.to_owned())).collect()
}

#[test]
fn an_hours_job_settles_each_task_by_what_its_results_say() {
    let came = came(setting(), &routes("", ""), jobs(HOUR_MS, |seen, _| fails_alone(seen, 0)), &parcels(3, 1));
    assert_eq!(came.failed, BTreeMap::from([("p1".to_owned(), "too_heavy".to_owned())]));
    assert_eq!(came.succeeded, 2);
    let items: Vec<usize> = came.calls.iter().map(|(_, seen)| seen.items.len()).collect();
    assert_eq!(items, [3, 1], "p2 is retried in another batch");
    let first = came.looks.iter().filter(|at| **at < came.calls[1].0).count();
    assert!((110..=121).contains(&first), "{first} looks in an hour, each after half a minute");
    assert!(came.calls[1].0 < HOUR_MS + 2 * MINUTE_MS, "{}", came.calls[1].0);
    assert!(came.batches.iter().all(|batch| batch.attempts == 1), "a look is no attempt");
}

#[test]
fn a_worker_that_dies_in_a_look_or_around_it_costs_nothing() {
    let points = in_virtual_time(async {
        let world =
            World::new(setting(), &routes(", every_s: 2", ""), jobs(5 * SECOND_MS, |seen, _| fails_alone(seen, 0)));
        world.send(&parcels(2, 1));
        world.run_to_rest().await.expect("it comes to rest");
        world.fate.points()
    });
    let handler: Vec<usize> = (0..points.len()).filter(|n| points[*n].step == points_step(&points)).collect();
    let first_call = handler.iter().position(|n| points[*n].call == "call").expect("it is called");
    let mut in_looks = 0;
    for at in &handler[first_call + 1..] {
        for (side, fault) in [Side::Before, Side::After]
            .into_iter()
            .flat_map(|side| [Fault::Death, Fault::DeathBesideTwin, Fault::Error].map(|fault| (side, fault)))
        {
            let plan = Plan::At(*at, side, fault);
            let file = routes(", every_s: 2", "limits: { in_flight: 1 }");
            let came = came(
                Setting { plan, ..setting() },
                &file,
                jobs(5 * SECOND_MS, |seen, _| fails_alone(seen, 0)),
                &parcels(2, 1),
            );
            assert_eq!(came.failed.values().collect::<Vec<_>>(), ["too_heavy"], "{:?} {fault:?}", points[*at]);
            assert_eq!(came.permits, 0, "{:?} {fault:?}", points[*at]);
            if points[*at].call == "call" {
                in_looks += 1;
                assert_eq!(came.calls.len(), 1, "{:?} {fault:?}", points[*at]);
            }
        }
    }
    assert!(in_looks >= 12, "{in_looks} faults in looks");
}

/// The step that calls downstreams.
fn points_step(points: &[groupage_lab::process::Point]) -> &'static str {
    points.iter().find(|point| point.call == "call").expect("it is called").step
}

#[test]
fn a_message_that_comes_twice_begins_no_second_job() {
    let downstream = Scripted::new(Box::new(|seen, _| Ok(begun(seen, ""))))
        .with_jobs(MINUTE_MS, |_, since_ms, _| Ok(if since_ms < MINUTE_MS { running() } else { ok("") }));
    let setting = Setting { twice: 1.0, ..setting() };
    let came = came(setting, &routes(", every_s: 2", "limits: { in_flight: 1 }"), downstream, &parcels(6, 2));
    assert_eq!((came.succeeded, came.calls.len(), came.permits), (6, 2, 0));
    // A copy of a message may come a look earlier; each goes on, until one takes the place of all others.
    assert!(came.looks.len() < 300, "{} looks", came.looks.len());
}

#[test]
fn a_job_that_does_not_end_in_time_fails_its_tasks_and_says_what_the_last_look_came_to() {
    let never = |comes_to: fn() -> Result<Answer, NoAnswer>| {
        Scripted::new(Box::new(|seen, _| Ok(begun(seen, "{}")))).with_jobs(0, move |_, _, _| comes_to())
    };
    let file = routes(", deadline_s: 600", "limits: { in_flight: 1 }");
    let runs = came(setting(), &file, never(|| Ok(running())), &parcels(3, 1));
    assert_eq!((runs.failed, runs.calls.len(), runs.permits), (all_fail(3, "job_deadline"), 1, 0));
    let last = runs.looks.iter().max().copied().unwrap_or_default();
    assert!((600_000..605_000).contains(&(last - runs.calls[0].0)), "a last look at the deadline: {last}");
    let away =
        came(setting(), &file, never(|| Ok(Answer { body: b"later".to_vec(), ..status(503, None) })), &parcels(3, 1));
    assert_eq!((away.failed, away.calls.len()), (all_fail(3, "job_deadline"), 1));
    let batch = &away.batches[0];
    let excerpt = batch.answers.as_ref().and_then(|answers| answers.of(&Reason::new("job_deadline")));
    assert_eq!(excerpt.map(|excerpt| (excerpt.status, excerpt.text.as_str())), Some((503, "later")));
}

#[test]
fn a_look_that_fails_is_made_again_when_its_api_wants_and_opens_no_breaker() {
    let downstream = Scripted::new(Box::new(|seen, _| Ok(begun(seen, "")))).with_jobs(0, |_, _, looks| match looks {
        0 => Ok(status(429, Some(300_000))),
        1..8 => Ok(status(500, None)),
        _ => Ok(ok("")),
    });
    let came = came(setting(), &routes("", "limits: { pause: route }"), downstream, &parcels(3, 1));
    assert_eq!((came.succeeded, came.calls.len(), came.looks.len()), (3, 1, 9));
    let asked = came.looks[1] - came.looks[0];
    assert!((300_000..305_000).contains(&asked), "{asked} ms after a Retry-After");
    let others = came.looks[2] - came.looks[1];
    assert!((30_000..40_000).contains(&others), "{others} ms without");
}

#[test]
fn a_job_that_its_api_does_not_know_fails_its_tasks_at_once_and_is_not_repeated() {
    let file = routes("", "limits: { in_flight: 1 }");
    let came = came(setting(), &file, jobs(0, |_, _| Ok(status(404, None))), &parcels(3, 1));
    assert_eq!((came.failed, came.calls.len(), came.looks.len()), (all_fail(3, "job_not_found"), 1, 1));
    assert_eq!(came.permits, 0);
}

#[test]
fn a_call_that_says_no_url_or_a_foreign_one_fails_its_tasks_and_is_not_repeated() {
    for (location, reason) in [(None, "job_url_missing"), (Some("https://b.example/1"), "job_url_refused")] {
        let answer = move |_: &Seen, _| {
            let headers = location.map(|url| ("location".to_owned(), url.to_owned()));
            Ok(Answer { headers: headers.into_iter().collect(), ..status(202, None) })
        };
        let came = came(setting(), &routes("", ""), Scripted::new(Box::new(answer)), &parcels(3, 1));
        assert_eq!((came.failed, came.calls.len()), (all_fail(3, reason), 1));
    }
}

#[test]
fn results_that_cannot_be_read_are_read_again_until_the_deadline_and_are_then_the_reason() {
    let file = routes(", deadline_s: 600", "limits: { in_flight: 1 }");
    let unread = came(setting(), &file, jobs(MINUTE_MS, |_, _| Ok(ok("done"))), &parcels(3, 1));
    assert_eq!((unread.failed, unread.calls.len()), (all_fail(3, "answer_not_json"), 1));
    assert_eq!(unread.permits, 0);
    let answers =
        |batch: &Batch| batch.answers.clone().and_then(|all| all.of(&Reason::new("answer_not_json")).cloned());
    assert_eq!(answers(&unread.batches[0]).map(|excerpt| excerpt.text), Some("done".to_owned()));
    let mended = jobs(MINUTE_MS, |_, since_ms| Ok(ok(if since_ms < 5 * MINUTE_MS { "done" } else { "" })));
    let mended = came(setting(), &file, mended, &parcels(3, 1));
    assert_eq!((mended.succeeded, mended.calls.len()), (3, 1));
}

#[test]
fn a_batch_behind_a_jobs_permit_is_called_soon_after_the_job_has_ended() {
    for limits in ["{ in_flight_per_target: 1 }", "{ in_flight: 1 }", "[shared]"] {
        let file = routes("", &format!("limits: {limits}"));
        let file = file.replace("routes:", "limits: { shared: { in_flight: 1 } }\nroutes:");
        let file = if limits == "[shared]" { file } else { file.replace("limits: { shared: { in_flight: 1 } }\n", "") };
        let came = came(setting(), &file, jobs(HOUR_MS, |_, _| Ok(ok(""))), &parcels(6, 1));
        assert_eq!((came.succeeded, came.calls.len(), came.permits), (6, 2, 0), "{limits}");
        let ended = came.looks.iter().find(|at| **at > came.calls[0].0 + HOUR_MS).copied().expect("it has ended");
        let after = came.calls[1].0.checked_sub(ended).expect("not while the job runs");
        assert!(after < 2 * MINUTE_MS, "{limits}: {after} ms after the job");
    }
}

#[test]
fn batches_behind_many_jobs_that_are_looked_at_rarely_are_woken_too() {
    let file = routes(", every_s: 300", "limits: { in_flight: 20 }");
    let came = came(setting(), &file, jobs(HOUR_MS, |_, _| Ok(ok(""))), &parcels(66, 22));
    assert_eq!((came.succeeded, came.permits), (66, 0));
    let ended = came.looks.iter().find(|at| **at > came.calls[0].0 + HOUR_MS).copied().expect("one has ended");
    let next = came.calls.iter().map(|(at, _)| *at).filter(|at| *at > HOUR_MS).min().expect("one waited");
    assert!(came.calls.iter().filter(|(at, _)| *at < HOUR_MS).count() == 20, "as many as the limit allows");
    assert!((ended..ended + 2 * MINUTE_MS).contains(&next), "{next} after {ended}");
}

#[test]
fn calls_of_other_permits_go_on_beside_a_job() {
    let downstream = Scripted::new(Box::new(|seen, _| {
        Ok(if seen.items.iter().any(|id| id == "p0") { begun(seen, "") } else { ok("") })
    }));
    let downstream = downstream
        .taking(|| 500)
        .with_jobs(HOUR_MS, |_, since_ms, _| Ok(if since_ms < HOUR_MS { running() } else { ok("") }));
    let file = routes("", "limits: { in_flight: 2 }").replace("max_items: 3", "max_items: 1");
    let came = came(setting(), &file, downstream, &parcels(40, 40));
    assert_eq!((came.succeeded, came.permits), (40, 0));
    let last = came.calls.iter().map(|(at, _)| *at).max().unwrap_or_default();
    assert!(last < 2 * MINUTE_MS, "one permit serves the others: {last}");
}

#[test]
fn a_route_that_has_no_job_any_more_loses_none_and_reads_it_once_it_has_again() {
    let (with, without) = (routes(", deadline_s: 3600", ""), file("", ""));
    let pushed = |pushes: &[(u64, &String)]| {
        let pushes = pushes.iter().map(|(at, file)| (*at, (*file).clone())).collect();
        came(Setting { pushes, ..setting() }, &with, jobs(10 * MINUTE_MS, |_, _| Ok(ok(""))), &parcels(3, 1))
    };
    let gone = pushed(&[(MINUTE_MS, &without)]);
    assert_eq!((gone.failed, gone.calls.len()), (all_fail(3, "job_deadline"), 1));
    assert!(gone.looks.iter().all(|at| *at < 2 * MINUTE_MS), "{:?}", gone.looks);
    let back = pushed(&[(MINUTE_MS, &without), (30 * MINUTE_MS, &with)]);
    assert_eq!((back.succeeded, back.calls.len()), (3, 1));
}

#[test]
fn a_route_that_workers_pull_from_now_on_hands_them_no_job() {
    let with = routes(", deadline_s: 3600", "");
    let (head, tail) = with.split_once("    downstream:").expect("a downstream");
    let rest = tail.split_once('\n').expect("more lines").1;
    let pulled = format!("{head}    downstream: pull\n{rest}");
    let setting = Setting { pushes: vec![(MINUTE_MS, pulled)], workers: Some(("parcels", 1)), ..setting() };
    let came = came(setting, &with, jobs(10 * MINUTE_MS, |_, _| Ok(ok(""))), &parcels(3, 1));
    assert_eq!((came.failed, came.calls.len()), (all_fail(3, "job_deadline"), 1));
    assert!(came.batches.iter().all(|batch| matches!(batch.status, BatchStatus::Settled { .. })));
}

#[test]
fn a_job_whose_message_is_lost_is_found_by_sweep() {
    in_virtual_time(async {
        let world = World::new(setting(), &routes("", ""), jobs(10 * MINUTE_MS, |_, _| Ok(ok(""))));
        world.send(&parcels(3, 1));
        world.run_while(|| world.downstream.looks().is_empty()).await.expect("it is looked at");
        world.queues.lose_everything();
        world.run_to_rest().await.expect("it comes to rest");
        assert_kept(&world, 3);
        assert_eq!(world.downstream.ledger().len(), 1);
    });
}

#[test]
fn a_call_beside_a_job_whose_answer_is_the_outcome_is_read_as_ever() {
    let came = came(setting(), &routes("", ""), Scripted::new(Box::new(fails_alone)), &parcels(2, 1));
    assert_eq!(came.failed, BTreeMap::from([("p1".to_owned(), "too_heavy".to_owned())]));
    assert_eq!((came.looks.len(), came.succeeded), (0, 1));
}

#[test]
fn a_member_that_is_not_in_the_call_fails_for_its_own_reason_once_the_job_has_ended() {
    let item = "{\\\"id\\\": {{ item.id | tojson }}, \\\"m\\\": {{ item.payload.m | tojson }}}";
    let items = format!("{{% for item in items %}}{item}{{{{ ',' if not loop.last }}}}{{% endfor %}}");
    let body = format!("\"{{\\\"target\\\": {{{{ target | tojson }}}}, \\\"items\\\": [{items}]}}\"");
    let file = routes(", every_s: 2", "").replace("timeout_ms: 5000", &format!("timeout_ms: 5000, body: {body}"));
    let with_m = |n: usize| format!(r#"{{"id":"p{n}","payload":{{"truck":"t0","n":{n},"m":1}}}}"#);
    let bodies = [with_m(0), parcel(1, 0), with_m(2)];
    for (status_code, others) in [(200, None), (404, Some("job_not_found"))] {
        let came = came(setting(), &file, jobs(SECOND_MS, move |_, _| Ok(status(status_code, None))), &bodies);
        let of = |id: &str| came.failed.get(id).map(String::as_str);
        assert!(of("p1").is_some_and(|reason| reason.starts_with("template_error")), "{:?}", came.failed);
        assert_eq!((of("p0"), of("p2"), came.calls.len()), (others, others, 1));
        assert_eq!(came.calls[0].1.items, ["p0", "p2"]);
    }
}

#[test]
fn a_batch_behind_a_short_jobs_permits_of_its_target_and_its_route_is_called_soon() {
    let file = routes(", every_s: 2", "limits: { in_flight_per_target: 1, in_flight: 2 }");
    let file = file.replace("wait_ms: 0", "wait_ms: 1000, express: false");
    in_virtual_time(async {
        let world = World::new(setting(), &file, jobs(5 * SECOND_MS, |_, _| Ok(ok(""))));
        world.send(&parcels(6, 1)[..3]);
        world.send(&parcels(6, 1)[3..]);
        world.run_for(10 * MINUTE_MS).await.expect("it goes on");
        let (batches, gates) = (world.tables().batches(), world.tables().gates());
        let left: Vec<_> = batches.iter().filter(|batch| batch.unfinished().is_some()).collect();
        assert!(left.is_empty(), "{left:#?}\n{gates:#?}\n{:?}", world.env.now());
        assert_kept(&world, 6);
    });
}
