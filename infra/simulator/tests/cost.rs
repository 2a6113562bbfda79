//! Counts that must not grow: units, requests and calls of bursts. They follow from the seed, not from the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use shared::aws::{Capacity, Place};
use simulator::load::Load;
use simulator::queues::Step;
use simulator::{Outcome, Setting, run};

fn burst(tasks: usize, lag_ms: u64, express: bool) -> Outcome {
    let setting = Setting { lag_ms, express, ..Setting::of(Load::Burst { tasks, targets: 1 }) };
    run(&setting, &|_| {}).unwrap()
}

fn check(outcome: &Outcome, most_write_units: f64) {
    let tasks = outcome.tasks as f64;
    let write = outcome.usage.capacity().write.count() / tasks;
    let requests = outcome.usage.sqs.total() as f64 / tasks;
    let calls = outcome.calls.len();
    let what = format!(
        "{} tasks in {:?}: {calls} calls, {write:.3} write units and {requests:.3} requests a task",
        outcome.tasks, outcome.took
    );
    println!("{what}");
    for place in Place::ON_THE_WAY {
        let Capacity { read, write } = outcome.usage.at(place);
        println!("{}: {read} read units, {write} write units", place.name());
    }
    println!("{:?}", outcome.usage.sqs);
    for step in Step::ALL {
        let function = &outcome.functions[&step];
        println!(
            "{}: {} invocations, {} records, {} ms",
            step.name(),
            function.count,
            function.records,
            function.billed_ms()
        );
    }
    assert!(calls as f64 <= (tasks / 100.0 * 1.01).ceil(), "{what}: more calls than a hundredth over the fewest");
    assert!(write <= most_write_units, "{what}: over {most_write_units} write units");
    assert!(requests <= 0.45, "{what}: over 0.45 requests");
}

#[test]
fn a_burst_of_a_thousand_keeps_its_price() {
    check(&burst(1_000, 0, false), 5.5);
}

#[test]
fn a_burst_of_ten_thousand_keeps_its_price_while_the_index_lags() {
    check(&burst(10_000, 2_000, false), 5.5);
}

#[test]
fn full_batches_that_arrive_together_keep_theirs() {
    check(&burst(10_000, 2_000, true), 2.75);
}
