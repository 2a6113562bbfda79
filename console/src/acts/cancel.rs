//! Tasks that wait are ended before any call.

use groupage_core::domain::{Target, TaskId};
use groupage_core::steps::cancel::Waits;
use maud::html;

use super::failed::MOST;
use super::form::{Fields, Refused, text};
use super::report::{Preview, Report};
use crate::backend::{Trouble, Visit};
use crate::page::{self, table};

/// This many are done at once.
const AT_ONCE: usize = 100;

/// Which tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// These.
    These(Vec<TaskId>),
    /// Those that wait for a batch of this Target.
    Of(Target),
}

/// Which tasks a form names.
pub fn which(fields: &Fields) -> Result<Which, Refused> {
    let target = text(fields, "target");
    if !target.is_empty() {
        return Ok(Which::Of(Target::new(target).whole()));
    }
    super::failed::chosen(fields).map(Which::These)
}

/// The fields that name the same tasks.
pub fn fields(which: &Which) -> Vec<(&'static str, String)> {
    match which {
        Which::These(ids) => ids.iter().map(|task| ("id", task.to_string())).collect(),
        Which::Of(target) => vec![("target", target.to_string())],
    }
}

/// The tasks one by one: what is confirmed is what was shown, and no task that came meanwhile.
pub async fn named(visit: &Visit<'_>, which: Which) -> Result<Vec<TaskId>, Trouble> {
    let target = match which {
        Which::These(ids) => return Ok(ids),
        Which::Of(target) => target,
    };
    let (mut waits, mut ids) = (Waits::of(visit.routes()?, &target), Vec::new());
    while ids.len() < MOST {
        match waits.next(&visit.store, MOST - ids.len()).await? {
            Some(some) => ids.extend(some),
            None => break,
        }
    }
    Ok(ids)
}

/// The tasks that the act will touch.
pub fn preview(ids: &[TaskId]) -> Preview {
    let rows = ids.iter().map(|task| vec![page::task(task)]).collect();
    let touches = html! {
        (table("What it touches", &["task"], rows, "No task waits any more."))
        @if ids.len() >= MOST { p { "At most " (MOST) " at a time: repeat it for the others." } }
    };
    let what = "end these tasks before any call, as cancelled. It cannot be undone".to_owned();
    Preview { what, touches, count: ids.len() as u64 }
}

/// Ends them. One that is in a batch by now is refused.
pub async fn perform(visit: &Visit<'_>, ids: &[TaskId]) -> Result<Report, Trouble> {
    let mut report = Report { done: 0, what: "tasks are cancelled", each: Vec::new() };
    for some in ids.chunks(AT_ONCE) {
        for (task, outcome) in visit.cancelling().cancel(visit.routes()?, some).await {
            let became = match outcome {
                Ok(Ok(())) => {
                    report.done += 1;
                    "is cancelled".to_owned()
                }
                Ok(Err(refused)) => refused.to_string(),
                Err(error) => error.to_string(),
            };
            report.each.push((task.to_string(), became));
        }
    }
    Ok(report)
}
