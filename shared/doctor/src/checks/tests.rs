//! A stack that is well, and one fault after the other planted in it: each is found by the name of its check, and no
//! other check minds.

use groupage_core::domain::Timestamp;
use groupage_core::routes::{Allowed, Secret};

use super::judge;
use crate::finding::{Check, Finding, Verdict};
use crate::seen::{
    Account, Alarm, Clock, Cloud, Function, FunctionSettings, KeptSecret, Lease, LongWait, Mapping, Pushed, Queue,
    QueueSettings, Seen, Step, Table, Unread,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const ROUTES: &str =
    "version: 1\nroutes: [{ name: r, target: t, downstream: { http: { url: 'https://a.example/' } } }]";

fn queue(name: &'static str, reader: Step, timeout_s: u64) -> Queue {
    let redrive = Some((format!("s-{name}-dead"), 10));
    let settings = Ok(QueueSettings { visibility_s: 6 * timeout_s, redrive, messages: 0 });
    Queue { name, id: format!("s-{name}"), reader, handled_within_s: timeout_s, settings, oldest_s: Ok(None) }
}

fn function(step: Step, timeout_s: u64, queues: &[&str]) -> Function {
    let mapping = |queue: &&str| Mapping {
        queue: format!("s-{queue}"),
        state: "Enabled".to_owned(),
        reports_failures: true,
        max_concurrency: None,
    };
    Function {
        step,
        settings: Ok(FunctionSettings { timeout_s, ..FunctionSettings::default() }),
        may_loop: Ok(step.is_on_a_cycle()),
        reserved: Ok(None),
        mappings: Ok(queues.iter().map(mapping).collect()),
    }
}

fn alarm(metric: &str, of: &str) -> Alarm {
    let name = format!("s-{metric}-{of}");
    Alarm { name, metric: metric.to_owned(), of: of.to_owned(), tells: true, is_off: false }
}

/// A deployed stack of which everything is well.
fn well() -> Seen {
    let steps = [
        ("tasks", Step::RegisterTask, 30),
        ("in-order", Step::RegisterTask, 30),
        ("elect", Step::ElectLeader, 15),
        ("group", Step::GroupBatch, 60),
        ("handle", Step::BatchHandler, 75),
    ];
    let table = |name, expires: bool| Table {
        name,
        expires,
        expires_by: Ok(expires.then(|| "Ttl".to_owned())),
        is_recoverable: Some(Ok(true)),
    };
    Seen {
        now: NOW,
        own_version: "1.2.3".to_owned(),
        version: Some("1.2.3".to_owned()),
        routes: Ok(Some(Pushed { version: 4, yaml: ROUTES.to_owned(), unrouted: Ok(([].into(), true)) })),
        allowed: Allowed::nothing(),
        secrets: vec![KeptSecret {
            route: "r".to_owned(),
            secret: Secret::SecretsManager("key".to_owned()),
            is_there: Ok(true),
        }],
        queues: steps.map(|(name, reader, timeout_s)| queue(name, reader, timeout_s)).into(),
        ended: vec![("rejected".to_owned(), Ok(0)), ("elect-dlq".to_owned(), Ok(0))],
        tables: vec![table("tasks", true), table("locks", true), table("routes", false)],
        waiting: Ok(None),
        locks: Ok(vec![Lease { of: "r:t".to_owned(), until: Timestamp(NOW.0 - 60_000) }]),
        sessions: Ok(Vec::new()),
        clock: Ok(Clock { ahead_ms: 700, give_or_take_ms: 600 }),
        cloud: Some(Cloud {
            functions: vec![
                function(Step::RegisterTask, 30, &["tasks", "in-order"]),
                function(Step::ElectLeader, 15, &["elect"]),
                function(Step::GroupBatch, 60, &["group"]),
                function(Step::BatchHandler, 75, &["handle"]),
                function(Step::Sweep, 300, &[]),
                function(Step::Api, 30, &[]),
            ],
            account: Ok(Account { concurrency: 1_000, unreserved: 1_000 }),
            alarms: Ok(steps
                .iter()
                .flat_map(|(name, ..)| {
                    let dead = alarm("ApproximateNumberOfMessagesVisible", &format!("s-{name}-dead"));
                    [alarm("ApproximateAgeOfOldestMessage", &format!("s-{name}")), dead]
                })
                .collect()),
        }),
    }
}

/// What is not well after `plant`.
fn found(plant: impl FnOnce(&mut Seen)) -> Vec<Finding> {
    let mut seen = well();
    plant(&mut seen);
    judge(&seen).into_iter().filter(|finding| finding.verdict != Verdict::Well).collect()
}

/// The only thing that is not well after `plant`: of what it is found, and what.
fn only(check: Check, verdict: Verdict, plant: impl FnOnce(&mut Seen)) -> (String, String) {
    let found = found(plant);
    let [finding] = found.as_slice() else { panic!("{} should find it alone: {found:#?}", check.name()) };
    assert_eq!((finding.check, finding.verdict), (check, verdict), "{finding:#?}");
    assert!(finding.todo.as_ref().is_some_and(|todo| !todo.is_empty()), "{finding:#?}");
    (finding.of.join(", "), finding.what.clone())
}

fn wrong(check: Check, plant: impl FnOnce(&mut Seen)) -> (String, String) {
    only(check, Verdict::Wrong, plant)
}

fn cloud(seen: &mut Seen) -> &mut Cloud {
    seen.cloud.as_mut().unwrap()
}

fn of(seen: &mut Seen, step: Step) -> &mut Function {
    cloud(seen).functions.iter_mut().find(|function| function.step == step).unwrap()
}

fn settings(seen: &mut Seen, queue: usize) -> &mut QueueSettings {
    seen.queues[queue].settings.as_mut().unwrap()
}

#[test]
fn a_stack_that_is_well_is_found_so_by_every_check() {
    let findings = judge(&well());
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Well), "{findings:#?}");
    let checks: Vec<Check> = findings.iter().map(|finding| finding.check).collect();
    let (exercise, read) = Check::ALL.split_last().unwrap();
    assert_eq!(*exercise, Check::Exercise, "the only one that is not read");
    assert_eq!(checks, read, "each check says something, in this order");
}

