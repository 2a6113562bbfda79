//! A list whose name is used again while a sweep that is slow still thinks of the one before.

use std::sync::Arc;

use groupage_core::domain::list::Options;
use groupage_lab::prelude::*;

const MINUTE_MS: u64 = 60_000;

fn messages(name: &str) -> Vec<String> {
    (0..3).map(|n| format!("{{\"id\":\"{name}-{n}\",\"payload\":{{}}}}")).collect()
}

/// Whether the slow sweep stood still, and how many of the next list's tasks are there afterwards.
async fn slow_sweep(call: usize, side: Side) -> (bool, u64) {
    let memory = Memory::new(1);
    let Memory { store, queues, env } = &memory;
    let (id, listing) = (ListId::new("l"), memory.listing());
    listing.open(&id, Options { ttl_ms: Some(MINUTE_MS) }).await.unwrap().unwrap();
    listing.put(&id, "k", &messages("old")).await.unwrap().unwrap();
    env.sleep(3 * MINUTE_MS).await;

    let fate = Arc::new(Fate::new(Plan::At(call, side, Fault::Pause(60 * MINUTE_MS)), env.clone(), false));
    let process = Process::new("sweep", env.clone(), Arc::clone(&fate), 0);
    let (slow_store, slow_queues) = (Faulty::new(store, &process), Faulty::new(queues, &process));
    let slow = Listing { store: &slow_store, outbox: &slow_queues, env: process.env() };
    let others = async {
        env.sleep(1_000).await;
        while !store.lists().is_empty() {
            // It may not be done while the slow one has something under way.
            let _ = listing.look_after(&id, MINUTE_MS).await;
            env.sleep(MINUTE_MS).await;
        }
        listing.put(&id, "k", &messages("new")).await.unwrap().unwrap();
    };
    tokio::join!(process.run(slow.look_after(&id, MINUTE_MS), || {}), others);
    let waiting = listing.progress(&id).await.unwrap().unwrap();
    (!fate.faults().is_empty(), waiting.list.tail.given.0 - waiting.list.head.taken.0)
}

#[test]
fn a_slow_sweep_touches_nothing_of_the_next_list() {
    for side in [Side::Before, Side::After] {
        for call in 0.. {
            let (stood_still, waiting) = in_virtual_time(slow_sweep(call, side));
            assert_eq!(waiting, 3, "call {call}, {side:?}");
            if !stood_still {
                assert!(call > 5, "every call had its turn");
                break;
            }
        }
    }
}
