//! Many batches wait behind one limit: what that costs, and how much of the limit they use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use simulator::load::Load;
use simulator::timing::{overtaken, share_used, waits_of};
use simulator::{CallLimits, GateRequests, Setting, Weights, run};

const BATCHES: usize = 300;

/// Runs differ by some hundredths.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// What runs with this limit come to on average: the requests for the gate a call, the share of the limit, and how far
/// the batch was overtaken that was overtaken most.
fn behind(calls: CallLimits) -> (f64, f64, f64) {
    with_calls_of(1_000, BATCHES, calls)
}

/// The same with this many batches, whose calls take this long, in milliseconds.
fn with_calls_of(call_ms: u64, batches: usize, calls: CallLimits) -> (f64, f64, f64) {
    let (mut requests, mut share, mut most_overtaken) = (0.0, 0.0, 0.0);
    let runs = SEEDS.count() as f64;
    for seed in SEEDS {
        let load = Load::Burst { tasks: batches, targets: 1 };
        let setting = Setting { calls, seed, call_ms, max_items: 1, express: true, ..Setting::of(load) };
        let outcome = run(&setting, &|_| {}).unwrap();
        assert_eq!(outcome.calls.len(), batches, "each batch is called once");
        let GateRequests { reads, writes } = outcome.gates;
        requests += (reads + writes) as f64 / batches as f64 / runs;
        share += share_used(&setting, &outcome).unwrap() / runs;
        most_overtaken += overtaken(&outcome).into_iter().max().unwrap() as f64 / runs;
    }
    println!(
        "{batches} batches of {call_ms} ms, {calls:?}: {requests:.1} reads and writes of the gate a call, {share:.3} used, overtaken by {most_overtaken:.0}"
    );
    (requests, share, most_overtaken)
}

#[test]
fn a_rate_is_used_whole_at_a_flat_price_in_the_order_of_arrival() {
    let limits = CallLimits { per_second: Some(10), pauses_route: true, ..CallLimits::default() };
    let (requests, share, most_overtaken) = behind(limits);
    assert!(requests <= 4.2, "{requests} reads and writes of gates a call");
    assert!(share >= 0.98, "{share} of the rate");
    assert!(most_overtaken <= 20.0, "overtaken by {most_overtaken}");
}

#[test]
fn places_in_flight_are_handed_on_at_a_flat_price_in_the_order_of_arrival() {
    let (requests, share, most_overtaken) =
        behind(CallLimits { in_flight: Some(10), pauses_route: true, ..CallLimits::default() });
    assert!(requests <= 7.5, "{requests} reads and writes of gates a call");
    assert!(share >= 0.89, "{share} of the places");
    assert!(most_overtaken <= 25.0, "overtaken by {most_overtaken}");
}

#[test]
fn what_places_cost_is_flat_and_long_calls_use_them_whole() {
    let places = CallLimits { in_flight: Some(10), pauses_route: true, ..CallLimits::default() };
    let (requests, share, _) = with_calls_of(1_000, 1_000, places);
    assert!(requests <= 8.5, "{requests} reads and writes of gates a call");
    assert!(share >= 0.90, "{share} of the places");
    let (requests, share, _) = with_calls_of(5_000, BATCHES, places);
    assert!(requests <= 8.8, "{requests} reads and writes of gates a call");
    assert!(share >= 0.97, "{share} of the places");
}

/// For how many seconds the one task of another Target waits that comes after 600 of one Target, at 10 calls a second,
/// with these lines of the route; and the requests for the gate a call.
fn wait_of_one(shared: Option<Weights>, lines: &'static str) -> (f64, f64) {
    let calls = CallLimits { per_second: Some(10), pauses_route: true, shared, ..CallLimits::default() };
    let load = Load::AndOne { tasks: 600, after_s: 15 };
    let setting = Setting { calls, max_items: 1, express: true, options: ("", lines), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    assert_eq!(outcome.calls.len(), 601, "each batch is called once");
    let [wait] = waits_of(&outcome, "t1")[..] else { panic!("one call of the other's") };
    let GateRequests { reads, writes } = outcome.gates;
    (wait.as_secs_f64(), (reads + writes) as f64 / 601.0)
}

#[test]
fn the_one_batch_of_a_target_does_not_wait_for_all_of_another_and_nobody_pays_for_it() {
    let (before, price) = wait_of_one(None, "");
    let (after, shared_price) = wait_of_one(Some(Weights::Equal), "");
    println!("{before:.1} s, {price:.1} requests; where Targets share {after:.1} s, {shared_price:.1} requests");
    assert!(before > 40.0, "{before} s behind all others");
    assert!(after < 8.0, "{after} s");
    assert!(shared_price < price + 0.3, "{shared_price} requests, not {price}");
}

#[test]
fn an_urgent_batch_does_not_wait_for_all_usual_ones_and_nobody_pays_for_it() {
    let (before, price) = wait_of_one(None, "");
    let (after, urgent_price) = wait_of_one(None, "    priority: \"truck == 't1' && `9` || `0`\"\n");
    println!("{before:.1} s, {price:.1} requests; as an urgent one {after:.1} s, {urgent_price:.1} requests");
    assert!(before > 40.0, "{before} s behind all others");
    assert!(after < 8.0, "{after} s");
    assert!(urgent_price < price + 0.3, "{urgent_price} requests, not {price}");
}

#[test]
fn ten_targets_share_a_rate_by_their_weights() {
    let calls = CallLimits {
        per_second: Some(10),
        pauses_route: true,
        shared: Some(Weights::OneToTen),
        ..CallLimits::default()
    };
    let load = Load::Burst { tasks: 5_000, targets: 10 };
    let setting = Setting { calls, max_items: 1, express: true, stop_after_s: Some(240), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let first = outcome.calls.iter().map(|call| call.at).min().unwrap();
    // From then on all have lined up; the largest Target has batches for long enough.
    let within = |target: &str| {
        let calls = outcome.calls.iter().filter(|call| call.target == target);
        calls.filter(|call| (60..230).contains(&call.at.duration_since(first).as_secs())).count() as f64
    };
    let counts: Vec<f64> = (0..10).map(|n| within(&format!("t{n}"))).collect();
    let all: f64 = counts.iter().sum();
    println!("{counts:?}");
    assert!(all > 1_600.0, "{all} of 1,700 calls");
    for (weight, count) in (1..).zip(&counts) {
        let (share, due) = (count / all, f64::from(weight) / 55.0);
        assert!((share / due - 1.0).abs() < 0.05, "{weight}: {share:.4} of {due:.4}");
    }
}
