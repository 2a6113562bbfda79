//! Many batches wait behind one limit: what that costs, and how much of the limit they use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::ops::RangeInclusive;

use simulator::load::Load;
use simulator::timing::{overtaken, share_used, waits_of};
use simulator::{CallLimits, GateRequests, Setting, Weights, run};

const BATCHES: usize = 300;

/// Runs differ by some hundredths.
const SEEDS: RangeInclusive<u64> = 1..=8;

/// What runs with this limit come to on average: the requests for the gate a call, the share of the limit, and how far
/// the batch was overtaken that was overtaken most.
fn behind(calls: CallLimits) -> (f64, f64, f64) {
    with_calls_of(1_000, BATCHES, calls)
}

/// The same with this many batches, whose calls take this long, in milliseconds.
fn with_calls_of(call_ms: u64, batches: usize, calls: CallLimits) -> (f64, f64, f64) {
    in_runs(SEEDS, call_ms, batches, calls)
}

/// The same in these runs.
fn in_runs(seeds: RangeInclusive<u64>, call_ms: u64, batches: usize, calls: CallLimits) -> (f64, f64, f64) {
    let (mut requests, mut share, mut most_overtaken) = (0.0, 0.0, 0.0);
    let runs = seeds.clone().count() as f64;
    for seed in seeds {
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
    assert!(requests <= 5.0, "{requests} reads and writes of gates a call");
    assert!(share >= 0.98, "{share} of the rate");
    assert!(most_overtaken <= 20.0, "overtaken by {most_overtaken}");
}

/// As many as `check` accepts. One long run: in its first seconds the mapping has few processes.
#[test]
fn a_hundred_calls_a_second_are_what_a_limit_bears() {
    let limits = CallLimits { per_second: Some(100), pauses_route: true, ..CallLimits::default() };
    let (requests, share, _) = in_runs(1..=1, 100, 4_000, limits);
    assert!(requests <= 8.0, "{requests} reads and writes of gates a call");
    assert!(share >= 0.9, "{share} of the rate");
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

/// Each call has 1 to 8,000 tokens, of 60,000 a minute.
#[test]
fn a_budget_of_tokens_is_used_whole_and_never_exceeded_by_more_than_a_burst() {
    let calls = CallLimits { tokens_per_minute: Some(60_000), pauses_route: true, ..CallLimits::default() };
    let setting =
        Setting { calls, max_items: 1, express: true, ..Setting::of(Load::Burst { tasks: BATCHES, targets: 1 }) };
    let outcome = run(&setting, &|_| {}).unwrap();
    assert_eq!(outcome.calls.len(), BATCHES, "each batch is called once");
    let GateRequests { reads, writes } = outcome.gates;
    let requests = (reads + writes) as f64 / BATCHES as f64;
    let share = share_used(&setting, &outcome).unwrap();
    println!(
        "{BATCHES} batches of 1 to 8,000 tokens: {requests:.1} reads and writes of the gate a call, {share:.3} used"
    );
    assert!(share >= 0.95, "{share} of the budget");
    assert!(requests <= 8.0, "{requests} reads and writes of gates a call");
}

/// Ten Targets with thirty batches each, of which none waits for those of another.
#[test]
fn each_target_is_called_at_its_own_rate() {
    let calls = CallLimits { per_second_per_target: Some(2), ..CallLimits::default() };
    let load = Load::Burst { tasks: 300, targets: 10 };
    let setting = Setting { calls, max_items: 1, express: true, ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let first = outcome.calls.iter().map(|call| call.at).min().unwrap();
    for n in 0..10 {
        let target = format!("t{n}");
        let calls = outcome.calls.iter().filter(|call| call.target == target);
        let mut at: Vec<f64> = calls.map(|call| call.at.duration_since(first).as_secs_f64()).collect();
        at.sort_by(f64::total_cmp);
        assert_eq!(at.len(), 30, "each batch is called once");
        // In the first seconds batch-handler has few processes.
        let took = at[29] - at[14];
        println!("{target}: 30 calls in {:.1} s, the last 15 in {took:.1} s", at[29] - at[0]);
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] > 0.4), "{target}: {at:?}");
        assert!((7.0..9.0).contains(&took), "{target}: {took:.1} s");
    }
    let GateRequests { reads, writes } = outcome.gates;
    let requests = (reads + writes) as f64 / 300.0;
    println!("{requests:.1} reads and writes of gates a call");
    assert!(requests <= 6.5, "{requests} reads and writes of gates a call");
}

