//! A breaker opens, is probed and closes; whose fault a failure is; a person's pause; notices of outages.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::domain::gate::{Admission, Asks, BreakerPolicy, Event, Gate, Limits, Now, Rates, Sent};
use crate::domain::id::Target;

const MINUTE_MS: u64 = 60_000;
const LEASE_MS: u64 = 30_000;
const POLICY: BreakerPolicy = BreakerPolicy { longest_pause_ms: MINUTE_MS, notifies: true };

fn id(name: &str) -> BatchId {
    BatchId::new(name)
}

fn down() -> Failure {
    Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream }
}

fn fail(breaker: &mut Breaker, batch: &str, now: u64) -> FailureClass {
    breaker.failed(&id(batch), &id(batch), &down(), Timestamp(now))
}

fn answer(breaker: &mut Breaker, batch: &str, now: u64) {
    breaker.answered(&id(batch), Timestamp(now));
}

/// A breaker after failures of this many batches, `b0` and following.
fn failing(failures: u32) -> Breaker {
    let mut breaker = Breaker::default();
    for n in 0..failures {
        fail(&mut breaker, &format!("b{n}"), 1_000);
    }
    breaker
}

/// A breaker that is open since 1,000.
fn open() -> Breaker {
    failing(OPENS_AFTER)
}

fn decide(breaker: &mut Breaker, batch: &str, now: u64) -> Decision {
    breaker.decide(&id(batch), Timestamp(now), Timestamp(now + LEASE_MS))
}

/// A breaker whose probe `b4` makes since 16,000.
fn half_open() -> Breaker {
    let mut breaker = open();
    assert_eq!(decide(&mut breaker, "b4", 16_000), Decision::Probe);
    breaker
}

fn waits(breaker: &mut Breaker, batch: &str, now: u64) -> bool {
    matches!(decide(breaker, batch, now), Decision::Wait(..))
}

#[test]
fn failures_without_an_answer_open_it_and_one_of_ours_does_at_once() {
    let mut closed = Breaker::default();
    answer(&mut closed, "a", 1);
    assert_eq!((decide(&mut closed, "a", 1), &closed), (Decision::Allow, &Breaker::default()), "nothing is written");
    let ours = Failure { reason: Reason::new("secret_unavailable"), fault: Fault::Ours, ..down() };
    assert!(closed.failed(&id("a"), &id("a"), &ours, Timestamp(1)).begins_outage);
    let mut breaker = failing(OPENS_AFTER - 1);
    assert!(breaker.outage().is_none() && decide(&mut breaker, "a", 1_002) == Decision::Allow);
    let mut answered = breaker.clone();
    answer(&mut answered, "a", 1_003);
    assert!(!fail(&mut answered, "b", 1_004).begins_outage && answered.recovering_since.is_none());
    let class = fail(&mut breaker, "b", 1_004);
    assert!(breaker.outage().is_some() && class.begins_outage);
    assert_eq!(class.since, Timestamp(1_000));
}

#[test]
fn probes_come_one_at_a_time_with_growing_pauses() {
    let mut breaker = open();
    let (mut now, mut pauses) = (1_000, Vec::new());
    for _ in 0..5 {
        let next = breaker.outage().expect("it is open").next_probe.0;
        assert!(waits(&mut breaker.clone(), "b4", next - 1));
        assert_eq!(decide(&mut breaker, "b4", next), Decision::Probe);
        assert!(waits(&mut breaker.clone(), "other", next), "one at a time");
        assert_eq!(decide(&mut breaker, "b4", next), Decision::Allow, "it makes the probe");
        let back = fail(&mut breaker, "b4", next + 10).back.expect("it is told when");
        assert_eq!(back.0, breaker.outage().expect("it is open").next_probe, "alone, it makes the next one in time");
        pauses.push(next - now);
        now = next;
    }
    assert_eq!(pauses, [15_000, 30_000, 60_000, 60_000, 60_000]);
}

#[test]
fn a_probe_whose_worker_dies_costs_its_lease_and_one_whose_batch_ends_costs_nothing() {
    let mut breaker = half_open();
    assert!(waits(&mut breaker.clone(), "b1", 16_000 + LEASE_MS - 1));
    assert_eq!(decide(&mut breaker.clone(), "b1", 46_000), Decision::Probe);
    breaker.abandon_probe(&id("b1"), Timestamp(16_100));
    assert_eq!(breaker, half_open(), "b4 has it");
    breaker.abandon_probe(&id("b4"), Timestamp(16_100));
    assert_eq!(decide(&mut breaker, "b1", 16_100), Decision::Probe);
}

