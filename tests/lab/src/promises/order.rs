//! What was promised of order, looked at where it counts: in the downstream's ledger.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::task::Status;

use super::ended::has_ended;
use crate::prelude::*;

pub(super) fn broken(world: &World) -> Vec<String> {
    let accepted = world.store.inner().accepted();
    let mut broken = called_in_order(world, &accepted);
    broken.extend(nobody_is_called_beside_its_predecessor(world, &accepted));
    broken.extend(the_rest_fails(world, &accepted));
    broken.extend(nobody_is_left(world));
    broken
}

/// Tasks of one lane reach the downstream for the first time in the order of their turns.
fn called_in_order(world: &World, accepted: &BTreeMap<LaneId, Vec<TaskId>>) -> Vec<String> {
    let mut first_call: BTreeMap<String, usize> = BTreeMap::new();
    for (position, seen) in world.downstream.ledger().into_iter().enumerate() {
        for item in seen.items {
            first_call.entry(item).or_insert(position);
        }
    }
    let out_of_order = |(lane, tasks): (&LaneId, &Vec<TaskId>)| {
        let called: Vec<(usize, &TaskId)> =
            tasks.iter().filter_map(|task| Some((*first_call.get(task.as_str())?, task))).collect();
        let wrong = called.windows(2).find(|pair| pair[0].0 >= pair[1].0)?;
        Some(format!("in order: {lane} called {} before {}", wrong[1].1, wrong[0].1))
    };
    accepted.iter().filter_map(out_of_order).collect()
}

/// No call carries two tasks of one lane. That none begins before the one before it is settled, the store looks at.
fn nobody_is_called_beside_its_predecessor(world: &World, accepted: &BTreeMap<LaneId, Vec<TaskId>>) -> Vec<String> {
    let lane_of: BTreeMap<&str, &LaneId> =
        accepted.iter().flat_map(|(lane, tasks)| tasks.iter().map(move |task| (task.as_str(), lane))).collect();
    let mut broken = Vec::new();
    for seen in world.downstream.ledger() {
        let mut lanes = BTreeSet::new();
        for lane in seen.items.iter().filter_map(|item| lane_of.get(item.as_str())) {
            if !lanes.insert(lane) {
                broken.push(format!("in order: call {} carries two tasks of {lane}", seen.key));
            }
        }
    }
    broken
}

/// Behind a failed task nobody succeeds, if the route says so.
fn the_rest_fails(world: &World, accepted: &BTreeMap<LaneId, Vec<TaskId>>) -> Vec<String> {
    let tasks: BTreeMap<TaskId, Task> =
        world.tables().tasks().into_iter().map(|task| (task.id.clone(), task)).collect();
    let versions = world.versions();
    let fails_rest = |lane: &LaneId| {
        let of = |known: &[Routes; 2]| known[0].get(&lane.route()).map(|route| route.on_failure());
        versions.iter().all(|(_, known)| of(known) == Some(OnFailure::FailRest))
    };
    let mut broken = Vec::new();
    for (lane, ids) in accepted.iter().filter(|(lane, _)| fails_rest(lane)) {
        let of_lane = ids.iter().filter_map(|id| tasks.get(id));
        // One that ended without a call holds nobody back.
        let of_lane = of_lane.filter(|task| !has_ended(world, task));
        let behind = of_lane.skip_while(|task| !matches!(task.status, Status::Failed { .. })).skip(1);
        for task in behind.filter(|task| !matches!(task.status, Status::Failed { batch: None, .. })) {
            broken.push(format!("in order: {} of {lane} is {:?} behind a failure", task.id, task.status));
        }
    }
    broken
}

/// Nobody waits in a lane that waits for nobody.
fn nobody_is_left(world: &World) -> Vec<String> {
    let left = world.tables().lanes().into_iter().filter(|(_, waiting)| *waiting > 0);
    left.map(|(lane, waiting)| format!("no task is lost: {waiting} wait in {}, {:?}", lane.id, lane.state)).collect()
}
