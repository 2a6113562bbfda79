//! An outage begins, is probed and ends; whose fault a failure is; a person's pause.

use proptest::prelude::*;

use super::*;
use crate::domain::gate::{Admission, Asks, Event, Gate, Heeds, Now, Tried};

const MINUTE_MS: u64 = 60_000;
const LEASE_MS: u64 = 30_000;
const HEEDS: Heeds = Heeds { longest_pause_ms: MINUTE_MS, tells: true };

fn id(name: &str) -> BatchId {
    BatchId::new(name)
}

fn down() -> Failure {
    Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream }
}

fn fail(health: &Health, batch: &str, now: u64) -> (Health, Setback) {
    let (next, setback) = health.failed(&id(batch), &id(batch), &down(), Timestamp(now));
    (next.unwrap_or_else(|| health.clone()), setback)
}

fn answer(health: &Health, batch: &str, now: u64) -> Health {
    health.answered(&id(batch), Timestamp(now)).unwrap_or_else(|| health.clone())
}

/// Away since 1,000, by calls of different batches, of which `b4` was the last.
fn away() -> Health {
    (0..OUTAGE_AFTER).fold(Health::default(), |health, n| fail(&health, &format!("b{n}"), 1_000).0)
}

fn lets(health: &Health, batch: &str, now: u64) -> Lets {
    health.lets(&id(batch), Timestamp(now), Timestamp(now + LEASE_MS))
}

fn probe(health: &Health, batch: &str, now: u64) -> Health {
    match lets(health, batch, now) {
        Lets::Probe(health) => health,
        other => panic!("no probe: {other:?}"),
    }
}

#[test]
fn answers_of_a_well_downstream_are_not_written() {
    assert_eq!(Health::default().answered(&id("a"), Timestamp(1)), None);
    assert_eq!(lets(&Health::default(), "a", 1), Lets::Pass);
}

#[test]
fn some_failures_without_an_answer_are_an_outage_and_with_one_between_them_are_none() {
    let one_less = (0..OUTAGE_AFTER - 1).fold(Health::default(), |health, n| fail(&health, &format!("b{n}"), 1).0);
    assert_eq!((one_less.outage(), lets(&one_less, "a", 2)), (None, Lets::Pass));
    let again = fail(&answer(&one_less, "a", 3), "b", 4).0;
    assert_eq!(again.outage(), None, "the run began anew");
    let (away, setback) = fail(&one_less, "b", 4);
    assert!(away.outage().is_some() && setback.begins_outage);
    assert_eq!(setback.since, Timestamp(1));
}

#[test]
fn a_fault_of_ours_is_an_outage_at_once() {
    let ours = Failure { reason: Reason::new("secret_unavailable"), retry_after_ms: None, fault: Fault::Ours };
    let (next, setback) = Health::default().failed(&id("a"), &id("a"), &ours, Timestamp(1));
    assert!(next.expect("it is news").outage().is_some() && setback.begins_outage);
}

#[test]
fn answers_that_nobody_can_read_close_the_gate_as_a_person_does_and_one_that_is_read_between_them_leaves_it_open() {
    let unread = Failure { reason: Reason::new("answer_not_json"), fault: Fault::Settings, ..down() };
    let misread = |health: &Health, n: u32| {
        let (next, setback) = health.failed(&id("b"), &id("b"), &unread, Timestamp(n.into()));
        (next.expect("it is news"), setback)
    };
    let open = (1..OUTAGE_AFTER).fold(Health::default(), |health, n| misread(&health, n).0);
    assert_eq!((&open.held, lets(&open, "a", 9)), (&None, Lets::Pass));
    let (held, setback) = misread(&open, 9);
    let said = held.held.as_ref().and_then(|held| held.reason.as_deref()).expect("it says what to change");
    assert!(setback.begins_outage && said.starts_with("settings: answer_not_json: set response.ignore_body"), "{said}");
    assert!(said.len() <= crate::steps::hold::MAX_REASON_BYTES);
    assert_eq!(held.answered(&id("c"), Timestamp(10)).expect("it is news").held, held.held, "a person ends it");
    assert_eq!(lets(&held.resumed(Timestamp(11)).expect("it was held"), "a", 12), Lets::Pass);
    assert_eq!(misread(&answer(&open, "c", 8), 9).0.held, None);
    let also_down = (1..OUTAGE_AFTER).fold(fail(&Health::default(), "b", 1).0, |health, n| misread(&health, n).0);
    assert!(also_down.held.is_none() && also_down.outage().is_some());
}