/// Returns how long after the last probe the next one is, after an hour in which these batches wait, if as many of them
/// as `gone`, those that would come first, never come again.
fn next_probe_ms(batches: u64, gone: u64) -> u64 {
    let (mut breaker, mut waiting, mut last_ms, mut to_go) = (open(), BTreeSet::new(), 0, gone);
    waiting.extend((0..batches).map(|n| (1_000 + n, format!("b{n}"))));
    while let Some((now, batch)) = waiting.pop_first() {
        if now > 60 * MINUTE_MS && to_go > 0 {
            to_go -= 1;
            continue;
        }
        let until = match decide(&mut breaker, &batch, now) {
            Decision::Allow => panic!("it is open"),
            Decision::Probe if now > 60 * MINUTE_MS => return now - last_ms,
            Decision::Probe => {
                last_ms = now;
                fail(&mut breaker, &batch, now).back.expect("it is told when").1
            }
            Decision::Wait(_, until) => until,
        };
        waiting.insert((until.0, batch));
    }
    panic!("no batch is left")
}

#[test]
fn a_batch_that_never_comes_delays_the_next_probe_by_seconds() {
    for (batches, gone) in [(1, 0), (2, 0), (2, 1), (3, 2), (10, 1), (10, 5), (30, 10), (1_000, 30)] {
        let most_ms = MINUTE_MS + (gone + 1) * (SHORTEST_WAIT_MS + SPREAD_MS);
        let next_ms = next_probe_ms(batches, gone);
        assert!(next_ms <= most_ms, "{gone} of {batches} are gone: {next_ms} ms");
    }
}

#[test]
fn an_answer_closes_it_and_calls_recover_slowly_at_first() {
    let mut breaker = half_open();
    answer(&mut breaker, "b4", 16_500);
    assert!(breaker.streak.is_none() && decide(&mut breaker, "a", 16_501) == Decision::Allow);
    let gap = |limits: Limits, after_ms: u64| breaker.slowed(limits, Timestamp(16_500 + after_ms)).rates.gap_ms();
    let unlimited = Limits::default();
    let gaps = [0, 5_000, 10_000, 45_000, 50_000].map(|ms| gap(unlimited, ms));
    assert_eq!(gaps, [Some(1_000), Some(500), Some(250), Some(1), None]);
    let limited = Limits { rates: Rates::every(300), ..unlimited };
    assert_eq!([0, 10_000, 50_000].map(|ms| gap(limited, ms)), [Some(1_000), Some(300), Some(300)]);
}

#[test]
fn a_call_that_fails_while_others_are_answered_is_at_fault() {
    let (mut breaker, mut counted) = (Breaker::default(), 0);
    for round in 0..5 {
        counted += u32::from(fail(&mut breaker, "poison", round * 10).is_own_fault);
        answer(&mut breaker, "healthy", round * 10 + 1);
    }
    assert_eq!(counted, 4, "each failure but the last is known to be its own");
    assert!(!fail(&mut breaker.clone(), "another", 99).is_own_fault && fail(&mut breaker, "poison", 99).is_own_fault);
    // None is where several fail, or where it is answered itself.
    let mut both = failing(2);
    answer(&mut both, "c", 1_003);
    assert!(["b0", "b1"].iter().all(|batch| !fail(&mut both.clone(), batch, 1_004).is_own_fault));
    let mut itself = failing(1);
    answer(&mut itself, "b0", 1_002);
    assert!(!fail(&mut itself, "b0", 1_003).is_own_fault);
}

#[test]
fn a_failure_beside_the_probes_changes_only_whose_streak_it_is() {
    let mut breaker = open();
    let class = fail(&mut breaker, "late", 1_100);
    assert_eq!((&breaker, class.is_own_fault), (&open(), false));
    assert!(class.back.expect("it stays away").0 > Timestamp(1_100));
    let mut alone = Breaker::default();
    for _ in 0..OPENS_AFTER {
        fail(&mut alone, "a", 1_000);
    }
    assert!(alone.streak.as_ref().is_some_and(|streak| streak.call.is_some()));
    fail(&mut alone, "late", 1_100);
    assert_eq!(alone.streak.expect("it fails").call, None, "the call was not alone");
}

