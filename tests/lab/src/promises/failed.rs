//! What was promised of failed tasks: each is listed once, for as long as it stands as failed, and nothing else is.

use std::collections::BTreeSet;

use futures::FutureExt;
use groupage_core::domain::failed::Wanted;
use groupage_core::domain::task::Status;
use groupage_core::steps::failed::Failing;

use super::ended::has_ended;
use crate::prelude::*;

pub(super) fn broken(world: &World) -> Vec<String> {
    let listed = listed(world);
    let once: BTreeSet<&TaskId> = listed.iter().collect();
    let mut broken = Vec::new();
    if once.len() != listed.len() {
        broken.push(format!("failed tasks are listed once: {listed:?}"));
    }
    for task in world.tables().tasks() {
        // Nobody has to look into a task that ended without a call, nor into one that is erased.
        let has_failed = matches!(task.status, Status::Failed { .. }) && !has_ended(world, &task) && !task.is_erased();
        if has_failed != once.contains(&task.id) {
            broken.push(format!("failed tasks are listed: {} is {:?}, listed: {}", task.id, task.status, !has_failed));
        }
    }
    broken
}

/// As a person finds them, page by page.
fn listed(world: &World) -> Vec<TaskId> {
    let (env, queues) = (&world.env, world.queues.now());
    let failing = Failing { store: world.tables(), outbox: queues, env };
    let mut all = Vec::new();
    let versions = world.versions();
    let routes = versions.iter().flat_map(|(_, known)| known[0].iter().map(|route| route.name.clone()));
    let routes: BTreeSet<RouteName> = routes.collect();
    for route in routes {
        let between = (Timestamp::default(), Timestamp(u64::MAX));
        let wanted = Wanted { route, target: None, reason: None, from: between.0, until: between.1 };
        let mut after = None;
        loop {
            // Tables in memory answer at once.
            let Some(Ok(page)) = failing.list(&wanted, after.as_ref(), 7).now_or_never() else { return all };
            all.extend(page.tasks.into_iter().map(|failed| failed.filed.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    all
}
