//! Every promise, looked at after a run has come to rest.

mod ended;
mod failed;
mod lists;
mod order;
mod outputs;
mod trackers;

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use groupage_core::domain::batch::Status;
use groupage_core::domain::gate::OutboxEntry;

use crate::limits;
use crate::prelude::*;

/// What was broken in a world at rest in which these tasks were sent; each line begins with the promise's name.
pub fn broken(world: &World, sent: &BTreeSet<String>) -> Vec<String> {
    let mut broken = world.store.inner().broken();
    broken.extend(no_task_is_lost(world, sent));
    broken.extend(tasks_are_what_their_batch_says(world));
    broken.extend(calls_of_one_key_are_equal(world));
    broken.extend(nobody_is_accepted_twice(world));
    broken.extend(attempts_hold(world));
    broken.extend(notifications_are_complete(world));
    broken.extend(outages_are_told(world));
    broken.extend(the_erased_say_nothing(world));
    broken.extend(ended::broken(world));
    broken.extend(failed::broken(world));
    broken.extend(each_round_is_in_one_batch(world));
    broken.extend(everything_is_at_rest(world));
    broken.extend(limits::broken(world));
    broken.extend(jobs_leave_no_permit(world));
    broken.extend(order::broken(world));
    broken.extend(outputs::broken(world));
    broken.extend(trackers::broken(world));
    broken.extend(lists::broken(world));
    broken
}

/// Fails if a promise was broken in a world at rest in which the parcels `p0`, `p1` and so on were sent, this many.
#[track_caller]
pub fn assert_kept(world: &World, parcels: usize) {
    let broken = broken(world, &(0..parcels).map(|n| format!("p{n}")).collect());
    assert!(broken.is_empty(), "{broken:#?}");
}

fn no_task_is_lost(world: &World, sent: &BTreeSet<String>) -> Vec<String> {
    let settled: BTreeSet<String> =
        world.tables().tasks().iter().filter(|task| task.status.is_settled()).map(|task| task.id.to_string()).collect();
    sent.difference(&settled).map(|id| format!("no task is lost: {id} is not settled")).collect()
}

fn tasks_are_what_their_batch_says(world: &World) -> Vec<String> {
    let batches: BTreeMap<_, Batch> =
        world.tables().batches().into_iter().map(|batch| (batch.id.clone(), batch)).collect();
    let mut broken = Vec::new();
    for task in world.tables().tasks() {
        let Some(batch) = task.status.batch().and_then(|id| batches.get(id)) else { continue };
        if ended::is_omitted(batch, &task) {
            continue;
        }
        let Status::Settled { results, .. } = &batch.status else {
            broken.push(format!(
                "settled once: {} is settled by {}, which is {}",
                task.id,
                batch.id,
                batch.status.word()
            ));
            continue;
        };
        let member = batch.members.iter().any(|member| member.id == task.id && member.round == task.round);
        let agrees = matches!(
            (&task.status, results.get(&task.id)),
            (task::Status::Succeeded { .. }, None) | (task::Status::Failed { .. }, Some(Exception::Failed { .. }))
        );
        if !member || !agrees {
            broken.push(format!("settled once: {} is {:?}, and its batch says otherwise", task.id, task.status));
        }
    }
    // In how many rounds' outcomes each task was settled for good.
    let mut outcomes: BTreeMap<_, usize> = BTreeMap::new();
    for batch in batches.values() {
        if let Status::Settled { results, .. } = &batch.status {
            for member in &batch.members {
                if !matches!(results.get(&member.id), Some(Exception::Returned { .. })) {
                    *outcomes.entry(member.id.clone()).or_default() += 1;
                }
            }
        }
    }
    broken.extend(
        outcomes
            .into_iter()
            .filter(|(id, count)| *count > 1 + world.store.inner().retries(id))
            .map(|(id, count)| format!("one batch at a time: {count} batches settled {id}")),
    );
    broken
}

fn calls_of_one_key_are_equal(world: &World) -> Vec<String> {
    let differ = |(key, calls): (String, Vec<crate::downstream::Seen>)| {
        let sets: BTreeSet<_> = calls.iter().map(|seen| seen.items.clone()).collect();
        (sets.len() > 1).then(|| format!("members never change: key {key} carried {sets:?}"))
    };
    world.calls_by_key().into_iter().filter_map(differ).collect()
}

