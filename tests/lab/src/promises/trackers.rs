//! What is promised of tracked fan-outs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt;
use groupage_core::domain::tracker::{Ending, State};

use crate::fan_out::{FanOut, Work};
use crate::prelude::*;

/// The process that acks the last item, or seals, completes the tracker: some calls later, of 50 milliseconds at most.
const AT_ONCE: Duration = Duration::from_secs(10);

/// What was broken about trackers in a world at rest.
pub(super) fn broken(world: &World) -> Vec<String> {
    let trackers: BTreeMap<String, Tracker> =
        world.tables().trackers().into_iter().map(|tracker| (tracker.id.to_string(), tracker)).collect();
    let mut broken = world.complaints();
    for fan_out in world.fan_outs() {
        match trackers.get(fan_out.tracker.as_str()) {
            None => broken.push(format!("every fan-out ends: {} was never opened", fan_out.tracker)),
            Some(tracker) => broken.extend(broken_of(world, &fan_out, tracker)),
        }
    }
    broken
}

fn broken_of(world: &World, fan_out: &FanOut, tracker: &Tracker) -> Vec<String> {
    let id = &tracker.id;
    let State::Ended(end) = &tracker.state else {
        return vec![format!("every fan-out ends: {id} is {}", tracker.state.word())];
    };
    let mut broken = Vec::new();
    let may_complete = fan_out.seal_after_ms.is_some();
    let has_ended = match end.how {
        Ending::Completed => may_complete && tracker.items == fan_out.items(),
        Ending::Overdue => fan_out.deadline.is_some(),
        Ending::Abandoned => false,
    };
    if !has_ended {
        broken.push(format!("every fan-out ends: {id} of {} items is {}", tracker.items, end.how.word()));
    }
    if tracker.items > fan_out.items() {
        broken.push(format!("items are added once: {id} has {} for {}", tracker.items, fan_out.items()));
    }
    if end.how == Ending::Completed {
        broken.extend(items_are_as_their_tasks(world, tracker));
    }
    // Nobody leaves a tracker to sweep but somebody elsewhere who dies, or whom a fault befell.
    let is_unharmed = world.fate.faults().is_empty()
        && fan_out.portions.iter().all(|portion| !matches!(portion.work, Work::Elsewhere(_)));
    if let Some(delay) = world.store.inner().completion_delay(id).filter(|delay| is_unharmed && *delay > AT_ONCE) {
        broken.push(format!("complete at once: {id} was completed {delay:?} late"));
    }
    broken.extend(one_notice(world, tracker));
    broken
}

/// An item's outcome is its task's; one whose message was rejected has failed.
fn items_are_as_their_tasks(world: &World, tracker: &Tracker) -> Vec<String> {
    let nodes = world.tables().nodes(&tracker.id, NodeId::group(0), usize::MAX, Freshness::Latest);
    let nodes = nodes.now_or_never().and_then(Result::ok).unwrap_or_default();
    let has_failed = |item: &ItemId| {
        nodes.iter().find(|node: &&Node| node.id == NodeId::group(item.at.group)).map(|n| n.has_failed(item.at.index))
    };
    let mut expected: BTreeMap<ItemId, bool> = BTreeMap::new();
    for message in world.queues.now().messages(&Destination::Rejected) {
        let body: serde_json::Value = serde_json::from_str(&message.body).unwrap_or_default();
        expected.extend(body["item"].as_str().and_then(|item| ItemId::parse(item).ok()).map(|item| (item, true)));
    }
    // A retried task's item keeps the outcome that it was acked with first, which may be either.
    let is_retried = |task: &task::Task| world.store.inner().retries(&task.id) > 0;
    for task in world.tables().tasks().into_iter().filter(|task| !is_retried(task)) {
        expected.extend(task.item.map(|item| (item, matches!(task.status, task::Status::Failed { .. }))));
    }
    expected
        .into_iter()
        .filter(|(item, _)| item.tracker == tracker.id)
        .filter(|(item, failed)| has_failed(item) != Some(*failed))
        .map(|(item, failed)| format!("items are as their tasks: {item} should have failed: {failed}"))
        .collect()
}

/// One notice, which may come more than once, and says how the tracker ended.
fn one_notice(world: &World, tracker: &Tracker) -> Vec<String> {
    let State::Ended(end) = &tracker.state else { return Vec::new() };
    let mut texts = BTreeSet::new();
    for message in world.queues.now().messages(&Destination::Notification(NotificationQueue::Default)) {
        let event: serde_json::Value = serde_json::from_str(&message.body).unwrap_or_default();
        if event["subject"] == tracker.id.as_str() && event["source"] == "groupage/trackers" {
            texts.insert(message.body);
        }
    }
    let [text] = Vec::from_iter(texts)
        .try_into()
        .unwrap_or_else(|texts: Vec<String>| [format!("{{\"type\":\"{} texts: {texts:?}\"}}", texts.len())]);
    let event: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let data = &event["data"];
    let says = (data["items"].as_u64(), data["succeeded"].as_u64(), data["failed"].as_u64(), data["missing"].as_u64());
    let succeeded = tracker.items - end.failed - end.missing;
    let is = (Some(tracker.items), Some(succeeded), Some(end.failed), Some(end.missing));
    if event["type"] != format!("groupage.tracker.{}.v1", end.how.word()) || says != is {
        return vec![format!("one notice: {} ended as {end:?}, and the notice is {text}", tracker.id)];
    }
    Vec::new()
}
