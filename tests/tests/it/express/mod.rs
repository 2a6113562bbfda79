//! The express path: which tasks take it, what becomes of those that are left over, and of those whose batch does not
//! come to be.

mod absent;
mod failing;
mod full;
mod rests;

use groupage_core::domain::task::Status;
use groupage_core::steps::register::{Record, Report};
use groupage_lab::prelude::*;

const ROUTES: &str =
    parcels_route!["batch: { max_items: 10, wait_ms: 2000 }", "notify: { failure: default, success: default }"];

/// They have waited for others for long.
const WAITED: Stage = Stage::Left(Timestamp(0));

fn world() -> World {
    World::new(Setting::default(), ROUTES, Scripted::accepting())
}

/// A world whose routes file has something else in the place of `is`.
fn world_where(is: &str, becomes: &str) -> World {
    World::new(Setting::default(), &ROUTES.replace(is, becomes), Scripted::accepting())
}

/// A world in which messages for the same step come together.
fn mixing() -> World {
    World::new(Setting { mixes: true, ..Setting::default() }, ROUTES, Scripted::accepting())
}

fn sent(world: &World, to: &Destination) -> usize {
    world.queues.now().messages(to).len()
}

/// Runs to rest; every task is settled then, and was in one call.
async fn settles(world: &World, tasks: usize) {
    world.run_to_rest().await.unwrap();
    let all = world.tables().tasks();
    assert_eq!(all.len(), tasks);
    assert!(all.iter().all(|task| matches!(task.status, Status::Succeeded { .. })), "{all:?}");
    assert!(world.keys_by_item().values().all(|keys| *keys == 1), "a task in two calls");
}

/// Registers messages that came before.
async fn register_again(world: &World, bodies: &[String]) -> Report {
    world.register_records(records(bodies).into_iter().map(|record| Record { received: 2, ..record }).collect()).await
}

fn target() -> Target {
    Target::new("parcels:t0")
}