#[test]
fn a_stack_of_another_version_is_found() {
    let (_, what) = wrong(Check::Version, |seen| seen.version = Some("1.2.2".to_owned()));
    assert_eq!(what, "the stack is of version 1.2.2, and this command of 1.2.3");
}

#[test]
fn routes_that_are_absent_broken_or_forbidden_are_found() {
    let (_, what) = wrong(Check::Routes, |seen| seen.routes = Ok(None));
    assert!(what.starts_with("no routes are in force"));
    let push = |yaml: String| {
        move |seen: &mut Seen| seen.routes = Ok(Some(Pushed { version: 9, yaml, unrouted: Ok(([].into(), true)) }))
    };
    let (_, what) = wrong(Check::Routes, push("version: 1\nroutes: 7".to_owned()));
    assert!(what.starts_with("version 9 cannot be used: line 2"), "{what}");
    let (_, what) = wrong(Check::Routes, push(ROUTES.replace("a.example", "10.0.0.1")));
    assert!(what.contains("`PrivateHosts` does not allow"), "{what}");
}

#[test]
fn a_secret_that_is_not_there_is_found_by_its_route() {
    let (of, what) = wrong(Check::Secrets, |seen| seen.secrets[0].is_there = Ok(false));
    assert_eq!((of.as_str(), what.as_str()), ("r", "the secret key is not there"));
}

#[test]
fn a_function_that_cannot_be_invoked_is_found() {
    let (of, _) = wrong(Check::Functions, |seen| {
        of(seen, Step::Sweep).settings.as_mut().unwrap().trouble = Some("the function is Failed".to_owned());
    });
    assert_eq!(of, "sweep");
}

#[test]
fn a_loop_that_aws_would_cut_is_found_for_each_function_on_it() {
    let (found, _) = wrong(Check::Loops, |seen| {
        of(seen, Step::ElectLeader).may_loop = Ok(false);
        of(seen, Step::GroupBatch).may_loop = Ok(false);
    });
    assert_eq!(found, "elect-leader, group-batch");
}