#[test]
fn probes_come_one_at_a_time_with_growing_pauses() {
    let mut health = away();
    let (mut now, mut starts) = (1_000, Vec::new());
    for _ in 0..5 {
        let next = health.outage().expect("it is away").next.0;
        assert!(matches!(lets(&health, "b4", next - 1), Lets::Wait { .. }));
        health = probe(&health, "b4", next);
        assert!(matches!(lets(&health, "other", next), Lets::Wait { .. }), "one at a time");
        assert_eq!(lets(&health, "b4", next), Lets::Pass, "it has the probe");
        health = fail(&health, "b4", next + 10).0;
        starts.push(next - now);
        now = next;
    }
    assert_eq!(starts, [15_000, 30_000, 60_000, 60_000, 60_000]);
}

#[test]
fn a_probe_whose_worker_dies_costs_its_lease() {
    let health = probe(&away(), "b4", 16_000);
    assert!(matches!(lets(&health, "b1", 16_000 + LEASE_MS - 1), Lets::Wait { .. }));
    assert!(matches!(lets(&health, "b1", 46_000), Lets::Probe(_)));
}

#[test]
fn one_that_waits_is_the_heir_and_the_others_come_back_rarely() {
    let probed = probe(&away(), "b4", 16_000);
    let Lets::Wait { next: Some(health), back: (from, to) } = lets(&probed, "b1", 16_001) else { panic!("it waits") };
    assert_eq!((from, to), (Timestamp(46_000), Timestamp(47_000)), "just in time for the next probe");
    let Lets::Wait { next: None, back } = lets(&health, "b2", 16_002) else { panic!("it waits") };
    assert!(back.0 >= Timestamp(46_000), "{back:?}");
    // The one that failed makes room.
    let (health, setback) = fail(&health, "b4", 16_100);
    assert!(setback.back.expect("it is told when").0 >= Timestamp(46_000));
    assert_eq!(health.outage().expect("it is away").heir, Some(id("b1")));
    assert!(matches!(lets(&health, "b1", 46_000), Lets::Probe(_)));
}

#[test]
fn an_heir_that_never_comes_keeps_nobody_from_probing() {
    let probed = probe(&away(), "b4", 16_000);
    let Lets::Wait { next: Some(health), .. } = lets(&probed, "dead", 16_001) else { panic!("it waits") };
    let health = fail(&health, "b4", 16_100).0;
    assert!(matches!(lets(&health, "b2", 46_001), Lets::Probe(_)));
}

#[test]
fn an_answer_ends_it_and_the_backlog_goes_on_slowly_at_first() {
    let health = answer(&probe(&away(), "b4", 16_000), "b4", 16_500);
    assert_eq!((health.run.clone(), lets(&health, "a", 16_501)), (None, Lets::Pass));
    let gap = |limits: Limits, after_ms: u64| health.slowed(limits, Timestamp(16_500 + after_ms)).gap_ms;
    let unlimited = Limits::default();
    assert_eq!(
        [0, 5_000, 10_000, 45_000, 50_000].map(|ms| gap(unlimited, ms)),
        [Some(1_000), Some(500), Some(250), Some(1), None]
    );
    let limited = Limits { gap_ms: Some(300), ..unlimited };
    assert_eq!([0, 10_000, 50_000].map(|ms| gap(limited, ms)), [Some(1_000), Some(300), Some(300)]);
}

#[test]
fn a_run_that_is_no_outage_slows_nothing() {
    let health = answer(&fail(&Health::default(), "a", 1).0, "a", 2);
    assert!(health.is_well(), "{health:?}");
}

#[test]
fn a_call_that_fails_while_others_are_answered_is_at_fault() {
    let mut health = Health::default();
    let mut counted = 0;
    for round in 0..5 {
        let (failed, setback) = fail(&health, "poison", round * 10);
        counted += setback.counted;
        health = answer(&failed, "healthy", round * 10 + 1);
    }
    assert_eq!(counted, 4, "each failure but the last is known to be its own");
    assert_eq!(fail(&health, "poison", 99).1.counted, 1);
    assert_eq!(fail(&health, "another", 99).1.counted, 0);
}

#[test]
fn nobody_is_at_fault_where_several_fail_or_where_it_is_answered_itself() {
    let both = fail(&fail(&Health::default(), "a", 1).0, "b", 2).0;
    let after = answer(&both, "c", 3);
    assert_eq!([fail(&after, "a", 4).1.counted, fail(&after, "b", 4).1.counted], [0, 0]);
    let itself = answer(&fail(&Health::default(), "a", 1).0, "a", 2);
    assert_eq!(fail(&itself, "a", 3).1.counted, 0);
}

