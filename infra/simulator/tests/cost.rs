//! Counts that must not grow: units, requests and calls of bursts. They follow from the seed, not from the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use groupage_aws::{Capacity, Place};
use simulator::bill::Bill;
use simulator::load::Load;
use simulator::timing::fewest_calls;
use simulator::{Outcome, Setting, run};

/// What a task may cost at most: a hundredth or two over what it does.
struct Most {
    write_units: f64,
    read_units: f64,
    requests: f64,
}

/// A burst, whose calls are as few as they can be.
fn check(setting: &Setting, most: &Most) {
    let outcome = costs(setting, most);
    let (calls, fewest) = (outcome.calls.len(), fewest_calls(setting, &outcome));
    let is_few = calls as f64 <= (fewest as f64 * 1.01).ceil();
    assert!(is_few, "{calls} calls are more than a hundredth over the fewest, {fewest}");
}

fn costs(setting: &Setting, most: &Most) -> Outcome {
    let outcome: Outcome = run(setting, &|_| {}).unwrap();
    let a_task = |count: f64| count / outcome.tasks as f64;
    let Capacity { read, write } = outcome.usage.capacity();
    let (write, read) = (a_task(write.count()), a_task(read.count()));
    let requests = a_task(outcome.usage.sqs.total() as f64);
    let calls = outcome.calls.len();
    let what = format!(
        "{} tasks in {:?}: {calls} calls, a task {write:.3} write units, {read:.3} read units, {requests:.3} requests",
        outcome.tasks, outcome.took
    );
    println!("{what}");
    for place in Place::ON_THE_WAY {
        let Capacity { read, write } = outcome.usage.at(place);
        println!("{}: {read} read units, {write} write units", place.name());
    }
    println!("{:?}", outcome.usage.sqs);
    println!("{:.2?}", Bill::of(&outcome).dollars);
    for (step, function) in &outcome.functions {
        println!(
            "{}: {} invocations, {} records, {} ms",
            step.name(),
            function.count,
            function.records,
            function.billed_ms()
        );
    }
    assert!(write <= most.write_units, "{what}: over {} write units", most.write_units);
    assert!(read <= most.read_units, "{what}: over {} read units", most.read_units);
    assert!(requests <= most.requests, "{what}: over {} requests", most.requests);
    outcome
}

fn burst(tasks: usize, targets: usize) -> Setting {
    Setting { express: false, ..Setting::of(Load::Burst { tasks, targets }) }
}

#[test]
fn a_burst_of_a_thousand_keeps_its_price() {
    check(&burst(1_000, 1), &Most { write_units: 5.32, read_units: 1.0, requests: 0.38 });
}

#[test]
fn a_burst_of_ten_thousand_keeps_its_price_while_the_index_lags() {
    let setting = Setting { lag_ms: 2_000, ..burst(10_000, 1) };
    check(&setting, &Most { write_units: 5.32, read_units: 1.07, requests: 0.37 });
}

#[test]
fn a_burst_over_many_targets_keeps_its_price() {
    check(&burst(10_000, 100), &Most { write_units: 5.5, read_units: 1.42, requests: 0.39 });
}

#[test]
fn full_batches_that_arrive_together_keep_theirs() {
    let setting = Setting { lag_ms: 2_000, express: true, ..burst(10_000, 1) };
    check(&setting, &Most { write_units: 2.25, read_units: 0.55, requests: 0.345 });
}

#[test]
fn what_the_events_of_a_small_burst_leave_over_comes_together() {
    for tasks in [100, 1_000] {
        let setting = Setting { express: true, ..burst(tasks, 1) };
        check(&setting, &Most { write_units: 2.25, read_units: 0.55, requests: 0.5 });
    }
}

#[test]
fn what_they_leave_over_of_many_targets_comes_together_too() {
    let setting = Setting { express: true, ..burst(10_000, 100) };
    check(&setting, &Most { write_units: 2.25, read_units: 0.55, requests: 0.43 });
}

/// Ten tasks a second, each sent alone.
#[test]
fn a_trickle_keeps_its_price() {
    let setting = Setting::of(Load::Trickle { per_second: 10.0, seconds: 120, targets: 1 });
    costs(&setting, &Most { write_units: 5.65, read_units: 2.05, requests: 3.18 });
}
