//! What a set of records comes to, before anything of it is done.

use std::collections::{BTreeMap, HashMap};

use super::{Record, Refused};
use crate::domain::message::MAX_TASKS;
use crate::domain::task::{Candidate, Ties};
use crate::domain::task_message::{Rejection, TaskMessage};
use crate::domain::{Outcome, Target, TaskId, Timestamp, TraceParent};
use crate::ports::{Destination, Outgoing, Waiting};
use crate::steps::drive_on::{Next, due_message};

/// Scheduled tasks by when they are due, in whole seconds, and by what they are grouped by then.
pub(super) type Scheduled = BTreeMap<(u64, Target), Vec<(String, Candidate, Timestamp)>>;

/// What is to be sent, which items are acked, and which records wait for that.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) waiting: BTreeMap<Target, Asking>,
    /// Scheduled tasks, each with its record.
    pub(super) due: Scheduled,
    /// What drives tasks on, with the records of these.
    pub(super) messages: Vec<(Vec<String>, Outgoing)>,
    /// Rejected records, with their messages.
    pub(super) rejected: Vec<(String, Outgoing)>,
    /// Records that equal an earlier one, with that one.
    pub(super) twins: Vec<(String, String)>,
    /// What tasks with a trace belong to, by their records.
    pub(super) traced: HashMap<String, (TaskId, TraceParent)>,
    /// What became of tasks that are settled, for who must hear of it.
    pub(super) acks: Vec<(String, Ties, Outcome)>,
    /// What rejected messages were for.
    pub(super) lost: Vec<Lost>,
}

/// Tasks of one Target for which a leader is to be elected.
pub(super) struct Asking {
    /// Since when the first of them has waited.
    pub(super) since: Timestamp,
    /// Each with its record.
    pub(super) tasks: Vec<(String, Candidate)>,
}

/// What a rejected message was for.
pub(super) struct Lost {
    pub(super) record: String,
    pub(super) ties: Ties,
    /// The message, if it could be read.
    pub(super) message: Option<Box<TaskMessage>>,
}

impl Plan {
    /// Plans what drives a record's task on.
    pub(super) fn add(&mut self, record: &Record, next: Next) {
        let message_id = record.message_id.clone();
        match next {
            Next::Elect(Waiting { target, candidate, since }) => {
                let asking = self.waiting.entry(target).or_insert(Asking { since, tasks: Vec::new() });
                asking.since = asking.since.min(since);
                asking.tasks.push((message_id, candidate));
            }
            Next::Due(at, Waiting { target, candidate, .. }) => {
                self.due.entry((at.0.div_ceil(1_000), target)).or_default().push((message_id, candidate, at));
            }
            Next::Send(outgoing) | Next::FollowUp(outgoing) => self.send(vec![message_id], outgoing),
            Next::Ack(ties, outcome) => self.acks.push((message_id, ties, outcome)),
            Next::Nothing => {}
        }
    }

    /// Plans a message that drives on the tasks of all these records. Others may belong to the same batch; it needs its
    /// message once.
    pub(super) fn send(&mut self, records: Vec<String>, outgoing: Outgoing) {
        match self.messages.iter_mut().find(|(_, other)| *other == outgoing) {
            Some((others, _)) => others.extend(records),
            None => self.messages.push((records, outgoing)),
        }
    }

    /// Plans what becomes of a record that is refused.
    pub(super) fn reject(&mut self, record: &Record, refused: Refused) {
        let Refused { rejection: Rejection { code, detail, item, event }, message } = refused;
        if item.is_some() || event.is_some() {
            let ties = Ties { item, event: event.map(|event| *event), lane: None };
            self.lost.push(Lost { record: record.message_id.clone(), ties, message });
        }
        let outgoing = Outgoing {
            to: Destination::Rejected,
            body: record.body.clone(),
            delay_ms: 0,
            attributes: vec![
                ("Reason", code.to_string()),
                ("Detail", detail),
                ("MessageId", record.message_id.clone()),
            ],
            tenant: None,
        }
        .traced(record.trace);
        self.rejected.push((record.message_id.clone(), outgoing));
    }
}

/// The messages by which scheduled tasks fall due, each with the records of those in it.
pub(super) fn due_messages(due: Scheduled, now: Timestamp) -> Vec<(Vec<String>, Outgoing)> {
    let mut messages = Vec::new();
    for ((_, target), tasks) in due {
        for chunk in tasks.chunks(MAX_TASKS) {
            let Some(at) = chunk.iter().map(|(.., at)| *at).max() else { continue };
            let (records, candidates) = chunk.iter().map(|(record, task, _)| (record.clone(), task.clone())).unzip();
            messages.extend(due_message(&target, candidates, at, now).map(|message| (records, message)));
        }
    }
    messages
}