#[test]
fn too_little_concurrency_is_found_wherever_it_is_lacking() {
    let small = Account { concurrency: 10, unreserved: 10 };
    let (of_whom, what) = wrong(Check::Concurrency, |seen| cloud(seen).account = Ok(small));
    assert_eq!((of_whom.as_str(), what.starts_with("only 10 functions")), ("account", true));
    let (of_whom, _) = wrong(Check::Concurrency, |seen| of(seen, Step::BatchHandler).reserved = Ok(Some(0)));
    assert_eq!(of_whom, "batch-handler");
    let cap = |max: u64| {
        move |seen: &mut Seen| {
            let mappings = cloud(seen).functions.iter_mut().filter_map(|function| function.mappings.as_mut().ok());
            mappings.flatten().for_each(|mapping| mapping.max_concurrency = Some(max));
        }
    };
    assert!(wrong(Check::Concurrency, cap(201)).1.contains("may take 1005 functions"));
    let in_a_new_account = |max: u64| {
        move |seen: &mut Seen| {
            cap(max)(seen);
            cloud(seen).account = Ok(small);
        }
    };
    assert!(wrong(Check::Concurrency, in_a_new_account(3)).1.contains("may take 15 functions"));
    assert!(wrong(Check::Concurrency, in_a_new_account(2)).1.contains("all 10 functions"), "sweep has none left");
    assert!(wrong(Check::Concurrency, cap(200)).1.contains("all 1000 functions"));
    let with_one_more = |seen: &mut Seen| {
        cap(2)(seen);
        cloud(seen).account = Ok(Account { concurrency: 11, unreserved: 11 });
    };
    assert_eq!(found(with_one_more), [], "caps that fit need no more");
    assert_eq!(found(cap(199)), []);
}

#[test]
fn a_queue_that_calls_no_function_is_found() {
    let mapping = |seen: &mut Seen, change: fn(&mut Vec<Mapping>)| {
        change(of(seen, Step::GroupBatch).mappings.as_mut().unwrap());
    };
    let disabled = |seen: &mut Seen| mapping(seen, |all| all[0].state = "Disabled".to_owned());
    let absent = |seen: &mut Seen| mapping(seen, Vec::clear);
    let forgetful = |seen: &mut Seen| mapping(seen, |all| all[0].reports_failures = false);
    assert_eq!(
        wrong(Check::Mappings, disabled),
        ("group".to_owned(), "its event source mapping is disabled".to_owned())
    );
    assert!(wrong(Check::Mappings, absent).1.contains("no event source mapping"));
    assert!(wrong(Check::Mappings, forgetful).1.contains("ReportBatchItemFailures"));
}

#[test]
fn a_message_that_is_hidden_for_too_short_is_found() {
    let (of, what) = wrong(Check::Visibility, |seen| settings(seen, 2).visibility_s = 89);
    assert_eq!((of.as_str(), what.as_str()), ("elect", "a received message is hidden for 89 s, and 90 s are needed"));
}

#[test]
fn a_longer_timeout_asks_for_a_longer_visibility() {
    let (found, _) =
        wrong(Check::Visibility, |seen| of(seen, Step::RegisterTask).settings.as_mut().unwrap().timeout_s = 40);
    assert_eq!(found, "tasks, in-order");
}

#[test]
fn a_queue_that_gives_messages_up_too_soon_or_never_is_found() {
    let (_, what) = wrong(Check::Redrive, |seen| settings(seen, 0).redrive.as_mut().unwrap().1 = 4);
    assert_eq!(what, "messages are given up after 4 receives");
    let (of, what) = wrong(Check::Redrive, |seen| settings(seen, 4).redrive = None);
    assert_eq!((of.as_str(), what.starts_with("it has no dead-letter queue")), ("handle", true));
}

