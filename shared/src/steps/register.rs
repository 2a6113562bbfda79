//! register-task: writes each new task down, then asks for a leader once per Target.
//!
//! Records are judged one by one: a bad one goes to the rejected queue with its reason and its neighbours go on. A
//! record counts as done when its task *and* the message that drives it on are durable; a crash in between brings the
//! record again, which finds its task and drives it on from where it stands.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};

use super::drive_on::{Next, drive_on};
use super::track::Tracking;
use super::{CONCURRENCY, Error};
use crate::domain::id::{Target, TaskId, WorkflowId};
use crate::domain::message::{Elect, Election, MAX_TASKS};
use crate::domain::task::{Candidate, Task};
use crate::domain::task_message::{self, Code, Rejection};
use crate::domain::tracker::{ItemId, Outcome};
use crate::ports::{self, Batches, Destination, Env, Outbox, Outgoing, Registered, Tasks, Trackers};
use crate::routes::Routes;

/// One message of the intake queue.
#[derive(Clone, Debug)]
pub struct Record {
    /// SQS's id for it.
    pub message_id: String,
    /// Its body as it came.
    pub body: String,
}

/// What registering a set of records came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Records that are not done and must come again, by message id, with the error.
    pub failed: Vec<(String, Error)>,
    /// Tasks written by this call.
    pub registered: usize,
    /// Records whose task was there already.
    pub repeated: usize,
    /// Records sent to the rejected queue.
    pub rejected: usize,
}

/// register-task, over its ports.
#[derive(Debug)]
pub struct Register<'a, S, Q, E> {
    /// Tasks and batches.
    pub store: &'a S,
    /// Where messages go.
    pub outbox: &'a Q,
    /// Time and ids.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
}

/// What became of a record's task.
enum Put {
    New(Next),
    Repeated(Next),
    /// Another task has its id; this is the item that it was for.
    Conflict(Option<ItemId>),
}

/// A parsed record with the task that it asks for.
struct Parsed {
    task: Task,
    target: Target,
}