#[test]
fn a_failure_beside_an_outages_probes_is_written_only_if_it_is_news() {
    let health = away();
    let (next, setback) = health.failed(&id("late"), &id("late"), &down(), Timestamp(1_100));
    assert_eq!((next, setback.counted), (None, 0));
    assert!(setback.back.expect("it stays away").0 > Timestamp(1_100));
    // All failures so far were of one call: this one shows that it was not alone.
    let alone = (0..OUTAGE_AFTER).fold(Health::default(), |health, _| fail(&health, "a", 1_000).0);
    let next = fail(&alone, "late", 1_100).0;
    assert_eq!(next.run.expect("it is in trouble").of, None);
}

#[test]
fn what_a_person_holds_stays_closed_and_what_a_person_resumes_goes_on_whatever_closed_it() {
    let held = Health::default().held(Some("deploy".to_owned()), Timestamp(5)).expect("it is news");
    assert!(matches!(lets(&held, "a", 1_000_000), Lets::Wait { next: None, .. }));
    assert_eq!(held.held(Some("deploy".to_owned()), Timestamp(9)), None, "a repeat is none");
    let again = held.held(None, Timestamp(9)).expect("it has another reason");
    assert_eq!(again.held, Some(Held { since: Timestamp(5), reason: None }));
    assert!(held.lasts_until(Timestamp(5)) > Timestamp(1_000 * MINUTE_MS));
    for closed in [held, away()] {
        let resumed = closed.resumed(Timestamp(2_000)).expect("it was closed");
        assert_eq!((lets(&resumed, "a", 2_000), resumed.drains), (Lets::Pass, Some(Timestamp(2_000))));
    }
    assert_eq!(Health::default().resumed(Timestamp(1)), None);
    let target = Target::new("r:t");
    for (before, keeps) in [(fail(&Health::default(), "a", 1).0, false), (away(), true)] {
        let held = before.target_held(&target, None, Timestamp(5)).expect("it is news");
        let resumed = held.target_resumed(&target).expect("it was held");
        assert_eq!(resumed.run.is_some(), keeps, "a failure from before a Target's pause is no outage's beginning");
    }
}

#[test]
fn a_gate_admits_a_probe_by_a_write_and_says_so_right_before_the_call() {
    let gate = Gate { health: away(), ..Gate::default() };
    let ask = |gate: &Gate, batch: &str, now| {
        gate.admit(&id(batch), Asks::Anew, Limits::default(), Timestamp(now), Timestamp(now + LEASE_MS))
    };
    assert!(matches!(ask(&gate, "b4", 2_000), Admission::Away { outage: Some(_), .. }));
    let Admission::Admitted(Some(probed), _) = ask(&gate, "b4", 16_000) else { panic!("it may probe") };
    assert_eq!(probed.revision, gate.revision.next());
    assert_eq!(probed.says_now(&id("b4"), Timestamp(16_001)), Now::Go);
    assert_eq!(probed.says_now(&id("b1"), Timestamp(16_001)), Now::Closed(None));
    let paused = Gate { paused_until: Timestamp(20_000), ..gate };
    assert!(matches!(ask(&paused, "b4", 16_000), Admission::Later { gate: None, ticket: None, .. }), "no probe yet");
}

#[test]
fn a_long_retry_after_is_heeded_as_far_as_the_route_says_and_ends_by_hand() {
    let asks = Failure { retry_after_ms: Some(11 * 60 * MINUTE_MS), ..down() };
    let (next, setback) = Gate::default().failed((&id("a"), &id("a")), &asks, HEEDS, Timestamp(0));
    let gate = next.expect("it is news");
    assert_eq!(
        (gate.paused_until, setback.back),
        (Timestamp(MINUTE_MS), Some((Timestamp(MINUTE_MS), Timestamp(MINUTE_MS))))
    );
    let resumed = gate.resumed(Timestamp(1_000)).expect("it was closed");
    assert_eq!(resumed.says_now(&id("b"), Timestamp(1_000)), Now::Go);
}

const BATCHES: [&str; 6] = ["b0", "b1", "b2", "b3", "b4", "b5"];

