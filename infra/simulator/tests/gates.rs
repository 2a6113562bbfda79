//! Many batches wait behind one limit: what that costs, and how much of the limit they use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use simulator::load::Load;
use simulator::timing::{overtaken, share_used};
use simulator::{CallLimits, GateRequests, Setting, run};

const BATCHES: usize = 300;

/// Runs differ: of one seed places are used to 75 %, of another to 84 %.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// What runs with this limit come to on average: the requests for the gate a call, the share of the limit, and how far
/// the batch was overtaken that was overtaken most.
fn behind(calls: CallLimits) -> (f64, f64, f64) {
    let (mut requests, mut share, mut most_overtaken) = (0.0, 0.0, 0.0);
    let runs = SEEDS.count() as f64;
    for seed in SEEDS {
        let load = Load::Burst { tasks: BATCHES, targets: 1 };
        let setting = Setting { calls, seed, max_items: 1, express: true, ..Setting::of(load) };
        let outcome = run(&setting, &|_| {}).unwrap();
        assert_eq!(outcome.calls.len(), BATCHES, "each batch is called once");
        let GateRequests { reads, writes } = outcome.gates;
        requests += (reads + writes) as f64 / BATCHES as f64 / runs;
        share += share_used(&setting, &outcome).unwrap() / runs;
        most_overtaken += overtaken(&outcome).into_iter().max().unwrap() as f64 / runs;
    }
    println!(
        "{calls:?}: {requests:.1} reads and writes of the gate a call, {share:.3} used, overtaken by {most_overtaken:.0}"
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
    assert!(requests <= 15.5, "{requests} reads and writes of gates a call");
    assert!(share >= 0.78, "{share} of the places");
    assert!(most_overtaken <= 60.0, "overtaken by {most_overtaken}");
}
