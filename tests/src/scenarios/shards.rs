//! Stories of a Target with shards.

use futures::FutureExt;
use groupage_core::domain::batch::{Batch, Status};
use groupage_core::domain::id::Shard;
use groupage_core::domain::task::Task;

use crate::scenario::{Beginning, Scenario, parcel, parcels, routes_with};
use crate::world::World;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        two_quiet_shards(),
        a_shard_with_a_leader(),
        a_dead_leader_of_a_shard(),
        a_lost_election_of_a_shard(),
        a_shard_that_is_no_more(),
        a_lost_election_of_a_shard_that_is_no_more(),
    ]
}

fn story(name: &'static str, tasks: usize, begin: Beginning) -> Scenario {
    Scenario::new(name, tasks, begin).route("shards: 2")
}

/// Calls of two, so that few tasks keep a leader busy.
fn hot(name: &'static str, begin: Beginning) -> Scenario {
    let story = story(name, 10, begin);
    Scenario { routes: story.routes.replace("max_items: 3", "max_items: 2"), ..story }
}

/// Each event's tasks lie in one of the shards.
fn two_quiet_shards() -> Scenario {
    story("two quiet shards", 4, |world| {
        parcels(4, 1).into_iter().for_each(|parcel| world.send(&[parcel]));
        async { Ok(()) }.boxed_local()
    })
}

/// The home's leader is at its third batch when the last ones come.
fn send_much(world: &World) {
    for (n, event) in parcels(10, 1).chunks(2).enumerate() {
        world.send_later(if n < 3 { 0 } else { 36 }, event);
    }
}

fn a_shard_with_a_leader() -> Scenario {
    hot("a shard with a leader", |world| {
        send_much(world);
        async { Ok(()) }.boxed_local()
    })
}

/// Runs until the first task has joined an open batch of a shard's leader, then loses every message there is.
async fn lose_a_shards_leader(world: &World) -> Result<(), String> {
    send_much(world);
    let is_joined = |batch: &Batch| {
        let joined = |task: &Task| task.status.batch() == Some(&batch.id);
        matches!(batch.status, Status::Open { .. }) && world.tables().tasks().iter().any(joined)
    };
    let of_shard = |batch: &Batch| batch.target.shard() != Shard::HOME && is_joined(batch);
    world.run_while(|| !world.tables().batches().iter().any(of_shard)).await?;
    world.queues.lose_everything();
    Ok(())
}

fn a_dead_leader_of_a_shard() -> Scenario {
    hot("a dead leader of a shard", |world| lose_a_shards_leader(world).boxed_local())
        .setting(|setting| setting.sweeps = true)
}

/// Nobody knows of these tasks but the index, under their shards.
fn a_lost_election_of_a_shard() -> Scenario {
    story("a lost election of a shard", 4, |world| {
        async {
            for n in 0..4 {
                world.register(&[parcel(n, 0)]).await;
            }
            world.queues.lose_everything();
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}

/// Tasks lie in two shards, then the route has none any more, and others of their Target come.
async fn take_a_shard_away(world: &World) {
    for n in 0..4 {
        world.register_before(&routes_with("shards: 2"), &[parcel(n, 0)]).await;
    }
    world.send(&[4, 5].map(|n| parcel(n, 0)));
}

fn a_shard_that_is_no_more() -> Scenario {
    Scenario::new("a shard that is no more", 6, |world| {
        async {
            take_a_shard_away(world).await;
            Ok(())
        }
        .boxed_local()
    })
}

fn a_lost_election_of_a_shard_that_is_no_more() -> Scenario {
    Scenario::new("a lost election of a shard that is no more", 6, |world| {
        async {
            take_a_shard_away(world).await;
            world.queues.lose_everything();
            Ok(())
        }
        .boxed_local()
    })
    .setting(|setting| setting.sweeps = true)
}