/// A downstream that drops repeats of a key never carries out one item under two keys, unless it took its word back:
/// the call of the highest attempt is what a batch went by. (An earlier attempt's call may come later, from a worker
/// that stood still: its attempt's number tells.)
fn nobody_is_accepted_twice(world: &World) -> Vec<String> {
    let mut last: BTreeMap<(String, String), (u32, bool)> = BTreeMap::new();
    for (seen, answer) in world.downstream.answered() {
        let accepted = answer.is_ok_and(|answer| (200..300).contains(&answer.status) && answer.body.is_empty());
        // Parts of a bisected batch count as their batch.
        let batch = seen.key.split('.').next().unwrap_or_default().to_owned();
        for item in seen.items {
            let of_item = last.entry((item, batch.clone())).or_default();
            if seen.attempt >= of_item.0 {
                *of_item = (seen.attempt, accepted);
            }
        }
    }
    let mut accepted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for ((item, batch), (_, _)) in last.into_iter().filter(|(_, (_, accepted))| *accepted) {
        accepted.entry(item).or_default().insert(batch);
    }
    accepted
        .into_iter()
        // A call whose outcome nobody knows may have been accepted before its task was retried.
        .filter(|(item, keys)| keys.len() > 1 + world.store.inner().retries(&TaskId::new(item.as_str())))
        .map(|(item, keys)| format!("one batch at a time: {item} was accepted under {keys:?}"))
        .collect()
}

/// No batch is called as a whole more often than its route says, however many of its workers are lost, calls apart that
/// are excused. (A worker that gets an error where it had recorded an outcome lives, and calls again.)
fn attempts_hold(world: &World) -> Vec<String> {
    let only_deaths = match world.setting().plan {
        Plan::Nothing | Plan::Deaths(_) | Plan::At(_, _, Fault::Death | Fault::DeathBesideTwin) => true,
        Plan::At(..) | Plan::Random(_) => false,
    };
    let most = world.routes.iter().map(|route| route.retry.attempts as usize).max().unwrap_or_default();
    let mut attempts: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (seen, answer) in world.downstream.answered() {
        // A part that is turned away as busy is put back behind the others: such a call says nothing about its members.
        let is_put_back = seen.key.contains('.') && answer.is_ok_and(|answer| answer.status == 503);
        if !is_put_back {
            attempts.entry(seen.key).or_default().insert(seen.attempt);
        }
    }
    let excused: BTreeMap<String, usize> = world
        .tables()
        .batches()
        .into_iter()
        .filter_map(|batch| Some((batch.id.to_string(), batch.excused?.calls as usize)))
        .collect();
    let too_many = |(key, made): (String, BTreeSet<u32>)| {
        let excused = key.split('.').next().and_then(|batch| excused.get(batch)).copied().unwrap_or_default();
        // Each lost worker may have called a part after the whole, and the search that follows calls it once more.
        let again = usize::from(key.contains('.'));
        let is_too_often = only_deaths && made.len() > most + excused + again;
        is_too_often.then(|| format!("attempts hold: {key} was called {made:?} times"))
    };
    attempts.into_iter().filter_map(too_many).collect()
}

/// In one round a task is a member of one batch at most.
fn each_round_is_in_one_batch(world: &World) -> Vec<String> {
    let mut batches: BTreeMap<(String, u32), Vec<String>> = BTreeMap::new();
    for batch in world.tables().batches() {
        if batch.is_callable() || matches!(batch.status, Status::Settled { .. }) {
            for member in &batch.members {
                batches.entry((member.id.to_string(), member.round.0)).or_default().push(batch.id.to_string());
            }
        }
    }
    batches
        .into_iter()
        .filter(|(_, batches)| batches.len() > 1)
        .map(|((id, round), batches)| format!("one batch at a time: {id} is in {batches:?} in round {round}"))
        .collect()
}