#[derive(Clone, Debug)]
enum Step {
    Comes(usize),
    Dies(usize),
    Passes(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_usize..6).prop_map(Step::Comes),
        (0_usize..6).prop_map(Step::Dies),
        (0_u64..40_000).prop_map(Step::Passes),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever comes and dies: while the downstream is away, two calls a minute start at most, and never two at once.
    #[test]
    fn an_outage_lets_two_calls_a_minute_through_at_most(steps in steps()) {
        let (mut health, mut now, mut calls) = (away(), 1_000, vec![]);
        for step in steps {
            match step {
                Step::Passes(ms) => now += ms,
                Step::Comes(n) | Step::Dies(n) => match lets(&health, BATCHES[n], now) {
                    Lets::Pass => {
                        let is_probe = health.outage().is_some_and(|outage| outage.is_probed_by(&id(BATCHES[n])));
                        prop_assert!(is_probe);
                    }
                    Lets::Probe(next) => {
                        calls.push(now);
                        health = next;
                        if matches!(step, Step::Comes(_)) {
                            health = fail(&health, BATCHES[n], now).0;
                        }
                    }
                    Lets::Wait { next, back: (from, to) } => {
                        prop_assert!(from <= to && from > Timestamp(now), "{:?} at {}", (from, to), now);
                        prop_assert!(to.since(Timestamp(now)) <= LONGEST_WAIT_MS + SPREAD_MS);
                        health = next.unwrap_or(health);
                    }
                },
            }
        }
        for minute in calls.windows(3) {
            prop_assert!(minute[2] - minute[0] >= MINUTE_MS, "{:?}", minute);
        }
    }

    /// Whatever is answered and fails: an outage, in which each run is of several, counts for nobody; what is counted
    /// was alone in its run, and another was answered then.
    #[test]
    fn only_who_failed_alone_is_at_fault(outcomes in proptest::collection::vec((0_usize..4, any::<bool>()), 0..100)) {
        let (mut health, mut run, mut alone, mut counted) = (Health::default(), Vec::new(), [0_u32; 4], [0_u32; 4]);
        for (now, (batch, is_answered)) in (1..).zip(outcomes) {
            let name = BATCHES[batch];
            if is_answered {
                run.dedup();
                if let [of] = run[..] && of != batch {
                    alone[of] += 1;
                }
                // An answer is written only if something failed before it.
                if !std::mem::take(&mut run).is_empty() {
                    alone[batch] = counted[batch];
                }
                health = answer(&health, name, now);
            } else if health.outage().is_none() {
                let (next, setback) = fail(&health, name, now);
                counted[batch] += setback.counted;
                run.push(batch);
                health = next;
            }
        }
        for batch in 0..4 {
            prop_assert!(counted[batch] <= alone[batch], "{:?} {:?}", counted, alone);
        }
    }
}

/// A gate of which this many calls failed, one after the other.
fn failed(times: u32, heeds: Heeds) -> Gate {
    (0..times).fold(Gate::default(), |gate, n| {
        let batch = id(&format!("b{n}"));
        gate.failed((&batch, &batch), &down(), heeds, Timestamp(1_000)).0.expect("it is news")
    })
}

#[test]
fn an_outage_is_to_be_told_when_it_begins_and_when_it_ends() {
    let news = |gate: &Gate, now| gate.health.news.iter().filter_map(|of| of.due(Timestamp(now))).collect::<Vec<_>>();
    let told = |event| [Tried { since: Timestamp(1_000), event, is_told: true }];
    assert_eq!(news(&failed(OUTAGE_AFTER - 1, HEEDS), 1_000), [], "no outage");
    let away = failed(OUTAGE_AFTER, HEEDS);
    assert_eq!(news(&away, 1_000), [Event::Began]);
    let once_more = away.failed((&id("c"), &id("c")), &down(), HEEDS, Timestamp(1_500)).0.unwrap_or(away);
    assert_eq!(news(&once_more, 1_500), [Event::Began], "once");
    let heard = once_more.announced(&told(Event::Began), Timestamp(1_500)).expect("it is news");
    let over = heard.answered(&id("b4"), Timestamp(9_000)).expect("it is news");
    assert_eq!((news(&heard, 8_000), news(&over, 9_000)), (vec![], vec![Event::Ended]));
    let by_hand = heard.resumed(Timestamp(9_000)).expect("it was closed");
    assert_eq!(news(&by_hand, 9_000), [Event::Ended]);
    let at_rest = over.announced(&told(Event::Ended), Timestamp(9_000)).expect("it is news");
    assert!(at_rest.health.news.is_empty());
}

#[test]
fn a_route_that_tells_nobody_has_no_news() {
    let away = failed(OUTAGE_AFTER, Heeds { tells: false, ..HEEDS });
    assert!(away.health.outage().is_some() && away.health.news.is_empty());
    let over = away.answered(&id("b4"), Timestamp(9_000)).expect("it is news");
    assert!(over.health.news.is_empty());
}