/// An outage of the route ends, and behind each Target's rate its batches go on slowly, in their order.
#[test]
fn after_an_outage_of_the_route_each_target_goes_on_slowly_at_its_own_rate() {
    let calls = CallLimits { per_second_per_target: Some(10), pauses_route: true, ..CallLimits::default() };
    let load = Load::Stream { per_second: 8.0, seconds: 60, targets: 1 };
    let setting = Setting { calls, max_items: 1, express: true, away_s: Some((10, 40)), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let begun = outcome.tasks_at.values().map(|(arrived, _)| *arrived).min().unwrap();
    let mut at: Vec<f64> = outcome.calls.iter().map(|call| call.at.duration_since(begun).as_secs_f64()).collect();
    at.sort_by(f64::total_cmp);
    // The probe that is answered comes after seconds without a call.
    let probe = at.windows(2).find(|pair| pair[1] > 45.0 && pair[1] - pair[0] > 4.0).map(|pair| pair[1]);
    let after: Vec<f64> = at.iter().map(|at| at - probe.unwrap()).filter(|at| *at >= 0.0).collect();
    let within = |from: f64| after.iter().filter(|at| (from..from + 5.0).contains(*at)).count();
    let steps: Vec<usize> = (0..24).map(|n| within(f64::from(n) * 5.0)).collect();
    println!("probe {probe:?}: calls in steps of 5 s: {steps:?}; {} in all; gates {:?}", at.len(), outcome.gates);
    assert!(steps[0] <= 8 && steps[1] <= 14, "it does not go on slowly: {steps:?}");
    assert!(steps[..4].iter().sum::<usize>() >= 20, "they wait in turns: {steps:?}");
    assert!(after.windows(11).all(|calls| calls[10] - calls[0] > 0.8), "calls are nearer than the rate allows");
}

/// How far a Target's share of the calls is from its due at most, of ten with the weights 1 to 10 that wait at this
/// limit; and how many calls there were from the first minute's end on, in 170 seconds.
fn most_off(calls: CallLimits, seed: u64) -> (f64, f64) {
    let calls = CallLimits { pauses_route: true, shared: Some(Weights::OneToTen), ..calls };
    let load = Load::Burst { tasks: 5_000, targets: 10 };
    let setting = Setting { calls, seed, max_items: 1, express: true, stop_after_s: Some(240), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let first = outcome.calls.iter().map(|call| call.at).min().unwrap();
    // From then on all have lined up; the largest Target has batches for long enough.
    let within = |target: &str| {
        let calls = outcome.calls.iter().filter(|call| call.target == target);
        calls.filter(|call| (60..230).contains(&call.at.duration_since(first).as_secs())).count() as f64
    };
    let counts: Vec<f64> = (0..10).map(|n| within(&format!("t{n}"))).collect();
    let all: f64 = counts.iter().sum();
    let off = (1..).zip(&counts).map(|(weight, count)| (count / all * 55.0 / f64::from(weight) - 1.0).abs());
    let off = off.fold(0.0, f64::max);
    println!("seed {seed}: {counts:?} of {all} calls, off by {off:.3} at most");
    (off, all)
}

#[test]
fn ten_targets_share_a_rate_by_their_weights() {
    let (off, all) = most_off(CallLimits { per_second: Some(10), ..CallLimits::default() }, 1);
    assert!(all > 1_600.0, "{all} of 1,700 calls");
    assert!(off < 0.05, "off by {off:.3}");
}

/// Each batch is there when its place is back, since the gate knows when that is.
#[test]
fn ten_targets_share_places_in_flight_by_their_weights() {
    let (off, all) = most_off(CallLimits { in_flight: Some(10), ..CallLimits::default() }, 1);
    assert!(all > 1_500.0, "{all} of 1,700 calls");
    assert!(off < 0.05, "off by {off:.3}");
}
