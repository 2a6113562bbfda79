//! More tasks of one Target come than its partition of the index bears.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use groupage_aws::entry::Metric;
use simulator::limits::Limits;
use simulator::load::Load;
use simulator::timing::{Flow, flow};
use simulator::{Setting, UNTIL_THE_HOUR, run};

/// Write units a second of each partition: a fifth of DynamoDB's, so that a run has a fifth of the tasks.
const WRITE_UNITS: f64 = 200.0;
/// A waiting task costs its partition of the index a unit to come and one to go.
const LIMIT: f64 = WRITE_UNITS / 2.0;

/// Runs differ: of one seed ten times the limit leaves 53 % of it, of another 100 %.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=6;

/// Tasks a second that come, and those that reach the downstream, in the second half of a run; on average.
fn flows(offered: f64, seconds: u64, shards: u8) -> (f64, f64) {
    let limits = Limits { partitions: 64, isolated: true, write_units: WRITE_UNITS, ..Limits::default() };
    let load = Load::Stream { per_second: offered, seconds, targets: 1 };
    let (mut came, mut called) = (0.0, 0.0);
    for seed in SEEDS {
        let setting = Setting { seed, shards, limits: Some(limits), stop_after_s: Some(seconds), ..Setting::of(load) };
        let outcome = run(&setting, &|_| {}).unwrap();
        assert_eq!(outcome.counts.get(Metric::MessagesBraked), 0, "a leader that is throttled is not held up");
        let Flow { offered, reached, left } = flow(&outcome, seconds);
        let calls = outcome.calls.len();
        println!(
            "of {offered:.0} tasks a second {reached:.0} reached the downstream in {calls} calls, {left} were left"
        );
        came += offered;
        called += reached;
    }
    let seeds = SEEDS.count() as f64;
    (came / seeds, called / seeds)
}

fn is_long() -> bool {
    std::env::var("GROUPAGE_TESTS").is_ok_and(|tests| tests == "long")
}

fn reached(offered: f64, seconds: u64) -> f64 {
    flows(offered, seconds, 1).1
}

#[test]
fn offered_twice_its_limit_a_target_keeps_nine_tenths_of_it() {
    assert!(reached(2.0 * LIMIT, 60) >= 0.9 * LIMIT);
}

#[test]
fn offered_ten_times_its_limit_a_target_keeps_four_fifths_of_it() {
    // A backlog of five minutes takes long to simulate.
    let seconds = if is_long() { 300 } else { 60 };
    assert!(reached(10.0 * LIMIT, seconds) >= 0.8 * LIMIT);
}

#[test]
fn a_target_with_four_shards_carries_what_one_partition_does_not() {
    let (came, called) = flows(2.0 * LIMIT, 60, 4);
    assert!(called >= 0.9 * came, "{called:.0} of {came:.0}");
}

/// Five thousand tasks of one Target wait for the full hour, and its partition bears a hundred write units a second.
/// Each task takes one to come and one to go, so all of them take a hundred seconds at least.
#[test]
fn what_falls_due_together_is_called_about_as_fast_as_the_partition_bears() {
    let limits = Limits { partitions: 64, isolated: true, write_units: 100.0, ..Limits::default() };
    let load = Load::Stream { per_second: 25.0, seconds: 200, targets: 1 };
    let setting = Setting { hourly: true, wait_ms: 1_000, limits: Some(limits), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let begun = outcome.tasks_at.values().map(|(at, _)| *at).min().unwrap();
    let last = outcome.calls.iter().map(|call| call.at).max().unwrap();
    let after_s = last.duration_since(begun).as_secs_f64() - UNTIL_THE_HOUR.as_secs_f64();
    let (tasks, calls, throttled) = (outcome.tasks, outcome.calls.len(), outcome.throttled);
    println!(
        "{tasks} tasks in {calls} calls, the last one {after_s:.0} s after the hour; {throttled} refused requests"
    );
    assert!(after_s < 260.0, "the last call is {after_s:.0} s after the hour");
    assert!(calls <= tasks.div_ceil(100) + 4, "{calls} calls");
    assert!(throttled < 2 * tasks as u64, "{throttled} refused requests");
}
