//! What is promised of lists.

use std::collections::{BTreeMap, BTreeSet};

use crate::prelude::*;
use crate::witness::is_release;

/// What was broken about lists in a world at rest.
pub(super) fn broken(world: &World) -> Vec<String> {
    let mut broken: Vec<String> = world.tables().lists().iter().flat_map(|list| broken_of(world, list)).collect();
    broken.extend(nobody_vanishes(world));
    broken
}

/// The ids of tasks by their tokens, as those who put them were told, or as their messages' keys say.
fn tokens(world: &World, list: &List) -> Vec<(u64, String)> {
    let life = &list.tail.life;
    let mut tokens = Vec::new();
    for ((id, _), (start, bodies)) in world.told().puts {
        if id == life.id {
            tokens.extend((start..).zip(bodies.iter().map(|body| id_in(body))));
        }
    }
    for id in listed(world, list) {
        tokens.extend(world.tables().addition(life, &id).map(|addition| (addition.start.0, id.clone())));
    }
    tokens
}

/// The ids of tasks whose messages name a list.
fn listed(world: &World, list: &List) -> BTreeSet<String> {
    let named = |body: &String| {
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        (body["list"] == list.tail.life.id.as_str()).then(|| body["id"].as_str().map(str::to_owned))?
    };
    world.sent_bodies().iter().filter_map(named).collect()
}

fn id_in(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    body["id"].as_str().unwrap_or_default().to_owned()
}

fn broken_of(world: &World, list: &List) -> Vec<String> {
    let (id, given, taken) = (&list.tail.life.id, list.tail.given.0, list.head.taken.0);
    let mut broken = Vec::new();
    let mut by_token: BTreeMap<u64, String> = BTreeMap::new();
    for (token, task) in tokens(world, list) {
        if let Some(other) = by_token.insert(token, task.clone()) {
            broken.push(format!("a token is one task's: {token} of {id} is {task}'s and {other}'s"));
        }
    }
    if !by_token.keys().copied().eq(0..given) {
        broken.push(format!("tokens have no holes: {id} gave {given}, and {by_token:?} are known"));
    }
    let slots: BTreeMap<u64, String> = world
        .tables()
        .all_slots()
        .into_iter()
        .filter(|(list, _)| list == id)
        .map(|(_, slot)| (slot.token.0, id_in(&slot.body)))
        .collect();
    let waiting: BTreeMap<u64, String> = by_token.range(taken.min(given)..).map(|(t, id)| (*t, id.clone())).collect();
    if slots != waiting {
        broken.push(format!("no task on a list is lost: {id} should have {waiting:?} and has {slots:?}"));
    }
    broken.extend(released_are_registered(world, list, &by_token));
    broken.extend(order_of_arrival(world, list));
    broken
}

/// Every released task is settled; what waits or is discarded was never registered.
fn released_are_registered(world: &World, list: &List, by_token: &BTreeMap<u64, String>) -> Vec<String> {
    let id = &list.tail.life.id;
    let takings = world.store.inner().takings(id);
    let is_released = |token: u64| {
        takings.iter().any(|taking| is_release(taking) && (taking.start.0..taking.end().0).contains(&token))
    };
    let tasks = world.tables().tasks();
    let mut broken = Vec::new();
    for (token, task) in by_token {
        let found = tasks.iter().find(|found| found.id.as_str() == task);
        match (is_released(*token), found) {
            (true, Some(found)) if found.status.is_settled() => {}
            (true, _) => broken.push(format!("no task is lost: {task} of {id} was released and is {found:?}")),
            (false, Some(_)) => broken.push(format!("only what is released goes on: {task} of {id} went on")),
            (false, None) => {}
        }
    }
    broken
}

/// Calls that one caller makes one after the other get their tokens in that order.
fn order_of_arrival(world: &World, list: &List) -> Vec<String> {
    let told = world.told();
    let start = |key: &String| told.puts.get(&(list.tail.life.id.clone(), key.clone())).map(|(start, _)| *start);
    let of_caller = |caller: &std::sync::Arc<crate::shelf::Caller>| {
        let keys = caller.calls.iter().filter_map(|call| match &call.what {
            crate::shelf::What::Put(key, _) => Some(key),
            _ => None,
        });
        let starts: Vec<u64> = keys.filter_map(start).collect();
        (!starts.is_sorted()).then(|| format!("order of arrival: {} got {starts:?}", list.tail.life.id))
    };
    world.callers().iter().filter(|caller| caller.list == list.tail.life.id).filter_map(of_caller).collect()
}

/// A message that names a list is on it, or was rejected.
fn nobody_vanishes(world: &World) -> Vec<String> {
    let rejected: BTreeSet<String> =
        world.queues.now().messages(&Destination::Rejected).iter().map(|message| id_in(&message.body)).collect();
    let lists = world.tables().lists();
    let on_lists: BTreeSet<String> = lists.iter().flat_map(|list| tokens(world, list)).map(|(_, task)| task).collect();
    let names_one = |body: &&String| body.contains("\"list\":");
    let sent = world.sent_bodies();
    let ids = sent.iter().filter(names_one).map(|body| id_in(body));
    ids.filter(|id| !on_lists.contains(id) && !rejected.contains(id))
        .map(|id| format!("no task is lost: {id} is on no list"))
        .collect()
}
