//! Cost and fill of bursts on one Target, on the embedded stack: counted, not timed.
//!
//! A long run (`GROUPAGE_TESTS=long`) sends every burst whole, and one to 16 shards as well as to 4.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::HashSet;

use groupage_tests::burst::{Burst, Cost, burst};
use groupage_tests::effort;

/// The most that a task may cost, in units.
struct Price {
    write: f64,
    read: f64,
    /// What a task may read for each second that its burst takes: a loser of an election looks again after two seconds
    /// at first and after half a minute at last. So a slower machine reads more, and nothing is wrong with that.
    read_a_second: f64,
}

const ELECTED: Price = Price { write: 5.5, read: 1.2, read_a_second: 0.01 };
const EXPRESS: Price = Price { read_a_second: 0.0, write: 2.5, ..ELECTED };

fn check(cost: &Cost, most_calls: usize, price: &Price) {
    let what = format!(
        "{} tasks in {:.0} s: {} calls, {:.3} write units and {:.3} read units a task, {} elections",
        cost.tasks,
        cost.ran_s,
        cost.calls.len(),
        cost.write_units(),
        cost.read_units(),
        cost.elections
    );
    println!("{what}\n{:#?}", cost.usage);
    let members: Vec<&String> = cost.calls.values().flatten().collect();
    assert_eq!(members.len(), cost.tasks, "{what}: a task in no call, or in two");
    assert_eq!(members.iter().collect::<HashSet<_>>().len(), cost.tasks, "{what}: a task twice");
    assert!(cost.calls.len() <= most_calls, "{what}: over {most_calls} calls");
    assert!(cost.write_units() <= price.write, "{what}: over {} write units", price.write);
    let read = price.read + price.read_a_second * cost.ran_s;
    assert!(cost.read_units() <= read, "{what}: over {read:.3} read units");
}

const fn elected(tasks: usize, lag_ms: u64) -> Burst {
    Burst { tasks, lag_ms, express: false, shards: 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_ten_thousand_makes_full_calls_at_the_price_of_a_hundred() {
    let small = burst(elected(100, 0)).await;
    check(&small, 2, &ELECTED);
    let large = burst(elected(10_000, 0)).await;
    check(&large, 101, &ELECTED);
    let growth = large.write_units() / small.write_units();
    assert!((0.9..=1.1).contains(&growth), "the cost of a task grows with the burst: {growth:.3}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_index_costs_neither_fill_nor_units() {
    let tasks = effort::either(3_000, 10_000);
    check(&burst(elected(tasks, 2_000)).await, tasks / 100 + 1, &ELECTED);
}

/// However the mapping cuts the burst into events: what each leaves over, less than a batch, gathers.
#[tokio::test(flavor = "multi_thread")]
async fn full_batches_that_arrive_together_cost_less_than_half() {
    let tasks = effort::either(3_000, 10_000);
    let cost = burst(Burst { express: true, ..elected(tasks, 2_000) }).await;
    // What gathers is called after six seconds at the latest, so a slower machine makes more calls that are not full.
    let cut_short = cost.ran_s / 6.0;
    check(&cost, tasks / 100 + 1 + cut_short as usize, &EXPRESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_cost_neither_fill_nor_units() {
    for shards in effort::either(vec![4], vec![4, 16]) {
        check(&burst(Burst { shards, ..elected(10_000, 0) }).await, 101, &ELECTED);
    }
}