#[test]
fn dead_letters_are_found_by_their_queue() {
    let (of, what) = wrong(Check::DeadLetters, |seen| seen.ended[1].1 = Ok(3));
    assert_eq!((of.as_str(), what.as_str()), ("elect-dlq", "3 messages are there"));
}

#[test]
fn an_old_message_is_found() {
    assert_eq!(found(|seen| seen.queues[0].oldest_s = Ok(Some(899.0))), []);
    let (of, what) = wrong(Check::Oldest, |seen| seen.queues[0].oldest_s = Ok(Some(1_800.0)));
    assert_eq!((of.as_str(), what.as_str()), ("tasks", "its oldest message is 30 minutes old"));
}

#[test]
fn tasks_that_nobody_comes_for_are_found() {
    let since = Timestamp(NOW.0 - 20 * 60_000);
    let wait = LongWait { tasks: 7, since, target: "r:t".to_owned() };
    assert_eq!(wrong(Check::Waiting, |seen| seen.waiting = Ok(Some(wait))).1, "7 tasks wait, r:t since 20 minutes");
}

#[test]
fn a_table_in_which_nothing_expires_is_found() {
    let (of, what) = wrong(Check::Expiry, |seen| seen.tables[1].expires_by = Ok(None));
    assert_eq!((of.as_str(), what.as_str()), ("locks", "nothing in it expires"));
    let (_, what) = wrong(Check::Expiry, |seen| seen.tables[0].expires_by = Ok(Some("ttl".to_owned())));
    assert_eq!(what, "items expire by `ttl`, which none has");
}

#[test]
fn a_table_that_cannot_be_restored_is_found() {
    let (of, _) = wrong(Check::Recovery, |seen| seen.tables[2].is_recoverable = Some(Ok(false)));
    assert_eq!(of, "routes");
}

#[test]
fn what_the_dead_still_hold_is_found_once_sweep_had_its_time() {
    let lease = |minutes: u64| Lease { of: "w".to_owned(), until: Timestamp(NOW.0 - minutes * 60_000) };
    assert_eq!(found(|seen| seen.sessions = Ok(vec![lease(9)])), []);
    assert_eq!(wrong(Check::Sessions, |seen| seen.sessions = Ok(vec![lease(11)])).1, "it is over since 11 minutes");
    assert_eq!(wrong(Check::Locks, |seen| seen.locks = Ok(vec![lease(10)])).1, "its lease is over since 10 minutes");
}

#[test]
fn alarms_that_are_absent_mute_or_off_are_found() {
    let alarms = |seen: &mut Seen, change: fn(&mut Vec<Alarm>)| change(cloud(seen).alarms.as_mut().unwrap());
    let (of, _) = wrong(Check::Alarms, |seen| alarms(seen, |all| all.retain(|alarm| alarm.of != "s-group-dead")));
    assert_eq!(of, "group");
    let (of, what) = wrong(Check::Alarms, |seen| alarms(seen, |all| all[0].tells = false));
    assert_eq!((of.as_str(), what.as_str()), ("s-ApproximateAgeOfOldestMessage-s-tasks", "it tells nobody"));
    let (of, what) = wrong(Check::Alarms, |seen| alarms(seen, |all| all.iter_mut().for_each(|one| one.tells = false)));
    assert_eq!((of.as_str(), what.starts_with("the alarms tell nobody")), ("", true));
    assert_eq!(wrong(Check::Ringing, |seen| alarms(seen, |all| all[1].is_off = true)).1, "it is in alarm");
}

#[test]
fn a_clock_that_is_surely_wrong_is_found_and_one_that_may_be_right_is_not() {
    let clock = |ahead_ms| move |seen: &mut Seen| seen.clock = Ok(Clock { ahead_ms, give_or_take_ms: 600 });
    assert_eq!(found(clock(2_600)), []);
    assert_eq!(wrong(Check::Clock, clock(60_000)).1, "this machine's clock is 60 s ahead of that of the service");
    assert_eq!(wrong(Check::Clock, clock(-3_000)).1, "this machine's clock is 3 s behind that of the service");
}