#[test]
fn answers_that_cannot_be_read_pause_the_route_until_a_person_resumes_it() {
    let unread = Failure { reason: Reason::new("answer_not_json"), fault: Fault::Settings, ..down() };
    let misread = |gate: &Gate| gate.failed((&id("b"), &id("b")), &unread, POLICY, Timestamp(9)).0.expect("it changes");
    let closed = (1..OPENS_AFTER).fold(Gate::default(), |gate, _| misread(&gate));
    assert_eq!((&closed.pauses.all, closed.says_now(&id("a"), Timestamp(9))), (&None, Now::Go));
    let paused = misread(&closed);
    let said = paused.pauses.all.as_ref().and_then(|pause| pause.reason.as_deref()).expect("it says what to change");
    assert!(said.starts_with("settings: answer_not_json: set response.ignore_body"), "{said}");
    assert!(said.len() <= crate::steps::hold::MAX_REASON_BYTES && paused.breaker.outage().is_some());
    let answered = paused.answered(&id("c"), Timestamp(10)).expect("it changes");
    assert_eq!(answered.pauses, paused.pauses, "a person ends it");
    assert_eq!(paused.resumed(Timestamp(11)).expect("it was paused").says_now(&id("a"), Timestamp(12)), Now::Go);
    let between = closed.answered(&id("c"), Timestamp(8)).expect("it changes");
    assert_eq!(misread(&between).pauses.all, None);
    let also_down = (1..OPENS_AFTER).fold(failed(1, POLICY), |gate, _| misread(&gate));
    assert!(also_down.pauses.all.is_none() && also_down.breaker.outage().is_some());
}

#[test]
fn a_person_pauses_and_resumes_whatever_closed_it() {
    let paused = Gate::default().held(Some("deploy".to_owned()), Timestamp(5)).expect("it changes");
    assert_eq!(paused.says_now(&id("a"), Timestamp(1_000_000)), Now::Closed(None));
    assert_eq!(paused.held(Some("deploy".to_owned()), Timestamp(9)), None, "a repeat changes nothing");
    let again = paused.held(None, Timestamp(9)).expect("it has another reason").pauses.all.expect("it is paused");
    assert_eq!((again.since, again.reason), (Timestamp(5), None));
    assert!(paused.lasts_until(Timestamp(5)) > Timestamp(1_000 * MINUTE_MS));
    for closed in [paused, failed(OPENS_AFTER, POLICY)] {
        let resumed = closed.resumed(Timestamp(2_000)).expect("it was closed");
        let recovers = resumed.breaker.recovering_since;
        assert_eq!((resumed.says_now(&id("a"), Timestamp(2_000)), recovers), (Now::Go, Some(Timestamp(2_000))));
    }
    assert_eq!(Gate::default().resumed(Timestamp(1)), None);
    let target = Target::new("r:t");
    for (before, keeps) in [(failed(1, POLICY), false), (failed(OPENS_AFTER, POLICY), true)] {
        let paused = before.target_held(&target, None, Timestamp(5)).expect("it changes");
        let resumed = paused.target_resumed(&target).expect("it was paused");
        assert_eq!(resumed.breaker.streak.is_some(), keeps, "a failure from before the pause begins no outage");
    }
}

