//! One task: where it stands, what it waits for, and its life so far.

use groupage_core::domain::batch;
use groupage_core::domain::lane;
use groupage_core::domain::output::Output;
use groupage_core::domain::shown::Shown;
use groupage_core::domain::task::Status;
use groupage_core::domain::{Batch, BatchId, Task, TaskId, Timestamp};
use groupage_core::ports::Freshness;
use groupage_core::steps::look::OneTask;
use maud::{Markup, html};

use crate::acts::{How, button};
use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, facts, id, reason, time};
use crate::states;
use crate::view::View;

/// As much of an output is shown, in bytes. `groupage status task` has all of it.
const SHOWN_BYTES: usize = 2_000;

/// Shows it.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = TaskId::new(view.id());
    let found = visit.looking().task(&name, Freshness::Eventual).await?;
    let unknown =
        || Trouble::Unknown(format!("no task {name} is known: it is on its way, was rejected, or settled long ago"));
    let one = found.ok_or_else(unknown)?;
    let (now, task) = (visit.now, &one.task);
    let mut rows = vec![("status", html! { strong { (states::task(Shown::of(task, one.batch.as_ref()))) } })];
    rows.extend(one.why.as_ref().map(|why| ("waits for", reason(why, now))));
    rows.extend(one.target.as_ref().map(|target| ("Target", page::target(target))));
    rows.extend(task.status.batch().map(|batch| ("batch", page::batch(batch))));
    rows.extend(failure(&one));
    rows.extend(one.output.as_ref().map(|output| ("output", said(output))));
    rows.extend(behind(&one));
    rows.push(("rounds", html! { (task.round) }));
    rows.push(("calls in earlier rounds", html! { (task.attempts) }));
    rows.push(("payload", html! { (page::count(task.payload.len())) " bytes" }));
    rows.extend(task.item.as_ref().map(|item| ("tracker's item", id(&item.to_string()))));
    let live = html! {
        h1 { "Task " (id(name.as_str())) }
        (facts(rows))
        h2 { "Its life" }
        ol.timeline { @for (at, what) in life(&one) { li { (time(at, now)) " " (what) } } }
    };
    let acts = |act: How, label| button(visit, &[("act", act.word()), ("id", name.as_str())], label);
    let waits = matches!(task.status, Status::Queued | Status::Created { .. });
    let still = html! {
        @if waits { (button(visit, &[("act", "cancel"), ("id", name.as_str())], "Cancel it")) }
        @if matches!(task.status, Status::Failed { .. }) {
            div.acts { (acts(How::Retry, "Run it again")) (acts(How::Drop, "Take it off the list")) }
        }
    };
    Ok(Page::live(format!("Task {name}"), live).with_still(still))
}

/// Why it failed, and the beginning of what the downstream said.
fn failure(one: &OneTask) -> Vec<(&'static str, Markup)> {
    let Some(failed) = &one.failed else { return Vec::new() };
    let mut rows = vec![("reason", id(failed.reason.as_str())), ("calls", html! { (failed.attempts) })];
    if let Some(answer) = &failed.answer {
        rows.push(("answered", html! { (answer.status) " " (id(&answer.text)) }));
    }
    rows
}

/// The beginning of its output.
fn said(output: &Output) -> Markup {
    match output {
        Output::Json(json) => {
            html! { (id(&json[..json.floor_char_boundary(SHOWN_BYTES)])) @if json.len() > SHOWN_BYTES { "…" } }
        }
        Output::TooLarge(bytes) => html! { (bytes) " bytes, too large to be kept" },
    }
}

/// Which task has the turn before it.
fn behind(one: &OneTask) -> Option<(&'static str, Markup)> {
    let lane = one.lane.as_ref()?;
    let (what, before) = match &lane.state {
        lane::State::Free => return None,
        lane::State::Taken(task) => ("has the turn", task),
        lane::State::Held(task) => ("failed and holds the key", task),
        lane::State::Failing(task) => ("failed, and all behind it fail", task),
    };
    Some(("order key", html! { (id(lane.id.key())) ": task " (page::task(before)) " " (what) }))
}

/// What happened to it, in order.
fn life(one: &OneTask) -> Vec<(Timestamp, Markup)> {
    let OneTask { task, batch, .. } = one;
    let mut life = vec![(task.created_at, html! { "registered" })];
    if task.round.0 > 0 {
        life.push((task.waits_since, html! { "waits again, in round " (task.round) }));
    }
    if let Some(batch) = batch {
        life.push((batch.created_at, html! { "batch " (page::batch(&batch.id)) " was made" }));
        life.extend(outcome(task, batch));
    }
    life.sort_by_key(|(at, _)| *at);
    life
}

fn outcome(task: &Task, batch: &Batch) -> Option<(Timestamp, Markup)> {
    if let Some(by) = batch.superseder(task) {
        return Some((batch.created_at, html! { "superseded by task " (page::task(by)) ", called in its place" }));
    }
    let calls = states::calls(batch.attempts);
    match &batch.status {
        batch::Status::Settled { at, .. } => {
            let what = if task.status.is_settled() { task.status.word() } else { "its batch was settled" };
            Some((*at, html! { (what) " after " (calls) " of the batch" }))
        }
        batch::Status::Paused { until } if batch.attempts == 0 => {
            Some((*until, html! { "held back until then, before its first call" }))
        }
        batch::Status::Paused { until } => Some((*until, html! { "the next attempt, after " (calls) })),
        batch::Status::Open { .. }
        | batch::Status::Closing
        | batch::Status::Frozen
        | batch::Status::InProgress { .. }
        | batch::Status::Empty
        | batch::Status::Void => None,
    }
}

/// Whether a text can be a batch's id.
pub fn is_batch_id(text: &str) -> Option<BatchId> {
    let is_digest = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| BatchId::new(text))
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::{Round, Target};

    use super::*;

    #[test]
    fn a_life_is_told_in_order_and_ends_with_the_outcome() {
        let task = Task::new(TaskId::new("t"), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(1));
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &[task.candidate()], Timestamp(2));
        let batch = batch.settled(Default::default(), Timestamp(9));
        let status = Status::Succeeded { batch: batch.id.clone() };
        let task = Task { status, round: Round(1), waits_since: Timestamp(1), ..task };
        let one = OneTask { task, failed: None, target: None, batch: Some(batch), output: None, lane: None, why: None };
        let told: Vec<(u64, String)> = life(&one).into_iter().map(|(at, what)| (at.0, what.into_string())).collect();
        assert_eq!(told.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 1, 2, 9]);
        assert_eq!(told[0].1, "registered");
        assert!(told[3].1.starts_with("succeeded after"), "{told:?}");
    }

    #[test]
    fn only_a_digest_is_a_batchs_id() {
        assert!(is_batch_id("0123456789abcdef0123456789abcdef").is_some());
        assert!(is_batch_id("0123").is_none() && is_batch_id(&"g".repeat(32)).is_none());
    }
}
