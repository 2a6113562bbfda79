//! Tables restored to an earlier moment, after which much was done: all of it goes on, and no downstream mistakes a new
//! call for an old one.

mod apart;

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::batch::Status;
use groupage_core::steps::revive::{Leaders, revive};
use groupage_lab::prelude::*;

const ROUTES: &str = parcels_route!["batch: { max_items: 10, wait_ms: 20000, express: false }"];

fn parcels(ids: std::ops::Range<usize>) -> Vec<String> {
    ids.map(|n| format!(r#"{{"id":"p{n}","payload":{{"truck":"t{}"}}}}"#, n % 3)).collect()
}

fn world(seed: u64) -> World {
    World::new(Setting { seed, latency_ms: 5, sweeps: true, ..Setting::default() }, ROUTES, Scripted::accepting())
}

/// The members that were called under each key.
fn members(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let by_key = world.calls_by_key().into_iter();
    by_key.map(|(key, calls)| (key, calls.into_iter().flat_map(|seen| seen.items).collect())).collect()
}

/// Somebody whose tables were lost: what was called before that, and a world that has a copy of some moment of it.
struct Lost {
    before: BTreeMap<String, BTreeSet<String>>,
    copy: MemoryStore,
    world: World,
}

impl Lost {
    /// Tables that were copied after a number of calls to ports, and restored when all that was sent was done.
    async fn after(calls: usize) -> Self {
        // Both have one clock: no time goes back when tables do.
        let [world, restored] = [0, 1].map(|other| self::world(2 * calls as u64 + other));
        world.send(&parcels(0..45));
        world.run_while(|| world.fate.count() < calls).await.unwrap();
        let copy = world.tables().copy();
        world.send(&parcels(45..90));
        world.run_to_rest().await.unwrap();
        restored.tables().restore(&copy);
        restored.store.were_restored(&copy.tasks(), &copy.batches());
        Self { before: members(&world), copy, world: restored }
    }

    /// Drives the copy on, and sends everything again that is not in it, and more.
    async fn go_on(&self, leaders: Leaders) {
        let world = &self.world;
        revive(world.tables(), &world.queues, &world.env, &world.routes, leaders).await.unwrap();
        world.send(&parcels(90..135));
        world.send(&parcels(0..90));
        world.run_to_rest().await.unwrap();
        let all = world.tables().tasks();
        assert_eq!(all.len(), 135);
        assert!(all.iter().all(|task| task.status.is_settled()), "an unsettled task: {all:?}");
    }

    /// Calls under a key of the time before that was for fewer tasks: their downstream may take them for repeats.
    fn mistaken(&self) -> Vec<String> {
        let after = members(&self.world).into_iter();
        let known = after.filter(|(key, now)| self.before.get(key).is_some_and(|before| !now.is_subset(before)));
        known.map(|(key, _)| key).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_of_an_earlier_moment_that_goes_on_repeats_the_ids_of_its_batches() {
    // So that the next test is known to look where it matters.
    let mut mistaken = 0;
    for calls in (0..400).step_by(10) {
        let lost = Lost::after(calls).await;
        lost.go_on(Leaders::GoOn).await;
        mistaken += lost.mistaken().len();
    }
    assert!(mistaken > 0);
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_from_an_earlier_moment_is_never_taken_for_what_was_called_since() {
    for calls in (0..400).step_by(5) {
        let lost = Lost::after(calls).await;
        lost.go_on(Leaders::AreReplaced).await;
        assert_eq!(lost.mistaken(), Vec::<String>::new(), "copied after {calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_was_open_is_called_again_and_what_has_an_outcome_is_not() {
    let mut spared = 0;
    for calls in (0..400).step_by(5) {
        let lost = Lost::after(calls).await;
        let with_outcome: BTreeSet<String> = lost.copy.batches().iter().flat_map(outcome_of).collect();
        let open = lost.copy.tasks().into_iter().filter(|task| !task.status.is_settled());
        let open: BTreeSet<String> = open.map(|task| task.id.to_string()).collect();
        let settled = lost.copy.tasks().into_iter().filter(|task| task.status.is_settled());
        spared += open.intersection(&with_outcome).count();
        lost.go_on(Leaders::AreReplaced).await;
        let again: BTreeSet<String> = members(&lost.world).into_values().flatten().collect();
        for id in settled.map(|task| task.id.to_string()).chain(with_outcome) {
            assert!(!again.contains(&id), "{id} was settled in the copy after {calls} calls");
        }
    }
    assert!(spared > 0, "no copy was made between an outcome and its tasks' statuses");
}

/// The members of a batch whose outcome is recorded.
fn outcome_of(batch: &Batch) -> Vec<String> {
    match batch.status {
        Status::Settled { .. } => batch.members.iter().map(|member| member.id.to_string()).collect(),
        _ => Vec::new(),
    }
}
