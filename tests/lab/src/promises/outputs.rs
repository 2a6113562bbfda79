//! The promises about outputs: a settled task has just what the recorded call said of it, and its notice says the same.

use std::collections::BTreeMap;

use futures::FutureExt;
use groupage_core::domain::output::Output;
use groupage_core::ports::Batches;

use super::ended;
use crate::prelude::*;

pub(super) fn broken(world: &World) -> Vec<String> {
    let batches: BTreeMap<_, Batch> =
        world.tables().batches().into_iter().map(|batch| (batch.id.clone(), batch)).collect();
    let (calls, notices) = (said(world), notices(world));
    let mut broken = Vec::new();
    for task in world.tables().tasks().iter().filter(|task| task.status.is_settled()) {
        let Some(batch) = task.status.batch().and_then(|id| batches.get(id)) else { continue };
        let kept = world.tables().output(batch, &task.id).now_or_never().and_then(Result::ok).flatten();
        let said = calls.get(&(batch.id.to_string(), task.id.to_string())).map_or(&[][..], Vec::as_slice);
        let is_foreign = kept.as_ref().is_some_and(|kept| !said.iter().any(|(_, output)| output == kept));
        if is_foreign {
            broken.push(format!("outputs are kept: {} has {kept:?}, and its batch's calls said {said:?}", task.id));
        }
        if task.is_erased() {
            broken.extend(kept.map(|kept| format!("the erased say nothing: {} has {kept:?}", task.id)));
            continue;
        }
        // Attempts that the batch names parts of were noted, and the last one was recorded.
        let recorders: Vec<u32> = batch.outputs.iter().map(|part| part.attempt).chain([batch.attempts]).collect();
        // A batch that is given up is settled without the worker of its last attempt.
        let is_given_up = task.status.reason().is_some_and(|reason| {
            ["outage", "worker_lost", "expired"].iter().any(|beginning| reason.as_str().starts_with(beginning))
        });
        let is_recorded =
            |attempt: &u32| recorders.contains(attempt) && !is_given_up && !ended::is_omitted(batch, task);
        let recorded = said.iter().rev().find(|(attempt, _)| is_recorded(attempt)).map(|(_, output)| output);
        if recorded.is_some() && kept.as_ref() != recorded && world.setting().expires.is_none() {
            broken.push(format!("outputs are kept: {} has {kept:?}, and the last call said {recorded:?}", task.id));
        }
        let told = notices.get(&format!("{}/{}", batch.id, task.id));
        let told = told.map(|output| output.as_ref().map(|output| Output::of(output.to_string())));
        if told.is_some_and(|told| told != kept) && world.setting().expires.is_none() {
            broken.push(format!("outputs are kept: {} has {kept:?}, and its notice says otherwise", task.id));
        }
    }
    broken
}

/// The outputs in answers to calls and looks, by batch and task, each with its attempt, in the order of the calls.
fn said(world: &World) -> BTreeMap<(String, String), Vec<(u32, Output)>> {
    let mut said: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let looks = world.downstream.looks().into_iter().map(|(seen, _, answer)| (seen, answer));
    for (seen, answer) in world.downstream.answered().into_iter().chain(looks) {
        let body: serde_json::Value =
            answer.ok().and_then(|answer| serde_json::from_slice(&answer.body).ok()).unwrap_or_default();
        let batch = seen.key.split('.').next().unwrap_or_default();
        for result in body["results"].as_array().into_iter().flatten().filter(|result| result["status"] != "retry") {
            let (Some(id), Some(output)) = (result["id"].as_str(), result.get("output")) else { continue };
            let of_task = said.entry((batch.to_owned(), id.to_owned())).or_default();
            of_task.push((seen.attempt, Output::of(output.to_string())));
        }
    }
    said
}

/// The output in each notice of a task, by the notice's id.
fn notices(world: &World) -> BTreeMap<String, Option<serde_json::Value>> {
    let messages = world.queues.now().messages(&Destination::Notification(NotificationQueue::Default));
    let events =
        messages.into_iter().filter_map(|message| serde_json::from_str::<serde_json::Value>(&message.body).ok());
    events
        .map(|event| (event["id"].as_str().unwrap_or_default().to_owned(), event["data"].get("output").cloned()))
        .collect()
}
