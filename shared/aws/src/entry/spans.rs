//! What a step did, as spans.
//!
//! Each step has a span in a trace of its own. A task whose sender gave a trace has two more, in that trace: when it is
//! registered, and when it is settled. So the sender's trace shows both, and a link to the call.
//!
//! A message that comes again does its work at another time, so the time makes each span's id one of its own.

use groupage_core::domain::message::{Elect, Group};
use groupage_core::domain::trace::{Followed, MAX_LINKS};
use groupage_core::domain::{BatchId, TaskId, Timestamp, TraceParent};
use groupage_core::steps::{group, register};

use crate::spans::{Kind, Span, Spans};

/// When a step began and ended.
type Took = (Timestamp, Timestamp);

/// register-task has worked off an event, which this message was the first of.
pub(super) fn registered(spans: &Spans, report: &register::Report, event: &str, took: Took) {
    if !spans.are_collected() {
        return;
    }
    let context = TraceParent::of_step("register", event, &at(took));
    let span = Span::new("groupage register", context, took)
        .with("groupage.registered", count(report.registered))
        .with("groupage.repeated", count(report.repeated))
        .with("groupage.rejected", count(report.rejected))
        .with("groupage.batches", count(report.batches));
    let links = report.traces.values().take(MAX_LINKS).copied().collect();
    let unlinked = report.traces.len().saturating_sub(MAX_LINKS);
    spans.note(Span { kind: Kind::Consumer, links, unlinked, ..span });
    for (task, sender) in &report.traces {
        spans.note(of_task("groupage register task", task, *sender, context, took));
    }
}

/// elect-leader has held the elections of a message.
pub(super) fn elected(spans: &Spans, message: &Elect, message_id: &str, (won, lost): (usize, usize), took: Took) {
    let workflow = match message {
        Elect::Waiting(election) => Some(&election.workflow),
        Elect::Several(elections) => elections.first().map(|election| &election.workflow),
        Elect::Returning(_) | Elect::Due(_) => None,
    };
    let of = workflow.map_or(message_id, |workflow| workflow.as_str());
    let span =
        Span::new("groupage elect", TraceParent::of_step("elect", of, &(message_id.to_owned() + &at(took))), took)
            .with("groupage.won", count(won))
            .with("groupage.lost", count(lost));
    spans.note(span);
}

/// group-batch has made batches.
pub(super) fn grouped(spans: &Spans, message: &Group, message_id: &str, report: &group::Report, took: Took) {
    let of = match message {
        Group::Lead(lead) => lead.term.workflow.as_str(),
        Group::Finish(finish) => finish.batch.as_str(),
    };
    let span =
        Span::new("groupage group", TraceParent::of_step("group", of, &(message_id.to_owned() + &at(took))), took)
            .with("groupage.route", message.target().route().as_str().to_owned())
            .with("groupage.batches", count(report.batches))
            .with("groupage.members", count(report.members));
    spans.note(Span { failed: report.interrupted.as_ref().map(ToString::to_string), ..span });
}

/// What follows from an outcome is done.
pub fn followed(spans: &Spans, batch: &BatchId, followed: &Followed) {
    let Followed { call, took, settled } = followed;
    let span = Span::new("groupage follow up", call.within(&["follow up", &at(*took)]), *took)
        .with("groupage.batch", batch.as_str().to_owned());
    spans.note(Span { parent: Some(*call), ..span });
    for (task, sender, has_succeeded) in settled {
        let span = of_task("groupage settle task", task, *sender, *call, *took);
        let failed = (!has_succeeded).then(|| "the task failed".to_owned());
        spans.note(Span { failed, ..span.with("groupage.batch", batch.as_str().to_owned()) });
    }
}

/// A span in the trace of a task's sender, with a link to what was done for many.
fn of_task(name: &'static str, task: &TaskId, sender: TraceParent, link: TraceParent, took: Took) -> Span {
    let span = Span::new(name, sender.within(&[name, task.as_str(), &at(took)]), took);
    Span { parent: Some(sender), links: vec![link], ..span }.with("groupage.task", task.as_str().to_owned())
}

fn at((began, _): Took) -> String {
    began.0.to_string()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
