//! Records that can never be registered, and why.

use crate::domain::lane::MAX_AHEAD;
use crate::domain::task_message::{Code, Rejection, TaskMessage};

/// A record that can never be registered.
pub(super) struct Refused {
    pub(super) rejection: Rejection,
    /// The message, if it could be read: an earlier copy of it may have been registered, or wait on its list.
    pub(super) message: Option<Box<TaskMessage>>,
}

impl Refused {
    pub(super) fn of(rejection: Rejection, message: TaskMessage) -> Self {
        let rejection = rejection.of(message.item.clone(), message.event.clone());
        Self { rejection, message: Some(Box::new(message)) }
    }
}

/// Of a rest that somebody else sent. What it says of its tasks is not looked at.
pub(super) fn only_the_stack() -> Refused {
    let detail = "only the stack itself may say `rest`: send each task as a message of its own";
    Refused { rejection: Rejection::new(Code::BadSender, detail), message: None }
}

/// Of a message that would ack what its sender may not. Nothing is acked by the refusal either.
pub(super) fn ties_of_a_stranger() -> Refused {
    let detail = "its sender may not name an `item` or an `event`: see the parameter TrustedSenderIds";
    Refused { rejection: Rejection::new(Code::BadSender, detail), message: None }
}

pub(super) fn used() -> Rejection {
    let detail =
        "its `sequence` is used by another task of its order key, or the tasks with that number have had their turn";
    Rejection::new(Code::BadSequence, detail)
}

pub(super) fn too_far_ahead() -> Rejection {
    let detail = format!("its `sequence` is over {MAX_AHEAD} ahead of the number whose turn it is");
    Rejection::new(Code::BadSequence, detail)
}

pub(super) fn other_numbering() -> Rejection {
    let detail =
        "earlier tasks of its order key were numbered otherwise: by their `sequence`, or as they were accepted";
    Rejection::new(Code::BadSequence, detail)
}

pub(super) fn conflict() -> Rejection {
    Rejection::new(Code::IdConflict, "a task with this `id` and another payload or item is registered already")
}

pub(super) fn closed() -> Rejection {
    Rejection::new(Code::ListClosed, "its list is closed: open it again, then redrive")
}
