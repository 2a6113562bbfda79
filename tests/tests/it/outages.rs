//! A downstream's bad day: it is away for a while, or one task crashes it. Nobody fails for what was not about it.

use groupage_lab::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::notice::UNDELIVERABLE;
use groupage_core::domain::task::Status;
use groupage_core::steps::hold::Holding;
use groupage_lab::downstream::Seen;
use groupage_lab::process::{Lasting, Outage, Refusing};
use tokio::time::Instant;

const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const OUTAGES: &str = "https://sqs.invalid/outages";

fn setting() -> Setting {
    Setting { seed: 5, latency_ms: 4, sweeps: true, patience_ms: 30 * HOUR_MS, ..Setting::default() }
}

/// A downstream that is away for so long, in seconds.
fn away_for(seconds: u64) -> Scripted {
    let begun = Instant::now();
    let is_away = move |seen: &Seen| seen.at.duration_since(begun).as_secs() < seconds;
    Scripted::new(Box::new(move |seen, _| Ok(if is_away(seen) { status(503, None) } else { ok("") })))
}

/// Fails if one of the tasks, this many, is lost, or did not succeed.
fn assert_succeeded(world: &World, count: usize) {
    assert_kept(world, count);
    let all = world.tables().tasks();
    assert!(all.iter().all(|task| matches!(task.status, Status::Succeeded { .. })), "{all:?}");
}

