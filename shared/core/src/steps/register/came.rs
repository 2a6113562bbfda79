//! What came: records, parsed, and rests of other events.

use super::Record;
use crate::domain::lane::Order;
use crate::domain::rest::{Rest, Stage};
use crate::domain::when::When;
use crate::domain::{ListId, Shard, Target, Task, TaskMessage};

/// A parsed record with the task that it asks for.
pub(super) struct Parsed {
    pub(super) task: Task,
    pub(super) target: Target,
    /// Its place among the tasks of its order key.
    pub(super) order: Option<Order>,
    /// The list that it waits on first, and as what.
    pub(super) list: Option<(ListId, TaskMessage)>,
    /// In what message it came.
    pub(super) came: Came,
}

/// In what message a task came; who has come furthest, and is oldest, comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Came {
    /// In a rest, of this shard, at this place among those of its event.
    In(Stage, Shard, usize),
    /// In its own.
    Alone,
}

impl Came {
    /// The place of the rest that it came in.
    pub(super) const fn rest(self) -> Option<usize> {
        match self {
            Self::In(_, _, at) => Some(at),
            Self::Alone => None,
        }
    }
}

/// A rest that came.
pub(super) struct Opened {
    pub(super) message_id: String,
    pub(super) receipt: String,
    pub(super) received: u32,
    /// What stands for its tasks.
    pub(super) tasks: Vec<Record>,
    pub(super) stage: Stage,
    pub(super) shard: Shard,
}

impl Opened {
    /// The rest in a record.
    pub(super) fn new(record: Record, rest: &Rest) -> Self {
        let Record { message_id, receipt, received, sender, .. } = record;
        let task = |(n, body): (usize, &str)| Record {
            message_id: format!("{message_id}/{n}"),
            receipt: receipt.clone(),
            received,
            sender,
            body: body.to_owned(),
            trace: None,
        };
        let tasks = rest.tasks().enumerate().map(task).collect();
        Self { tasks, stage: rest.stage(), shard: rest.shard(), message_id, receipt, received }
    }
}

/// The message that asked for a task.
pub(super) fn message_of(task: Task) -> TaskMessage {
    let Task { id, payload, item, event, expires_at, status, trace, .. } = task;
    let [not_before, expires_at] = [status.due(), expires_at].map(|at| at.map(When::At));
    TaskMessage { id, payload, item, list: None, event, not_before, expires_at, trace }
}