#[test]
fn what_cannot_be_read_is_never_well() {
    let denied = || Unread("AccessDeniedException: no".to_owned());
    let unread = |check, plant: fn(&mut Seen, Unread)| {
        let (_, what) = only(check, Verdict::Unread, |seen| plant(seen, denied()));
        assert_eq!(what, "could not be read: AccessDeniedException: no");
    };
    only(Check::Version, Verdict::Unread, |seen| seen.version = None);
    unread(Check::Routes, |seen, why| seen.routes = Err(why));
    unread(Check::Secrets, |seen, why| seen.secrets[0].is_there = Err(why));
    unread(Check::Loops, |seen, why| of(seen, Step::GroupBatch).may_loop = Err(why));
    unread(Check::Concurrency, |seen, why| cloud(seen).account = Err(why));
    unread(Check::Mappings, |seen, why| of(seen, Step::GroupBatch).mappings = Err(why));
    unread(Check::DeadLetters, |seen, why| seen.ended[0].1 = Err(why));
    unread(Check::Oldest, |seen, why| seen.queues[0].oldest_s = Err(why));
    unread(Check::Waiting, |seen, why| seen.waiting = Err(why));
    unread(Check::Expiry, |seen, why| seen.tables[0].expires_by = Err(why));
    unread(Check::Recovery, |seen, why| seen.tables[0].is_recoverable = Some(Err(why)));
    unread(Check::Locks, |seen, why| seen.locks = Err(why));
    unread(Check::Sessions, |seen, why| seen.sessions = Err(why));
    unread(Check::Clock, |seen, why| seen.clock = Err(why));
    // These lie behind several checks.
    let both = |plant: fn(&mut Seen, Unread)| found(|seen| plant(seen, denied()));
    assert_eq!(both(|seen, why| cloud(seen).alarms = Err(why)).len(), 2);
    assert_eq!(both(|seen, why| of(seen, Step::GroupBatch).settings = Err(why)).len(), 2);
    assert_eq!(both(|seen, why| seen.queues[2].settings = Err(why)).len(), 2);
}

#[test]
fn a_stack_of_ones_own_machine_is_asked_nothing_that_only_aws_has() {
    let mut seen = well();
    seen.cloud = None;
    seen.tables.iter_mut().for_each(|table| table.is_recoverable = None);
    // A process takes its whole timeout once, and nobody throttles it.
    seen.queues.iter_mut().for_each(|queue| queue.settings.as_mut().unwrap().visibility_s = queue.handled_within_s);
    let findings = judge(&seen);
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Well), "{findings:#?}");
    let not_asked = [
        Check::Functions,
        Check::Loops,
        Check::Concurrency,
        Check::Mappings,
        Check::Oldest,
        Check::Recovery,
        Check::Alarms,
        Check::Ringing,
        Check::Exercise,
    ];
    let checks: Vec<Check> = findings.iter().map(|finding| finding.check).collect();
    assert!(Check::ALL.into_iter().all(|check| checks.contains(&check) != not_asked.contains(&check)), "{checks:?}");
}

#[test]
fn the_template_lets_just_those_functions_loop_that_are_on_a_cycle() {
    let template = include_str!("../../../../template.yaml");
    for step in Step::ALL {
        let resource = step.output().trim_end_matches("Name");
        let (_, behind) = template.split_once(&format!("\n  {resource}:\n")).unwrap();
        let (own, _) = behind.split_once("\n\n").unwrap();
        assert_eq!(own.contains("RecursiveLoop: Allow"), step.is_on_a_cycle(), "{resource}");
        assert!(template.contains(&format!("\n  {}:\n", step.output())));
    }
}

#[test]
fn the_template_says_the_version_that_it_is_of() {
    let template = include_str!("../../../../template.yaml");
    assert!(template.contains(&format!("    Value: \"{}\"\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn the_guide_has_a_section_for_each_check() {
    let guide = include_str!("../../../../docs/guides/doctor.md");
    for check in Check::ALL {
        assert!(guide.lines().any(|line| line == format!("## {}", check.name())), "{}", check.name());
        assert_eq!(check.page(), format!("docs/guides/doctor.md#{}", check.name()));
    }
}
