//! Tables that were copied one after the other, while the stack ran: whichever of them are later, all of it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use groupage_core::memory::Copies;
use groupage_core::steps::revive::{Leaders, revive};
use groupage_lab::effort;
use groupage_lab::prelude::*;

use super::members;

/// A kind of burst, of which tables are copied.
struct Kind {
    routes: &'static str,
    downstream: fn() -> Scripted,
    /// Whether a task may be called under several keys, since some fail for now.
    comes_again: bool,
}

const LED: Kind = Kind {
    routes: parcels_route!["batch: { max_items: 5, wait_ms: 4000, express: false }"],
    downstream: slow,
    comes_again: false,
};
const PACED: Kind = Kind {
    routes: parcels_route!["batch: { max_items: 5, wait_ms: 2000 }", "limits: { calls_per_second: 4 }"],
    downstream: slow,
    comes_again: false,
};
const FAILING: Kind = Kind {
    routes: parcels_route!["batch: { max_items: 5, wait_ms: 2000 }", "limits: { in_flight: 2 }"],
    downstream: some_fail,
    comes_again: true,
};

fn slow() -> Scripted {
    Scripted::accepting().taking(|| 20)
}

/// Of each batch one member is asked to come again, and one is failed.
fn some_fail() -> Scripted {
    Scripted::new(Box::new(|seen, _| {
        let result = |(position, id): (usize, &String)| match position {
            1 => serde_json::json!({ "id": id, "status": "retry", "reason": "busy" }),
            3 => serde_json::json!({ "id": id, "status": "failed", "reason": "too_heavy" }),
            _ => serde_json::json!({ "id": id, "status": "succeeded" }),
        };
        let results: Vec<_> = seen.items.iter().enumerate().map(result).collect();
        Ok(ok(&serde_json::json!({ "results": results }).to_string()))
    }))
}

fn parcels(ids: std::ops::Range<usize>) -> Vec<String> {
    ids.map(|n| format!(r#"{{"id":"p{n}","payload":{{"truck":"t{}"}}}}"#, n % 2)).collect()
}

fn world(kind: &Kind, seed: u64) -> World {
    World::new(Setting { seed, latency_ms: 5, sweeps: true, ..Setting::default() }, kind.routes, (kind.downstream)())
}

/// Runs something in a time of its own, which begins where that of all worlds does.
fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(run)
}

/// A burst, with a copy of the tables for each millisecond.
struct Burst {
    /// Each with the milliseconds since the beginning.
    copies: Vec<(u64, MemoryStore)>,
    called: BTreeMap<String, BTreeSet<String>>,
}

impl Burst {
    fn of(kind: &Kind) -> Self {
        in_virtual_time(async {
            let world = world(kind, 1);
            let began = world.env.now();
            world.send(&parcels(0..20));
            world.send_later(300, &parcels(20..30));
            let mut copies = Vec::new();
            let copying = async {
                while settled(world.tables()).len() < 30 {
                    copies.push((world.env.now().since(began), world.tables().copy()));
                    world.env.sleep(1).await;
                }
            };
            futures::join!(async { world.run_to_rest().await.unwrap() }, copying);
            Self { copies, called: members(&world) }
        })
    }
}

fn settled(tables: &MemoryStore) -> BTreeSet<String> {
    let settled = tables.tasks().into_iter().filter(|task| task.status.is_settled());
    settled.map(|task| task.id.to_string()).collect()
}

/// What goes wrong when a stack goes on from tables of two moments; bit by bit, `later` says which are of the later.
fn goes_on(kind: &Kind, burst: &Burst, (earlier, later): (usize, usize), are_later: u8) -> Result<(), String> {
    let (first, second) = (&burst.copies[earlier], &burst.copies[later]);
    let of = |bit: u8| if are_later & (1 << bit) == 0 { &first.1 } else { &second.1 };
    let copies = Copies { tasks: of(0), batches: of(1), locks: of(2), sessions: of(3), others: &second.1 };
    let copy = MemoryStore::of_copies(copies);
    in_virtual_time(async {
        let world = world(kind, 7);
        tokio::time::advance(Duration::from_millis(second.0 + 60_000)).await;
        world.tables().restore(&copy);
        revive(world.tables(), &world.queues, &world.env, &world.routes, Leaders::AreReplaced).await.unwrap();
        world.store.were_restored(&world.tables().tasks(), &world.tables().batches());
        // Before anybody sends anything again, what the copy has is settled.
        world.run_to_rest().await?;
        world.send(&parcels(0..30));
        world.run_to_rest().await?;
        if settled(world.tables()).len() != 30 {
            return Err("a task is not settled".to_owned());
        }
        let after = members(&world);
        let called: Vec<&String> = after.values().flatten().collect();
        let was_settled = settled(&copy);
        if let Some(id) = called.iter().find(|id| was_settled.contains(**id)) {
            return Err(format!("{id} was settled in the copy, and is called"));
        }
        if !kind.comes_again && called.len() > called.iter().collect::<BTreeSet<_>>().len() {
            return Err(format!("a task is called under two keys: {after:?}"));
        }
        let is_mistaken = |(key, now): &(&String, &BTreeSet<String>)| {
            burst.called.get(*key).is_some_and(|before| !now.is_subset(before))
        };
        after.iter().find(is_mistaken).map_or(Ok(()), |(key, _)| Err(format!("{key} is taken for an old call")))
    })
}

/// Tries copies from all over the burst, some milliseconds apart, with every choice of those that are later.
fn all_go_on(kind: &Kind) {
    let burst = Burst::of(kind);
    let last = burst.copies.len() - 1;
    let (mut tried, mut wrong) = (0, Vec::new());
    // A task that comes again waits for seconds.
    for earlier in (0..last).step_by((last / effort::either(24, 400)).max(1)) {
        for apart in [1, 8, 64] {
            let moments = (earlier, (earlier + apart).min(last));
            for are_later in 1..15 {
                tried += 1;
                if let Err(why) = goes_on(kind, &burst, moments, are_later) {
                    wrong.push((moments, are_later, why));
                }
            }
        }
    }
    let first: Vec<_> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} of {tried} of {last} ms: {first:#?}", wrong.len());
    assert!(tried > 200, "the burst was over after {last} ms");
}

#[test]
fn tables_of_two_moments_go_on_whichever_are_the_later_ones() {
    all_go_on(&LED);
}

#[test]
fn so_do_those_of_a_rate_and_of_batches_that_need_no_leader() {
    all_go_on(&PACED);
}

#[test]
fn so_do_those_of_members_that_come_again() {
    all_go_on(&FAILING);
}