/// A route with the default retry, and these lines.
fn routes(lines: &str) -> String {
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: 5, wait_ms: 0 }}\n    \
         downstream: {{ http: {{ url: \"http://downstream.invalid/load\", timeout_ms: 5000 }} }}\n    \
         notify: {{ failure: default, success: default, outage: default }}\n    {lines}\n"
    )
}

/// What came of a world at rest.
struct Came {
    /// The reasons of those that failed.
    failed: BTreeMap<String, String>,
    calls: Vec<(Seen, Result<Answer, NoAnswer>)>,
    /// The type of each notice of an outage, and whom it is about.
    told: Vec<(String, String)>,
    begun: Instant,
    broken: Vec<String>,
}

impl Came {
    /// How many calls came between these times.
    fn calls_between(&self, from_ms: u64, to_ms: u64) -> usize {
        let at = |seen: &Seen| u64::try_from(seen.at.duration_since(self.begun).as_millis()).unwrap_or(u64::MAX);
        self.calls.iter().filter(|(seen, _)| (from_ms..to_ms).contains(&at(seen))).count()
    }
}

/// Sends five tasks of one Target each second for as many seconds, and lets all of it come to rest.
fn tell(
    lines: &str,
    seconds: usize,
    script: impl Fn(&Seen, u64) -> Result<Answer, NoAnswer> + Send + Sync + 'static,
) -> Came {
    tell_of(|_| 0, lines, seconds, script)
}

/// The same with a Target for each task.
fn tell_of(
    truck: impl Fn(usize) -> usize,
    lines: &str,
    seconds: usize,
    script: impl Fn(&Seen, u64) -> Result<Answer, NoAnswer> + Send + Sync + 'static,
) -> Came {
    in_virtual_time(async {
        let begun = Instant::now();
        let at = move |seen: &Seen| u64::try_from(seen.at.duration_since(begun).as_millis()).unwrap_or(u64::MAX);
        let downstream = Scripted::new(Box::new(move |seen, _| script(seen, at(seen)))).taking(|| 20);
        let world = World::new(Setting { patience_ms: HOUR_MS, ..setting() }, &routes(lines), downstream);
        let sent: BTreeSet<String> = (0..5 * seconds).map(|n| format!("p{n}")).collect();
        for second in 0..seconds {
            let bodies: Vec<String> = (5 * second..5 * second + 5).map(|n| parcel(n, truck(n))).collect();
            world.send_later(second as u64 * SECOND_MS, &bodies);
        }
        world.run_to_rest().await.expect("it comes to rest");
        let failed = |task: Task| Some((task.id.to_string(), task.status.reason()?.to_string()));
        let failed = world.tables().tasks().into_iter().filter_map(failed).collect();
        let (calls, broken) = (world.downstream.answered(), broken(&world, &sent));
        let told = notices(&world, &Destination::Notification(NotificationQueue::Default));
        Came { failed, calls, told, begun, broken }
    })
}

/// The type of each notice of an outage in this queue, and whom it is about.
fn notices(world: &World, queue: &Destination) -> Vec<(String, String)> {
    let events = world.queues.now().messages(queue).into_iter();
    let event = |message: Outgoing| serde_json::from_str::<serde_json::Value>(&message.body).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = events.map(event).map(|event| (text(&event["type"]), text(&event["subject"])));
    all.filter(|(kind, _)| kind.starts_with("groupage.outage.")).collect()
}

fn of_outages(subjects: &[(&str, &str)]) -> Vec<(String, String)> {
    subjects.iter().map(|(kind, of)| (format!("groupage.outage.{kind}.v1"), (*of).to_owned())).collect()
}

#[test]
fn people_are_told_when_an_outage_begins_and_when_it_ends() {
    let away = 10 * SECOND_MS..100 * SECOND_MS;
    let script = move |_: &Seen, at| Ok(if away.contains(&at) { status(503, None) } else { ok("") });
    let came = tell("limits: { pause: route }", 40, script.clone());
    assert_eq!(came.told, of_outages(&[("began", "parcels"), ("ended", "parcels")]));
    let came = tell("limits: { pause: target }", 40, script.clone());
    assert_eq!(came.told, of_outages(&[("began", "t0"), ("ended", "t0")]));
}

#[test]
fn a_broken_connection_is_one_call_and_one_attempt() {
    let broken = |_: &Seen, _| Err(NoAnswer::Connection);
    let came = tell("retry: { attempts: 1, give_up_after_s: 0 }", 1, broken);
    assert_eq!((came.calls.len(), came.failed.len()), (1, 5), "one batch, whose work may be done");
}

#[test]
fn a_conflict_is_waited_out_only_if_an_earlier_call_of_its_key_may_be_done() {
    let after = |first: Result<Answer, NoAnswer>| {
        move |_: &Seen, at| match at {
            0..100 => first.clone(),
            100..4_000 => Ok(status(409, None)),
            _ => Ok(ok("")),
        }
    };
    let refused = (0..5).map(|n| (format!("p{n}"), "http_409".to_owned())).collect();
    let conflicts = |came: &Came| came.calls.iter().filter(|(_, answer)| *answer == Ok(status(409, None))).count();
    for lines in ["", "retry: { give_up_after_s: 0 }"] {
        let may_run = tell(lines, 1, after(Err(NoAnswer::Timeout)));
        assert_eq!((may_run.failed, may_run.broken), (BTreeMap::new(), Vec::new()), "{lines}");
        let turned_away = tell(lines, 1, after(Ok(status(429, None))));
        assert_eq!((conflicts(&turned_away), &turned_away.failed), (1, &refused), "{lines}");
    }
    let for_ever = tell("", 1, |_, at| if at < 100 { Err(NoAnswer::Timeout) } else { Ok(status(409, None)) });
    assert_eq!((conflicts(&for_ever), for_ever.failed), (5, refused), "within the route's attempts");
}

#[test]
fn a_call_that_timed_out_counts_as_in_flight_for_as_long_as_its_route_says() {
    let repeated_after_ms = |keeps: &str| {
        let lines = format!("retry: {{ base_ms: 100, cap_ms: 100 }}\n    limits: {{ in_flight_per_target: 1{keeps} }}");
        let came = tell(&lines, 1, |_, at| if at < 100 { Err(NoAnswer::Timeout) } else { Ok(ok("")) });
        assert_eq!((came.calls.len(), came.failed, came.broken), (2, BTreeMap::new(), Vec::new()));
        came.calls[1].0.at.duration_since(came.calls[0].0.at).as_millis()
    };
    let (usual, kept) = (repeated_after_ms(""), repeated_after_ms(", keep_timed_out_s: 30"));
    assert!(usual < 5_000 && (30_000..35_000).contains(&kept), "{usual} and {kept} ms from one call to the next");
}

#[test]
fn a_call_that_is_too_large_or_whose_answer_is_goes_in_halves() {
    let too_large = |seen: &Seen| seen.items.len() > 2 || seen.items.iter().any(|item| item == "p2");
    let call = tell("", 1, move |seen, _| Ok(if too_large(seen) { status(413, None) } else { ok("") }));
    assert_eq!(call.failed, BTreeMap::from([("p2".to_owned(), "http_413".to_owned())]));
    let answer = tell("", 1, move |seen, _| if too_large(seen) { Err(NoAnswer::TooLarge) } else { Ok(ok("")) });
    assert_eq!(answer.failed, BTreeMap::from([("p2".to_owned(), "answer_too_large".to_owned())]));
    assert_eq!((call.broken, answer.broken), (Vec::new(), Vec::new()));
}

#[test]
fn a_route_whose_settings_can_read_no_answer_stops_until_they_are_changed() {
    for unread in [Ok(ok("OK")), Ok(ok(r#"{"ok":true}"#)), Err(NoAnswer::TooLarge)] {
        in_virtual_time(async {
            let (begun, scope) = (Instant::now(), Scope::Route(RouteName::new("parcels")));
            let day = move || Instant::now().duration_since(begun).as_secs() < 24 * 3_600;
            let script = move |_: &Seen, _| if day() { unread.clone() } else { Ok(ok("")) };
            let world = World::new(setting(), &routes(""), Scripted::new(Box::new(script)));
            world.send(&(0..20).map(|n| parcel(n, n % 2)).collect::<Vec<_>>());
            world.run_while(day).await.unwrap();
            let calls = world.downstream.ledger().len();
            assert!((5..=8).contains(&calls), "{calls} calls: five stop it, others were under way");
            let told = Destination::Notification(NotificationQueue::Default);
            assert_eq!(notices(&world, &told), of_outages(&[("began", "parcels")]));
            let holding = Holding { store: world.store.inner(), env: &world.env };
            assert_eq!(holding.show(&scope).await.unwrap().call_state(world.env.now()).word(), "held");
            holding.resume(&scope).await.unwrap();
            world.run_to_rest().await.unwrap();
            assert_succeeded(&world, 20);
        });
    }
}

#[test]
fn a_few_failures_are_no_outage_and_nobody_is_told() {
    let script = |_: &Seen, at| Ok(if at == 0 { status(503, None) } else { ok("") });
    let came = tell("limits: { pause: route }", 3, script);
    assert_eq!((came.told, came.broken), (Vec::new(), Vec::new()));
}

/// What is told of an outage, and what is rejected, if its queue refuses for some hours, and one more call comes after
/// some hours.
fn told_after(refused_h: u64, called_h: u64) -> (Vec<(String, String)>, Vec<Outgoing>) {
    in_virtual_time(async {
        let queue = Destination::Notification(NotificationQueue::Url(OUTAGES.to_owned()));
        let refusing = vec![Refusing { queue: queue.clone(), for_ms: refused_h * HOUR_MS }];
        let lasting = Lasting { refusing, ..Lasting::default() };
        let setting = Setting { patience_ms: 100 * HOUR_MS, lasting, ..setting() };
        let file = routes("limits: { pause: route }").replace("outage: default", &format!("outage: \"{OUTAGES}\""));
        let world = World::new(setting, &file, away_for(60));
        for second in 0..20 {
            world.send_later(second * SECOND_MS, &[parcel(usize::try_from(second).unwrap_or(0), 0)]);
        }
        world.send_later(called_h * HOUR_MS, &[parcel(20, 0)]);
        world.run_to_rest().await.expect("it comes to rest");
        let rejected = world.queues.now().messages(&Destination::Rejected);
        (notices(&world, &queue), rejected)
    })
}

#[test]
fn a_queue_that_refuses_for_hours_hears_of_an_outage_with_a_later_call() {
    let (told, rejected) = told_after(3, 4);
    assert_eq!((told, rejected.len()), (of_outages(&[("began", "parcels"), ("ended", "parcels")]), 0));
}

#[test]
fn what_a_queue_has_refused_for_a_day_goes_to_the_rejected_queue() {
    let (told, rejected) = told_after(48, 25);
    let reasons: Vec<_> = rejected.iter().flat_map(|notice| notice.attributes.clone()).collect();
    let undeliverable = reasons.iter().filter(|(name, text)| *name == "Reason" && text == UNDELIVERABLE).count();
    assert_eq!((told, undeliverable), (Vec::new(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_route_may_tell_nobody_of_outages() {
    let file = routes("limits: { pause: route }").replace("outage: default", "outage: none");
    let world = World::new(setting(), &file, away_for(60));
    world.send(&(0..30).map(|n| parcel(n, 0)).collect::<Vec<_>>());
    world.run_to_rest().await.expect("it comes to rest");
    assert!(world.downstream.ledger().len() > 7, "there was an outage");
    assert_eq!(notices(&world, &Destination::Notification(NotificationQueue::Default)), Vec::new());
    assert!(world.tables().gates().iter().all(|(_, gate)| gate.outbox.entries.is_empty()));
}

#[test]
fn a_probe_is_made_in_time_though_the_batches_that_would_make_it_are_cancelled() {
    for left in 0..3 {
        in_virtual_time(async {
            let setting = Setting { sweeps: false, ..setting() };
            let world = World::new(setting, &routes("limits: { pause: route }"), away_for(2 * 3_600));
            world.send(&(0..3).map(|n| parcel(n, n)).collect::<Vec<_>>());
            let gone: Vec<&str> = (0..3).filter(|n| *n != left).map(|n| ["p0", "p1", "p2"][n]).collect();
            world.cancel_later(HOUR_MS, &gone);
            world.run_to_rest().await.expect("it comes to rest");
            let calls = world.downstream.ledger();
            let pauses = calls.windows(2).map(|two| two[1].at.duration_since(two[0].at).as_secs());
            let longest = pauses.max().unwrap_or_default();
            assert!(calls.len() > 100 && longest <= 110, "{longest} s without a probe, by p{left} at last");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_heeded_though_the_breakers_table_refuses_its_write() {
    let outage = Some(Outage { step: "batch-handler", call: "store_gate", for_ms: 2 * HOUR_MS });
    let lasting = Lasting { outage, ..Lasting::default() };
    let setting = Setting { sweeps: false, lasting, ..setting() };
    let script = |_: &Seen, before| Ok(if before == 0 { status(429, Some(600 * SECOND_MS)) } else { ok("") });
    let world = World::new(setting, &routes("retry: { attempts: 1 }"), Scripted::new(Box::new(script)));
    world.send(&[parcel(0, 0)]);
    world.run_to_rest().await.expect("it comes to rest");
    assert_succeeded(&world, 1);
    let calls = world.downstream.ledger();
    let pause_s = calls[1].at.duration_since(calls[0].at).as_secs();
    assert!(calls.len() == 2 && (600..640).contains(&pause_s), "{} calls, {pause_s} s apart", calls.len());
}

#[test]
fn an_outage_that_outlasts_its_route_fails_its_tasks_by_name() {
    let came = tell("retry: { give_up_after_s: 120 }", 1, |_, _| Ok(status(502, None)));
    let reasons: BTreeSet<&str> = came.failed.values().map(String::as_str).collect();
    assert_eq!((came.failed.len(), reasons, came.broken), (5, BTreeSet::from(["outage:http_502"]), Vec::new()));
}

#[test]
fn a_route_that_waits_no_outage_out_counts_each_failure() {
    let came = tell("retry: { give_up_after_s: 0 }", 1, |_, _| Ok(status(502, None)));
    assert_eq!((came.calls.len(), came.failed.len(), came.broken), (5, 5, Vec::new()));
    assert!(came.failed.values().all(|reason| reason == "http_502"), "{:?}", came.failed);
}

#[test]
fn a_fault_of_ours_stops_the_route_at_once_and_fails_nobody() {
    let script = |_: &Seen, at| match at {
        0..30_000 => Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))),
        _ => Ok(ok("")),
    };
    let came = tell("limits: { pause: route }", 20, script);
    assert_eq!((&came.failed, &came.broken), (&BTreeMap::new(), &Vec::new()));
    assert!(came.calls_between(0, 30 * SECOND_MS) <= 4, "{} calls", came.calls_between(0, 30 * SECOND_MS));
}

/// A person holds these calls back for an hour, while 50 tasks of three Targets come.
fn held(scope: &Scope, workers: Option<(&'static str, usize)>) {
    in_virtual_time(async {
        let setting = Setting { workers, ..setting() };
        let routes = routes("limits: { pause: route }");
        let http = r#"{ http: { url: "http://downstream.invalid/load", timeout_ms: 5000 } }"#;
        let routes = if workers.is_some() { routes.replace(http, "pull") } else { routes };
        let world = World::new(setting, &routes, Scripted::accepting());
        let holding = Holding { store: world.tables(), env: &world.env };
        holding.pause(scope, Some("a deployment")).await.unwrap().unwrap();
        world.send(&parcels(50, 3));
        world.run_for(HOUR_MS).await.unwrap();
        let before = world.downstream.ledger().len();
        assert!(if matches!(scope, Scope::Route(_)) { before == 0 } else { before > 0 }, "an hour long");
        let resumed = Instant::now();
        world.let_go(scope).await.unwrap();
        world.run_to_rest().await.unwrap();
        let first = world.downstream.ledger().get(before).map(|seen| seen.at.duration_since(resumed).as_secs());
        assert!(first.is_some_and(|first| first < 5), "woken after {first:?} s");
        assert_succeeded(&world, 50);
    });
}

#[test]
fn a_persons_pause_is_no_part_of_an_outage_wherever_the_breaker_and_the_pause_are() {
    let (of_route, of_target) = (Scope::Route(RouteName::new("parcels")), Scope::Target(Target::new("parcels:t0")));
    // An outage of the whole route goes on while one of its Targets is paused.
    for (breaker, scope, failures) in [
        ("route", &of_route, 1),
        ("route", &of_route, 6),
        ("route", &of_target, 1),
        ("target", &of_route, 1),
        ("target", &of_route, 6),
        ("target", &of_target, 1),
        ("target", &of_target, 6),
    ] {
        in_virtual_time(async {
            let begun = Instant::now();
            let hours = move |at: Instant| at.duration_since(begun).as_secs_f64() / 3_600.0;
            // It is away at first, and for three minutes after the pause. Meanwhile another Target fails once.
            let script = move |seen: &Seen| {
                let back = if seen.target == "t0" { 2.05 } else { 2.0 + 61.0 / 3_600.0 };
                Ok(if hours(seen.at) < back { status(503, None) } else { ok("") })
            };
            let downstream = Scripted::new(Box::new(move |seen, _| script(seen)));
            let file = routes(&format!("limits: {{ pause: {breaker} }}\n    retry: {{ give_up_after_s: 1800 }}"));
            let world = World::new(Setting { patience_ms: 4 * HOUR_MS, ..setting() }, &file, downstream);
            let holding = Holding { store: world.tables(), env: &world.env };
            world.send(&(0..5).map(|n| parcel(n, 0)).collect::<Vec<_>>());
            world.run_while(|| world.downstream.answered().len() < failures).await.unwrap();
            holding.pause(scope, None).await.unwrap().unwrap();
            world.run_while(|| hours(Instant::now()) < 2.0).await.unwrap();
            holding.resume(scope).await.unwrap();
            if breaker == "target" {
                world.send_later(60 * SECOND_MS, &[parcel(5, 1)]);
            }
            world.run_to_rest().await.unwrap();
            let failed: Vec<_> =
                world.tables().tasks().into_iter().filter(|task| task.status.word() != "succeeded").collect();
            assert!(failed.is_empty(), "{breaker} {scope:?} {failures}: {failed:?}");
        });
    }
}

#[test]
fn what_a_person_holds_is_not_called_and_all_of_it_goes_on_within_seconds_afterwards() {
    let route = RouteName::new("parcels");
    for scope in [Scope::Target(Target::of(&route, "t1")), Scope::Route(route)] {
        held(&scope, None);
        held(&scope, Some(("parcels", 2)));
    }
}

#[test]
fn a_task_that_crashes_the_downstream_is_found_among_healthy_ones() {
    let poison = |seen: &Seen, _| {
        let crashes = seen.items.iter().any(|item| item == "p12");
        Ok(if crashes { status(503, None) } else { ok("") })
    };
    let came = tell("on_reject: bisect", 300, poison);
    assert_eq!(came.failed, BTreeMap::from([("p12".to_owned(), "http_503".to_owned())]));
    assert_eq!(came.broken, Vec::<String>::new());
    assert!(came.calls_between(0, u64::MAX) < 330);
}

#[test]
fn a_task_that_crashes_the_downstream_is_found_on_a_target_of_its_own() {
    let poison = |seen: &Seen, _| {
        let crashes = seen.items.iter().any(|item| item == "p12");
        Ok(if crashes { status(503, None) } else { ok("") })
    };
    for pause in ["target", "route"] {
        let came = tell_of(|n| usize::from(n == 12), &format!("limits: {{ pause: {pause} }}"), 300, poison);
        assert_eq!(came.failed, BTreeMap::from([("p12".to_owned(), "http_503".to_owned())]), "{pause}");
        assert_eq!(came.broken, Vec::<String>::new());
    }
}

#[test]
fn a_target_that_is_away_beside_one_that_is_well_fails_nobody() {
    let away = 10 * SECOND_MS..300 * SECOND_MS;
    let script = move |seen: &Seen, at| {
        let is_away = seen.target == "t1" && away.contains(&at);
        Ok(if is_away { status(503, None) } else { ok("") })
    };
    let came = tell_of(|n| n % 2, "", 300, script);
    assert_eq!((&came.failed, &came.broken), (&BTreeMap::new(), &Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_target_can_be_held_by_itself() {
    for pause in ["target", "route"] {
        let world = World::new(setting(), &routes(&format!("limits: {{ pause: {pause} }}")), Scripted::accepting());
        let scope = Scope::Target(Target::new("parcels:t1"));
        let holding = Holding { store: world.tables(), env: &world.env };
        holding.pause(&scope, Some("a deployment")).await.unwrap().unwrap();
        world.send(&parcels(50, 3));
        world.run_for(HOUR_MS).await.unwrap();
        let called = |truck| move |seen: &Seen| seen.target == format!("t{truck}");
        let calls =
            |truck| world.downstream.answered().iter().map(|(seen, _)| seen.clone()).filter(called(truck)).count();
        assert!(calls(0) > 0 && calls(1) == 0 && calls(2) > 0, "{pause}");
        assert_eq!(holding.show(&scope).await.unwrap().call_state(world.env.now()).word(), "held");
        holding.resume(&scope).await.unwrap();
        world.run_to_rest().await.unwrap();
        assert_kept(&world, 50);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_hours_and_is_often_delivered_twice_leaves_few_copies() {
    let world = World::new(Setting { twice: 0.3, ..setting() }, &routes(""), Scripted::accepting());
    let scope = Scope::Route(RouteName::new("parcels"));
    let holding = Holding { store: world.tables(), env: &world.env };
    holding.pause(&scope, None).await.unwrap().unwrap();
    world.send(&parcels(5, 1));
    world.run_for(24 * HOUR_MS).await.unwrap();
    let copies = world.queues.now().messages(&Destination::Handle).len();
    assert!((1..=30).contains(&copies), "{copies} copies of the message of one batch");
    holding.resume(&scope).await.unwrap();
    world.run_to_rest().await.unwrap();
    assert_kept(&world, 5);
}
