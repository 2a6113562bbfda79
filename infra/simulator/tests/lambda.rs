//! What Lambda does to long chains of messages, and to more work than may run at once.
//!
//! `GROUPAGE_TESTS=long` has bursts of 100,000 tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use groupage_aws::entry::Metric;
use simulator::lambda::MOST_IN_CHAIN;
use simulator::load::Load;
use simulator::queues::Step;
use simulator::{CallLimits, Caps, Lambda, Outcome, Setting, run};

const HOUR_S: u64 = 3_600;

fn is_long() -> bool {
    std::env::var("GROUPAGE_TESTS").is_ok_and(|tests| tests == "long")
}

/// A downstream that is away while single tasks come: their batches wait by copies of their messages.
fn waiting(loops: bool, away_s: u64) -> Setting {
    let load = Load::Trickle { per_second: 0.2, seconds: 60, targets: 1 };
    let calls = CallLimits { pauses_route: true, ..CallLimits::default() };
    let lambda = Lambda { loops, ..Lambda::DEFAULT };
    Setting { calls, express: true, max_items: 1, away_s: Some((0, away_s)), lambda, ..Setting::of(load) }
}

#[test]
fn tasks_that_wait_by_hundreds_of_messages_settle_where_loops_are_allowed() {
    let outcome = run(&waiting(true, 8 * HOUR_S), &|_| {}).unwrap();
    println!("{} tasks settled after {:?}: {:?}", outcome.tasks, outcome.took, outcome.refused);
    assert!(outcome.tasks > 0 && outcome.refused.longest_chain >= 200, "{:?}", outcome.refused);
    assert_eq!((outcome.refused.cut, outcome.dead.len()), (0, 0));
    assert_eq!(outcome.counts.get(Metric::MessagesBraked), 0, "they wait as long as they have to, and no faster");
    assert_eq!(outcome.counts.get(Metric::TasksSucceeded), outcome.tasks as u64);
}

#[test]
fn without_the_setting_the_chain_is_cut_and_its_message_ends_in_the_dead_letter_queue() {
    // A message of the handle queue is received 100 times before it is dead, 450 s apart.
    let setting = Setting { stop_after_s: Some(24 * HOUR_S), ..waiting(false, 24 * HOUR_S) };
    let outcome = run(&setting, &|_| {}).unwrap();
    println!("{:?}, dead letters: {:?}", outcome.refused, outcome.dead);
    assert!(outcome.refused.longest_chain <= MOST_IN_CHAIN);
    assert!(outcome.refused.cut > 0 && outcome.dead.contains_key(&Step::BatchHandler), "{:?}", outcome.dead);
}

/// Runs a burst for three hours, and says what it came to: tasks that succeeded, and dead letters.
fn burst(lambda: Lambda) -> (u64, usize, Outcome) {
    let tasks = if is_long() { 100_000 } else { 20_000 };
    let load = Load::Burst { tasks, targets: 20 };
    let setting = Setting { express: true, lambda, stop_after_s: Some(3 * HOUR_S), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let (succeeded, dead) = (outcome.counts.get(Metric::TasksSucceeded), outcome.dead.values().sum());
    println!(
        "{succeeded} of {tasks} tasks succeeded, with {lambda:?}: in {:?}, {} calls, {:?}, dead letters: {:?}",
        outcome.took,
        outcome.calls.len(),
        outcome.refused,
        outcome.dead,
    );
    assert_eq!(outcome.counts.get(Metric::MessagesBraked), 0);
    (succeeded, dead, outcome)
}

/// Five queues and sweep have room for eleven.
#[test]
fn a_burst_at_two_invocations_for_each_queue_loses_nothing_and_has_no_dead_letter() {
    let (succeeded, dead, outcome) = burst(Lambda { caps: Caps::Each(2), account: 11, ..Lambda::DEFAULT });
    assert_eq!((succeeded, dead, outcome.refused.throttled), (outcome.tasks as u64, 0, 0));
}

/// Of 20,000 tasks all succeed, only later. Of 100,000 some may be throttled ten times: then their messages are dead
/// letters, and can be sent again.
#[test]
fn a_burst_without_caps_in_an_account_of_ten_is_throttled_and_settles_late() {
    let (succeeded, dead, outcome) = burst(Lambda { caps: Caps::None, account: 10, ..Lambda::DEFAULT });
    assert!(outcome.refused.throttled > 0);
    assert!(is_long() || (succeeded, dead) == (outcome.tasks as u64, 0), "{succeeded} succeeded, {dead} dead letters");
}
