//! What was promised of tasks that end without a call: they are in none.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::batch::Status;
use groupage_core::domain::ended::Ended;

use crate::prelude::*;

pub(super) fn broken(world: &World) -> Vec<String> {
    let mut broken = the_ended_are_in_no_batch(world);
    broken.extend(the_omitted_are_in_no_call(world));
    broken.extend(nothing_expires_early(world));
    broken.extend(the_superseded_are_replaced(world));
    broken
}

/// Whether a batch is called without a task, in just the round that it is in.
pub(super) fn is_omitted(batch: &Batch, task: &Task) -> bool {
    let member = Member { id: task.id.clone(), round: task.round };
    batch.position(&member).is_some_and(|position| batch.omission(position).is_some())
}

/// Whether a task ended without a call, in a batch or in none.
pub(super) fn has_ended(world: &World, task: &Task) -> bool {
    let in_batch = || {
        let of = task.status.batch()?.clone();
        world.tables().batches().into_iter().find(|batch| batch.id == of)
    };
    task.status.ended().is_some() || in_batch().is_some_and(|batch| is_omitted(&batch, task))
}

/// A task that ended while it waited is a member of no batch in the round in which it ended.
fn the_ended_are_in_no_batch(world: &World) -> Vec<String> {
    let ended: BTreeMap<TaskId, Round> = world
        .tables()
        .tasks()
        .into_iter()
        .filter(|task| task.status.ended().is_some())
        .map(|task| (task.id, task.round))
        .collect();
    let mut broken = Vec::new();
    for batch in world.tables().batches() {
        if batch.is_callable() || matches!(batch.status, Status::Settled { .. }) {
            for member in batch.members.iter().filter(|member| ended.get(&member.id) == Some(&member.round)) {
                broken.push(format!("the ended are not called: {} is a member of {}", member.id, batch.id));
            }
        }
    }
    broken
}

/// No call of a batch carries a member that it is called without.
fn the_omitted_are_in_no_call(world: &World) -> Vec<String> {
    let mut called: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in world.downstream.ledger() {
        // Parts of a bisected batch count as their batch.
        let batch = seen.key.split('.').next().unwrap_or_default().to_owned();
        called.entry(batch).or_default().extend(seen.items);
    }
    let mut broken = Vec::new();
    for batch in world.tables().batches() {
        let Some(items) = called.get(batch.id.as_str()) else { continue };
        let omitted = batch.omitted_ids().into_iter().filter(|id| items.contains(id.as_str()));
        broken.extend(omitted.map(|id| format!("the ended are not called: {} carried {id}", batch.id)));
    }
    broken
}

/// A task is superseded by a newer one with its key, which is a member of the same batch and not superseded itself.
fn the_superseded_are_replaced(world: &World) -> Vec<String> {
    let tasks: BTreeMap<TaskId, Task> =
        world.tables().tasks().into_iter().map(|task| (task.id.clone(), task)).collect();
    let key = |id: &TaskId| tasks.get(id)?.traits.collapse;
    let mut broken = Vec::new();
    for batch in world.tables().batches() {
        for (position, member) in batch.members.iter().enumerate() {
            let is_superseded = batch.omission(position).is_some_and(|omission| omission.ended == Ended::Superseded);
            // An erased task does not say its key any more.
            if !is_superseded || key(&member.id).is_none() {
                continue;
            }
            let by = batch.superseded_by(position).filter(|by| {
                let newer =
                    key(by).zip(key(&member.id)).is_some_and(|(by_key, own)| by_key.replaces(by, (&own, &member.id)));
                let position = batch.members.iter().position(|other| other.id == **by);
                newer && position.is_some_and(|position| batch.superseded_by(position).is_none())
            });
            if by.is_none() {
                broken.push(format!("newest wins: {} is superseded by nobody in {}", member.id, batch.id));
            }
        }
    }
    broken
}

/// What no sender wants to end does not expire.
fn nothing_expires_early(world: &World) -> Vec<String> {
    let expired = Ended::Expired.reason();
    let is_expired = |task: &Task| matches!(&task.status, task::Status::Failed { reason, .. } if *reason == expired);
    let tasks = world.tables().tasks();
    let early = tasks.iter().filter(|task| is_expired(task) && task.expires_at.is_none());
    early.map(|task| format!("nothing expires early: {} has no end", task.id)).collect()
}