fn notifications_are_complete(world: &World) -> Vec<String> {
    let mut by_id: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for message in world.queues.now().messages(&Destination::Notification(NotificationQueue::Default)) {
        let event: serde_json::Value = serde_json::from_str(&message.body).unwrap_or_default();
        by_id.entry(event["id"].as_str().unwrap_or_default().to_owned()).or_default().insert(message.body);
    }
    let mut broken: Vec<String> = by_id
        .iter()
        .filter(|(_, bodies)| bodies.len() > 1)
        .map(|(id, _)| format!("notifications repeat only themselves: two texts under {id}"))
        .collect();
    for task in world.tables().tasks().iter().filter(|task| task.status.ended().is_some()) {
        let by = if task.round == Round(0) { "queued".to_owned() } else { format!("queued-{}", task.round) };
        if !by_id.contains_key(&format!("{by}/{}", task.id)) {
            broken.push(format!("what follows happens: no notification of {}, which ended", task.id));
        }
    }
    for task in world.tables().tasks().iter().filter(|task| task.status.is_settled()) {
        let Some(batch) = task.status.batch() else { continue };
        if !by_id.contains_key(&format!("{batch}/{}", task.id)) {
            broken.push(format!("what follows happens: no notification of {}", task.id));
        }
    }
    broken
}

/// People have heard of each outage, unless a queue refused: what is still to be told waits for the next call then.
fn outages_are_told(world: &World) -> Vec<String> {
    let all_sent = match world.setting().plan {
        Plan::Nothing | Plan::Deaths(_) | Plan::At(_, _, Fault::Death | Fault::DeathBesideTwin) => {
            world.setting().lasting.refusing.is_empty() && world.setting().lasting.outage.is_none()
        }
        Plan::At(..) | Plan::Random(_) => false,
    };
    let untold = |(scope, gate): (Scope, Gate)| {
        let due = gate.outbox.entries.iter().filter_map(OutboxEntry::unsent);
        due.map(|event| format!("what follows happens: {event:?} of {scope:?} is not told")).collect::<Vec<_>>()
    };
    if all_sent { world.tables().gates().into_iter().flat_map(untold).collect() } else { Vec::new() }
}

/// What was to be erased is: neither the task nor, if all its members are erased, its batch says what it was.
fn the_erased_say_nothing(world: &World) -> Vec<String> {
    let (to_erase, tasks) = (world.to_erase(), world.tables().tasks());
    let left = tasks.iter().filter(|task| to_erase.contains(&task.id) && !task.is_erased());
    let mut broken: Vec<String> = left.map(|task| format!("the erased say nothing: {} does", task.id)).collect();
    let erased = |member: &Member| tasks.iter().any(|task| task.id == member.id && task.is_erased());
    for batch in world.tables().batches() {
        if batch.members.iter().any(erased) && batch.erased(batch.members.iter().all(erased)).is_some() {
            broken.push(format!("the erased say nothing: {} names its Target, or quotes an answer", batch.id));
        }
    }
    broken
}

/// A job that is over has given its permits back: nobody waits for the end of their leases, which is days away.
fn jobs_leave_no_permit(world: &World) -> Vec<String> {
    const CALL_MS: u64 = 5 * 60_000;
    let (gates, soon) = (world.tables().gates(), world.env.now().plus_ms(CALL_MS));
    let jobs = world.tables().batches().into_iter().filter(|batch| batch.job.is_some());
    let kept = |batch: Batch| {
        let has = |(_, gate): &&(Scope, Gate)| gate.lease(&batch.id, soon).is_some();
        let of = gates.iter().filter(has).map(|(scope, _)| scope.key()).collect::<Vec<_>>();
        (!of.is_empty()).then(|| format!("limits hold: the job of {} is over and has a permit of {of:?}", batch.id))
    };
    jobs.filter_map(kept).collect()
}

fn everything_is_at_rest(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for batch in world.tables().batches() {
        if batch.unfinished().is_some() {
            broken.push(format!("everything comes to rest: {} is {}", batch.id, batch.status.word()));
        }
    }
    // A lock may be left held for its lease where a message was lost, or where somebody slept while a second delivery
    // of its message ended and woke up to win an election that nobody needs any more. Nothing waits behind it.
    let by_the_book = matches!(world.setting().plan, Plan::Nothing | Plan::At(..)) && world.setting().twice == 0.0;
    if by_the_book && world.queues.lost().is_empty() {
        let held = world.tables().held_locks().now_or_never().and_then(Result::ok).unwrap_or_default();
        for (target, lock) in held {
            broken.push(format!("everything comes to rest: {target} is still led: {lock:?}"));
        }
    }
    broken
}
