//! What each option of a route costs when it is on, and that it costs nothing when it is off.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;

use groupage_aws::Capacity;
use simulator::bill::Bill;
use simulator::options::{ELSEWHERE, groups};
use simulator::{GateRequests, Outcome, Setting, run};

/// All that a run is billed for, and its calls.
#[derive(Debug, PartialEq)]
struct Counts {
    capacity: Capacity,
    requests: u64,
    gates: GateRequests,
    calls: usize,
    /// Invocations and milliseconds of each function.
    functions: Vec<(u64, u64)>,
}

fn counts(outcome: &Outcome) -> Counts {
    Counts {
        capacity: outcome.usage.capacity(),
        requests: outcome.usage.sqs.total(),
        gates: outcome.gates,
        calls: outcome.calls.len(),
        functions: outcome.functions.values().map(|function| (function.count, function.billed_ms())).collect(),
    }
}

fn ran(setting: &Setting) -> Outcome {
    let outcome = run(setting, &|_| {}).unwrap();
    assert_eq!(outcome.dead, BTreeMap::new());
    outcome
}

#[test]
fn a_route_without_options_pays_nothing_for_those_of_another() {
    for group in groups(1) {
        let plain = ran(&group.plain);
        let beside = ran(&Setting { options: ("", ELSEWHERE), ..group.plain });
        if plain.sweeps.is_empty() {
            assert_eq!(counts(&beside), counts(&plain), "{}", group.name);
            continue;
        }
        // sweep looks for batches of every route, and draws what else would be drawn later: the runs are alike only.
        let [one, other] = [&plain, &beside].map(Bill::of);
        for (what, one, other) in [
            ("write units", one.write_units, other.write_units),
            ("read units", one.read_units, other.read_units),
            ("requests", one.sqs_requests, other.sqs_requests),
        ] {
            assert!((other / one - 1.0).abs() < 0.02, "{}: {one} {what}, and {other} beside", group.name);
        }
    }
}

#[test]
fn what_is_looked_up_in_memory_costs_nothing_and_neither_does_another_kind_of_downstream() {
    for group in groups(1) {
        let plain = counts(&ran(&group.plain));
        for option in group.options.iter().filter(|option| option.is_free) {
            assert_eq!(counts(&ran(&option.setting)), plain, "{}, {}", group.name, option.name);
        }
    }
}

/// What a task may cost more than without the option, at most: write units, read units, SQS requests.
type Most = (f64, f64, f64);

/// A little over what docs/performance/options.md has.
const MOST: [(&str, &str, Most); 26] = [
    (BURST, "`max_weight` with `weight`", (0.03, 0.01, 0.0)),
    (BURST, "`close_when`, for no task", (0.0, 0.0, 0.0)),
    (BURST, "`close_when`, for one in a hundred", (0.2, 0.8, 0.05)),
    (BURST, "`min_items`, half of `max_items`", (0.0, 0.0, 0.0)),
    (BURST, "`quiet_ms: 500`", (0.0, 0.0, 0.0)),
    (BURST, "`priority`, 0 for all", (0.0, 0.01, 0.003)),
    (BURST, "`priority`, one in ten is urgent", (0.0, 0.01, 0.003)),
    (BURST, "`collapse`, a key each", (0.12, 0.02, 0.003)),
    (BURST, "`collapse`, one key", (0.16, 0.5, 0.08)),
    (BURST, "`close_at`, every full hour", (3.01, 0.42, 0.0)),
    (EXPRESS, "`max_weight` with `weight`", (0.0, 0.0, 0.0)),
    (EXPRESS, "`close_when`, for no task", (0.65, 0.1, 0.03)),
    (EXPRESS, "`min_items`, half of `max_items`", (0.02, 0.01, 0.0)),
    (EXPRESS, "`priority`, one in ten is urgent", (0.0, 0.0, 0.0)),
    (EXPRESS, "`collapse`, a key each", (3.2, 0.5, 0.03)),
    (TRICKLE, "`min_items: 20`", (0.12, 0.03, 0.08)),
    (TRICKLE, "`quiet_ms: 300`", (0.65, 0.0, 0.35)),
    (TRICKLE, "`close_when`, for no task", (0.0, 0.0, 0.0)),
    (LIMITED, "`calls_per_second: 10`", (0.19, 0.39, 0.15)),
    (LIMITED, "`calls_per_second_per_target: 1`", (0.19, 0.31, 0.23)),
    (RATE, "`share: { by: target }`", (0.09, 0.19, 0.02)),
    (RATE, "`share` with `weight`s from 1 to 10", (0.05, 0.05, 0.02)),
    (RATE, "`priority`, one in ten is urgent", (0.03, 0.08, 0.01)),
    (PLACES, "`share: { by: target }`", (0.25, 0.46, 0.0)),
    (PLACES, "`share` with `weight`s from 1 to 10", (0.15, 0.15, 0.05)),
    (PLACES, "`priority`, one in ten is urgent", (0.15, 0.15, 0.05)),
];
const BURST: &str = "1,000 tasks of one Target, elected";
const EXPRESS: &str = "the same on the express path";
const TRICKLE: &str = "10 tasks a second, elected";
const LIMITED: &str = "100 batches of 10 Targets";
const RATE: &str = "100 batches of 10 Targets, 10 calls a second";
const PLACES: &str = "100 batches of 10 Targets, 10 calls in flight";

#[test]
fn each_other_option_costs_what_its_page_says() {
    let mut most: BTreeMap<(&str, &str), Most> =
        MOST.into_iter().map(|(group, option, most)| ((group, option), most)).collect();
    for group in groups(1) {
        let plain = Bill::of(&ran(&group.plain));
        for option in group.options.iter().filter(|option| !option.is_free) {
            let bill = Bill::of(&ran(&option.setting));
            let (writes, reads) = (bill.write_units - plain.write_units, bill.read_units - plain.read_units);
            let requests = bill.sqs_requests - plain.sqs_requests;
            let said = format!("{}, {}: {writes:.3}, {reads:.3}, {requests:.3} more", group.name, option.name);
            println!("{said}");
            let most = most.remove(&(group.name, option.name)).unwrap_or_else(|| panic!("{said}: no price is stated"));
            let is_within =
                [(writes, most.0), (reads, most.1), (requests, most.2)].iter().all(|(more, most)| more - most < 1e-9);
            assert!(is_within, "{said}; {most:?} at most");
        }
    }
    assert!(most.is_empty(), "these are no options: {:?}", most.keys());
}
