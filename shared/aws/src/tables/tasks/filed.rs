//! What a failed task carries for the sparse index of failed tasks.
//!
//! The write that settles a task as failed gives it two attributes, `Filed` and `FiledAt`, which are the index's keys:
//! a sixteenth of the route's failed tasks, since one partition of an index takes 1,000 writes a second, and the time
//! with the task's id. So does a task that waits for its time: it lies there among those that are due, by when it is. A
//! task in any other state carries neither, so it costs nothing there.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::failed::{Failure, Filed};
use groupage_core::domain::{Part, TaskId, Timestamp};

use crate::dynamo::expression::Change;
use crate::dynamo::item::{number, text};

pub(crate) const FILED: &str = "Filed";
pub(crate) const FILED_AT: &str = "FiledAt";
pub(crate) const REASON: &str = "Reason";
pub(crate) const ATTEMPTS: &str = "Attempts";
pub(crate) const GROUPED_BY: &str = "GroupedBy";
pub(crate) const ANSWER_STATUS: &str = "AnswerStatus";
pub(crate) const ANSWER: &str = "Answer";

/// The change that files a failed task.
pub(super) fn filing(change: Change, (id, failure): (&TaskId, &Failure), now: Timestamp) -> Change {
    let filed = Filed { at: now, id: id.clone() };
    let change = change
        .set(REASON, text(failure.reason.as_str()))
        .set(ATTEMPTS, number(failure.attempts))
        .set(GROUPED_BY, text(failure.target.as_str()))
        .set(FILED, text(Part::of_task(id).failed_key(&failure.target.route())))
        .set(FILED_AT, text(filed.to_string()));
    match &failure.answer {
        None => change,
        Some(Excerpt { status, text: said }) => {
            change.set(ANSWER_STATUS, number(status)).set(ANSWER, text(said.as_str()))
        }
    }
}
