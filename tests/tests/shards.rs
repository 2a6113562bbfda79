//! Targets with shards, end to end on ports in memory: a quiet one has one leader and full calls, a hot one gets leaders
//! for its shards, and nothing in a shard is ever forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;

use groupage_tests::downstream::Scripted;
use groupage_tests::lag::Lag;
use groupage_tests::promises::broken;
use groupage_tests::scenario::parcels;
use groupage_tests::world::{Setting, World};
use shared::domain::batch::Batch;
use shared::domain::id::{Shard, Target};

const ITEMS: usize = 10;

fn world(shards: u8, index_ms: u64, seed: u64) -> World {
    let routes = format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    shards: {shards}\n    \
         batch: {{ max_items: {ITEMS}, wait_ms: 2000 }}\n    \
         downstream: {{ http: {{ url: \"http://downstream.invalid/load\" }} }}\n    \
         notify: {{ success: default }}\n"
    );
    let lag = Lag { index_ms, ..Lag::default() };
    let setting = Setting { seed, lag, latency_ms: 5, most_calls: 10_000_000, ..Setting::default() };
    World::new(setting, &routes, Scripted::accepting())
}

/// Runs to rest; no promise may be broken on the way.
async fn run(world: &World, tasks: usize) {
    world.run_to_rest().await.unwrap();
    let sent: BTreeSet<String> = (0..tasks).map(|n| format!("p{n}")).collect();
    assert_eq!(broken(world, &sent), Vec::<String>::new());
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

/// The batches with members that leaders of shards other than the home made.
fn of_shards(world: &World) -> Vec<Batch> {
    let batches = world.tables().batches().into_iter();
    batches.filter(|batch| batch.target.shard() != Shard::HOME && !batch.members.is_empty()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_target_loses_no_fill_to_its_shards_and_has_one_leader() {
    for (every_ms, per_event) in [(100, 1), (700, 2), (0, 5)] {
        let mut calls = Vec::new();
        for shards in [1, 4, 16] {
            let world = world(shards, 0, 3);
            for (n, event) in parcels(100, 1).chunks(per_event).enumerate() {
                world.send_later(n as u64 * every_ms, event);
            }
            run(&world, 100).await;
            assert_eq!(of_shards(&world), [], "{shards} shards, {per_event} tasks each {every_ms} ms");
            calls.push(world.downstream.ledger().len());
        }
        println!("{per_event} tasks each {every_ms} ms: {calls:?} calls with 1, 4 and 16 shards");
        assert!(calls.iter().all(|with| *with <= calls[0]), "{per_event} tasks each {every_ms} ms: {calls:?} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hot_target_gets_leaders_for_its_shards_and_its_calls_stay_full() {
    for seed in 0..8 {
        for index_ms in [0, 1_000] {
            let world = world(4, index_ms, seed);
            for (n, event) in parcels(2_000, 1).chunks(20).enumerate() {
                world.send_later(n as u64 * 10, event);
            }
            run(&world, 2_000).await;
            let made: BTreeSet<Target> = of_shards(&world).into_iter().map(|batch| batch.target).collect();
            let calls = world.downstream.ledger().len();
            println!("seed {seed}, lag {index_ms}: {calls} calls, {} batches of shards", of_shards(&world).len());
            assert_eq!(made.len(), 3, "seed {seed}: {made:?}");
            assert!(calls <= 202, "seed {seed}, lag {index_ms}: {calls} calls for 200 full batches");
            assert!(world.downstream.ledger().iter().all(|seen| seen.target == "t0"), "people see no shards");
        }
    }
}