#[test]
fn a_limiter_admits_a_probe_by_a_write_and_says_so_right_before_the_call() {
    let gate = Gate { breaker: open(), ..Gate::default() };
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
fn a_long_retry_after_is_heeded_as_far_as_the_route_says_and_a_person_ends_it() {
    let asks = Failure { retry_after_ms: Some(11 * 60 * MINUTE_MS), ..down() };
    let (next, class) = Gate::default().failed((&id("a"), &id("a")), &asks, POLICY, Timestamp(0));
    let (gate, until) = (next.expect("it changes"), Timestamp(MINUTE_MS));
    assert_eq!((gate.paused_until, class.back), (until, Some((until, until))));
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
    /// Whatever comes and dies: of an open breaker two probes a minute begin at most, and never two at once.
    #[test]
    fn an_open_breaker_lets_two_calls_a_minute_through_at_most(steps in steps()) {
        let (mut breaker, mut now, mut calls) = (open(), 1_000, vec![]);
        for step in steps {
            match step {
                Step::Passes(ms) => now += ms,
                Step::Comes(n) | Step::Dies(n) => match decide(&mut breaker, BATCHES[n], now) {
                    Decision::Allow => prop_assert!(matches!(breaker.state, State::HalfOpen(..))),
                    Decision::Probe => {
                        calls.push(now);
                        if matches!(step, Step::Comes(_)) {
                            fail(&mut breaker, BATCHES[n], now);
                        }
                    }
                    Decision::Wait(from, to) => {
                        prop_assert!(from <= to && from > Timestamp(now), "{:?} at {}", (from, to), now);
                        prop_assert!(to.since(Timestamp(now)) <= LONGEST_WAIT_MS + SPREAD_MS);
                    }
                },
            }
        }
        for minute in calls.windows(3) {
            prop_assert!(minute[2] - minute[0] >= MINUTE_MS, "{:?}", minute);
        }
    }

    /// Whatever is answered and fails: what is counted was alone in its streak, and another was answered then.
    #[test]
    fn only_who_failed_alone_is_at_fault(outcomes in proptest::collection::vec((0_usize..4, any::<bool>()), 0..100)) {
        let (mut breaker, mut streak, mut alone) = (Breaker::default(), Vec::new(), [0_u32; 4]);
        let mut counted = [0_u32; 4];
        for (now, (batch, is_answered)) in (1..).zip(outcomes) {
            let name = BATCHES[batch];
            if is_answered {
                streak.dedup();
                if let [of] = streak[..] && of != batch {
                    alone[of] += 1;
                }
                // An answer is written only if a call failed before it.
                if !std::mem::take(&mut streak).is_empty() {
                    alone[batch] = counted[batch];
                }
                answer(&mut breaker, name, now);
            } else if breaker.outage().is_none() {
                counted[batch] += u32::from(fail(&mut breaker, name, now).is_own_fault);
                streak.push(batch);
            }
        }
        for batch in 0..4 {
            prop_assert!(counted[batch] <= alone[batch], "{:?} {:?}", counted, alone);
        }
    }
}

/// A limiter of which this many calls failed, one after the other.
fn failed(times: u32, policy: BreakerPolicy) -> Gate {
    (0..times).fold(Gate::default(), |gate, n| {
        let batch = id(&format!("b{n}"));
        gate.failed((&batch, &batch), &down(), policy, Timestamp(1_000)).0.expect("it changes")
    })
}

#[test]
fn people_are_notified_when_an_outage_begins_and_when_it_ends_if_the_route_says_so() {
    let due = |gate: &Gate| gate.outbox.entries.iter().filter_map(|of| of.due(Timestamp(9_000))).collect::<Vec<_>>();
    let sent = |event| [Sent { since: Timestamp(1_000), event, is_sent: true }];
    assert_eq!(due(&failed(OPENS_AFTER - 1, POLICY)), [], "no outage");
    let open = failed(OPENS_AFTER, POLICY);
    let once_more = open.failed((&id("c"), &id("c")), &down(), POLICY, Timestamp(1_500)).0.unwrap_or(open);
    assert_eq!(due(&once_more), [Event::Began], "once");
    let notified = once_more.notified(&sent(Event::Began), Timestamp(1_500)).expect("it changes");
    let over = notified.answered(&id("b4"), Timestamp(9_000)).expect("it changes");
    assert_eq!((due(&notified), due(&over)), (vec![], vec![Event::Ended]));
    assert_eq!(due(&notified.resumed(Timestamp(9_000)).expect("it was open")), [Event::Ended]);
    let at_rest = over.notified(&sent(Event::Ended), Timestamp(9_000)).expect("it changes");
    assert!(at_rest.outbox.entries.is_empty());
    let silent = failed(OPENS_AFTER, BreakerPolicy { notifies: false, ..POLICY });
    let over = silent.answered(&id("b4"), Timestamp(9_000)).expect("it changes");
    assert!(silent.breaker.outage().is_some() && [silent, over].iter().all(|gate| gate.outbox.entries.is_empty()));
}
