//! Cost and fill of bursts on one Target, on the embedded stack: counted, not timed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::HashSet;

use groupage_tests::burst::{Cost, burst};

fn check(cost: &Cost, most_calls: usize) {
    let what = format!(
        "{} tasks: {} calls, {:.3} write units and {:.3} read units a task",
        cost.tasks,
        cost.calls.len(),
        cost.write_units(),
        cost.read_units()
    );
    println!("{what}\n{:#?}", cost.usage);
    let members: Vec<&String> = cost.calls.values().flatten().collect();
    assert_eq!(members.len(), cost.tasks, "{what}: a task in no call, or in two");
    assert_eq!(members.iter().collect::<HashSet<_>>().len(), cost.tasks, "{what}: a task twice");
    assert!(cost.calls.len() <= most_calls, "{what}: over {most_calls} calls");
    assert!(cost.write_units() <= 5.5, "{what}: over 5.5 write units");
    assert!(cost.read_units() <= 1.5, "{what}: over 1.5 read units");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_ten_thousand_makes_full_calls_at_the_price_of_a_hundred() {
    let small = burst(100, 0, 1).await;
    check(&small, 2);
    let large = burst(10_000, 0, 1).await;
    check(&large, 101);
    let growth = large.write_units() / small.write_units();
    assert!((0.9..=1.1).contains(&growth), "the cost of a task grows with the burst: {growth:.3}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_index_costs_neither_fill_nor_units() {
    let cost = burst(10_000, 2_000, 1).await;
    check(&cost, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_cost_neither_fill_nor_units() {
    for shards in [4, 16] {
        check(&burst(10_000, 0, shards).await, 101);
    }
}