impl<S: Tasks + Batches + Trackers, Q: Outbox, E: Env> Register<'_, S, Q, E> {
    /// Registers records. Every record is answered for: one that is not among the report's failures is done.
    pub async fn run(&self, records: Vec<Record>) -> Report {
        let mut report = Report::default();
        let mut plan = Plan::default();
        let mut first_of_id: HashMap<TaskId, (String, String)> = HashMap::new();
        let mut to_put = Vec::new();
        for record in records {
            match self.parse(&record) {
                Err(rejection) => plan.reject(&record, &rejection),
                Ok(parsed) => match first_of_id.get(&parsed.task.id) {
                    // A second record of the same task shares the first one's fate.
                    Some((first, digest)) if *digest == parsed.task.digest => {
                        plan.twins.push((record.message_id, first.clone()));
                        report.repeated += 1;
                    }
                    // The put decides which of two tasks with one id was there first; it may have been in another event.
                    Some(_) => to_put.push((record, parsed)),
                    None => {
                        let digest = parsed.task.digest.clone();
                        first_of_id.insert(parsed.task.id.clone(), (record.message_id.clone(), digest));
                        to_put.push((record, parsed));
                    }
                },
            }
        }
        let done: Vec<_> = stream::iter(to_put)
            .map(|(record, parsed)| async move {
                let next = self.put(parsed).await;
                (record, next)
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        for (record, next) in done {
            match next {
                Err(error) => report.failed.push((record.message_id, error)),
                Ok(Put::New(next)) => {
                    report.registered += 1;
                    plan.add(&record, next);
                }
                Ok(Put::Repeated(next)) => {
                    report.repeated += 1;
                    plan.add(&record, next);
                }
                Ok(Put::Conflict(item)) => plan.reject(&record, &conflict().of(item)),
            }
        }
        report.rejected = plan.rejected;
        self.carry_out(plan, &mut report).await;
        report
    }

    /// A panic while a record is looked into is that record's alone: its payload is what made the difference.
    fn parse(&self, record: &Record) -> Result<Parsed, Rejection> {
        let parse = || {
            let message = task_message::parse(&record.body, &record.message_id)?;
            let assigned = self.routes.assign(&message.payload);
            let (_, target) = assigned.map_err(|rejection| rejection.of(message.item.clone()))?;
            let digest = message.digest();
            let task = Task::new(message.id, target.clone(), message.payload, digest, self.env.now());
            let task = task.with_item(message.item);
            Ok(Parsed { task, target })
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(parse))
            .unwrap_or_else(|_| Err(Rejection::new(Code::Panicked, "looking into the message panicked; this is a bug")))
    }

    async fn put(&self, parsed: Parsed) -> Result<Put, Error> {
        let Parsed { task, target } = parsed;
        let item = task.item.clone();
        match self.store.register(&task).await? {
            Registered::New => Ok(Put::New(Next::Elect(target, task.candidate()))),
            Registered::Existing(existing) => {
                if existing.digest != task.digest {
                    return Ok(Put::Conflict(item));
                }
                Ok(Put::Repeated(drive_on(self.store, self.env, &existing, &target).await?))
            }
        }
    }

    /// Acks the items of rejected messages as failed: a tracker must not wait for a task that will never be.
    async fn fail(&self, items: Vec<(String, ItemId)>, report: &mut Report) {
        let Self { store, outbox, env, .. } = self;
        let failed = items.iter().map(|(_, item)| (item.clone(), Outcome::Failed)).collect();
        if let Err(error) = (Tracking { store: *store, outbox: *outbox, env: *env }).settle(failed).await {
            let what = error.to_string();
            report.failed.extend(items.into_iter().map(|(record, _)| (record, not_driven_on(&what))));
        }
    }

    /// Sends everything the plan holds; a message that could not be sent fails the records that need it.
    async fn carry_out(&self, plan: Plan, report: &mut Report) {
        let Plan { waiting, mut messages, twins, items, .. } = plan;
        self.fail(items, report).await;
        for (target, tasks) in waiting {
            let (records, candidates): (Vec<String>, Vec<Candidate>) = tasks.into_iter().unzip();
            let records = records.chunks(MAX_TASKS).map(<[_]>::to_vec);
            messages.extend(records.zip(elections(self.env, &target, &candidates, 0)));
        }
        let (records, outgoing): (Vec<Vec<String>>, Vec<Outgoing>) = messages.into_iter().unzip();
        for (records, sent) in records.into_iter().zip(self.outbox.send(outgoing).await) {
            if let Err(error) = sent {
                let what = error.to_string();
                report.failed.extend(records.into_iter().map(|record| (record, not_driven_on(&what))));
            }
        }
        for (twin, first) in twins {
            if report.failed.iter().any(|(record, _)| *record == first) {
                report.failed.push((twin, Error::Conflict("an equal record before it failed")));
            }
        }
    }
}

/// What is to be sent, which items fail, and which records wait for each message.
#[derive(Default)]
struct Plan {
    waiting: BTreeMap<Target, Vec<(String, Candidate)>>,
    messages: Vec<(Vec<String>, Outgoing)>,
    twins: Vec<(String, String)>,
    rejected: usize,
    /// Items of rejected messages, with the messages.
    items: Vec<(String, ItemId)>,
}

impl Plan {
    fn add(&mut self, record: &Record, next: Next) {
        let message_id = record.message_id.clone();
        match next {
            Next::Elect(target, candidate) => {
                self.waiting.entry(target).or_default().push((message_id, candidate));
            }
            // Many records may belong to one batch; it needs its message once.
            Next::Send(outgoing) => match self.messages.iter_mut().find(|(_, other)| *other == outgoing) {
                Some((records, _)) => records.push(message_id),
                None => self.messages.push((vec![message_id], outgoing)),
            },
            Next::Nothing => {}
        }
    }

    fn reject(&mut self, record: &Record, rejection: &Rejection) {
        self.rejected += 1;
        self.items.extend(rejection.item.clone().map(|item| (record.message_id.clone(), item)));
        let outgoing = Outgoing {
            to: Destination::Rejected,
            body: record.body.clone(),
            delay_ms: 0,
            attributes: vec![
                ("Reason", rejection.code.to_string()),
                ("Detail", rejection.detail.clone()),
                ("MessageId", record.message_id.clone()),
            ],
        };
        self.messages.push((vec![record.message_id.clone()], outgoing));
    }
}

fn conflict() -> Rejection {
    Rejection::new(Code::IdConflict, "a task with this `id` and another payload or item is registered already")
}

fn not_driven_on(why: &str) -> Error {
    ports::Error::Unavailable { what: "driving a task on", why: why.to_owned() }.into()
}

/// Election messages for tasks of one Target: one, or as many as their number needs.
pub(super) fn elections(env: &impl Env, target: &Target, tasks: &[Candidate], attempt: u32) -> Vec<Outgoing> {
    tasks
        .chunks(MAX_TASKS)
        .map(|tasks| {
            let workflow = WorkflowId::new(env.fresh_id());
            let election = Election { workflow, target: target.clone(), tasks: tasks.to_vec(), attempt };
            Outgoing::elect(&Elect::Waiting(election), 0)
        })
        .collect()
}
