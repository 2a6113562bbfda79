//! Stories of a Target with shards.

use futures::FutureExt;
use groupage_core::domain::batch::Status;

use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        // Each event's tasks lie in one of the shards.
        story("two quiet shards", 4, |world| parcels(4, 1).into_iter().for_each(|parcel| world.send(&[parcel]))),
        hot("a shard with a leader"),
        hot("a dead leader of a shard").then(|world| lose_a_shards_leader(world).boxed_local()).swept(),
        // Nobody knows of these tasks but the index, under their shards.
        story("a lost election of a shard", 4, |_| {})
            .then(|world| {
                async {
                    for n in 0..4 {
                        world.register(&[parcel(n, 0)]).await;
                    }
                    world.queues.lose_everything();
                    Ok(())
                }
                .boxed_local()
            })
            .swept(),
        more("more shards").then(|world| change_shards(world).boxed_local()),
        more("a lost election when there are more shards")
            .then(|world| change_shards_and_lose_all(world).boxed_local())
            .swept(),
        Scenario::new("a shard that is no more", 6, |_| {}).then(|world| change_shards(world).boxed_local()),
        Scenario::new("a lost election of a shard that is no more", 6, |_| {})
            .then(|world| change_shards_and_lose_all(world).boxed_local())
            .swept(),
    ]
}

fn story(name: &'static str, tasks: usize, begin: fn(&World)) -> Scenario {
    Scenario::new(name, tasks, begin).route("shards: 2")
}

fn more(name: &'static str) -> Scenario {
    Scenario::new(name, 6, |_| {}).route("shards: 4")
}

/// Calls of two, so that few tasks keep a leader busy.
fn hot(name: &'static str) -> Scenario {
    let story = story(name, 10, send_much);
    Scenario { routes: story.routes.replace("max_items: 3", "max_items: 2"), ..story }
}

/// The home's leader is at its third batch when the last ones come.
fn send_much(world: &World) {
    for (n, event) in parcels(10, 1).chunks(2).enumerate() {
        world.send_later(if n < 3 { 0 } else { 44 }, event);
    }
}

/// Runs until the first task has joined an open batch of a shard's leader, then loses every message there is.
async fn lose_a_shards_leader(world: &World) -> Result<(), String> {
    let is_joined = |batch: &Batch| {
        let joined = |task: &Task| task.status.batch() == Some(&batch.id);
        matches!(batch.status, Status::Open { .. }) && world.tables().tasks().iter().any(joined)
    };
    let of_shard = |batch: &Batch| batch.target.shard() != Shard::HOME && is_joined(batch);
    world.run_while(|| !world.tables().batches().iter().any(of_shard)).await?;
    world.queues.lose_everything();
    Ok(())
}

/// Tasks lie in two shards, then the route has none or more of them, and others of their Target come.
async fn change_shards(world: &World) -> Result<(), String> {
    for n in 0..4 {
        world.register_before(&routes_with("shards: 2"), &[parcel(n, 0)]).await;
    }
    world.send(&[4, 5].map(|n| parcel(n, 0)));
    Ok(())
}

/// The same, and every message is lost.
async fn change_shards_and_lose_all(world: &World) -> Result<(), String> {
    change_shards(world).await?;
    world.queues.lose_everything();
    Ok(())
}
