//! register-task: writes each new task down, then asks for a leader once per Target.
//!
//! Records are judged one by one: a bad one goes to the rejected queue with its reason and its neighbours go on. A
//! record counts as done when its task *and* the message that drives it on are durable; a crash in between brings the
//! record again, which finds its task and drives it on from where it stands. Tasks that fill batches by themselves need
//! no leader (module `express`).

mod express;
mod plan;
mod refused;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::{StreamExt, stream};

use super::drive_on::{Found, Next, drive_on};
use super::lane::{Arrival, Lined, Ordering};
use super::list::{Listing, Placed};
use super::ties;
use super::{CONCURRENCY, Error};
use crate::domain::id::{LaneId, ListId, Shard, Target, TaskId, WorkflowId};
use crate::domain::lane::{Numbering, Order};
use crate::domain::list::Addition;
use crate::domain::message::{Elect, Election, MAX_TASKS};
use crate::domain::task::{Candidate, Task, Ties};
use crate::domain::task_message::{self, Code, Rejection, TaskMessage};
use crate::domain::tracker::Outcome;
use crate::ports::{Batches, Env, Freshness, Lanes, Lists, Outbox, Outgoing, Registered, Streams, Tasks, Trackers};
use crate::routes::{Assigned, Routes};
use plan::{Lost, Plan};
use refused::{Refused, closed, conflict, other_numbering, too_far_ahead, used};

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
    /// Records whose task was put on its list by this call.
    pub listed: usize,
    /// Records sent to the rejected queue.
    pub rejected: usize,
    /// Batches that were full at once, frozen without a leader.
    pub batches: usize,
    /// Their members.
    pub members: usize,
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
    /// It names a batch that is written next.
    Batched(Found),
    /// It was there, and is to be driven on.
    Repeated(Found),
    Refused(Refused),
}

/// A parsed record with the task that it asks for.
struct Parsed {
    task: Task,
    target: Target,
    /// Its place among the tasks of its order key.
    order: Option<Order>,
    /// The list that it waits on first, and as what.
    list: Option<(ListId, TaskMessage)>,
}

impl<S: Tasks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox, E: Env> Register<'_, S, Q, E> {
    /// Registers records. Every record is answered for: one that is not among the report's failures is done.
    pub async fn run(&self, records: Vec<Record>) -> Report {
        let mut report = Report::default();
        let mut plan = Plan::default();
        let mut first_of_id: HashMap<(TaskId, Option<ListId>), (String, String)> = HashMap::new();
        let mut to_put = Vec::new();
        let mut to_list: BTreeMap<ListId, Vec<(Record, TaskMessage)>> = BTreeMap::new();
        let mut to_lane: BTreeMap<LaneId, (Numbering, Vec<(Record, Parsed)>)> = BTreeMap::new();
        let draw = self.draw();
        for record in records {
            match self.parse(&record, draw) {
                Err(refused) => plan.reject(&record, refused),
                Ok(parsed) => {
                    // With a list it is another record: that its task waits does not mean that it goes on.
                    let id = (parsed.task.id.clone(), parsed.list.as_ref().map(|(list, _)| list.clone()));
                    match first_of_id.get(&id) {
                        // A second record of the same task shares the first one's fate.
                        Some((first, digest)) if *digest == parsed.task.digest => {
                            plan.twins.push((record.message_id, first.clone()));
                            report.repeated += 1;
                            continue;
                        }
                        // The put decides which of two tasks with one id was there first; it may have been in another event.
                        Some(_) => {}
                        None => drop(first_of_id.insert(id, (record.message_id.clone(), parsed.task.digest.clone()))),
                    }
                    match (&parsed.list, &parsed.order) {
                        (Some((list, message)), _) => {
                            to_list.entry(list.clone()).or_default().push((record, message.clone()));
                        }
                        (None, Some(Order { lane, numbering, .. })) => {
                            let lane = to_lane.entry(lane.clone()).or_insert_with(|| (*numbering, Vec::new()));
                            lane.1.push((record, parsed));
                        }
                        (None, None) => to_put.push((record, parsed)),
                    }
                }
            }
        }
        for (list, arrived) in to_list {
            self.put_on_list(&list, arrived, &mut plan, &mut report).await;
        }
        let mut done: Vec<_> = stream::iter(self.carve(to_put))
            .map(|(record, parsed)| async move {
                let put = self.put(parsed).await;
                (record, put)
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let lanes: Vec<_> =
            to_lane.into_iter().map(|(lane, (numbering, coming))| self.line_up(lane, numbering, coming)).collect();
        let lined_up: Vec<_> = stream::iter(lanes).buffer_unordered(CONCURRENCY).collect().await;
        done.extend(lined_up.into_iter().flatten());
        let (mut batched, mut found) = (Vec::new(), Vec::new());
        for (record, put) in done {
            match put {
                Err(error) => report.failed.push((record.message_id, error)),
                Ok(Put::New(next)) => {
                    report.registered += 1;
                    plan.add(&record, next);
                }
                Ok(Put::Batched(task)) => {
                    report.registered += 1;
                    batched.push((record, task));
                }
                Ok(Put::Repeated(task)) => {
                    report.repeated += 1;
                    found.push((record, task));
                }
                Ok(Put::Refused(refused)) => plan.reject(&record, refused),
            }
        }
        found.extend(self.write_batches(batched, &mut plan, &mut report).await);
        let (records, found): (Vec<Record>, Vec<Found>) = found.into_iter().unzip();
        for (record, next) in records.iter().zip(drive_on(self.store, self.env, found).await) {
            match next {
                Ok(next) => plan.add(record, next),
                Err(error) => report.failed.push((record.message_id.clone(), error)),
            }
        }
        self.carry_out(plan, &mut report).await;
        report
    }

    /// Where in its Target's shards this invocation's tasks go: into one shard of each, so that there is one election
    /// message for it.
    fn draw(&self) -> f64 {
        if self.routes.iter().any(|route| route.shards > 1) { self.env.random() } else { 0.0 }
    }

    fn parse(&self, record: &Record, draw: f64) -> Result<Parsed, Refused> {
        let message = caught(|| task_message::parse(&record.body, &record.message_id))
            .map_err(|rejection| Refused { rejection, message: None })?;
        let assigned = caught(|| self.routes.assign(&message.payload));
        let Assigned { route, target, order } =
            assigned.map_err(|rejection| Refused::of(rejection, message.clone()))?;
        let target = target.in_shard(Shard::drawn(route.shards, draw));
        let digest = message.digest();
        let list = message.list.clone().map(|list| (list, message.clone()));
        let task = Task::new(message.id, target.clone(), message.payload, digest, self.env.now());
        let task = task.with_item(message.item).with_event(message.event);
        Ok(Parsed { task, target, order, list })
    }

    async fn put(&self, parsed: Parsed) -> Result<Put, Error> {
        let Parsed { task, target, .. } = parsed;
        Ok(match self.store.register(&task).await? {
            Registered::New if task.status.batch().is_some() => Put::Batched((task, target)),
            Registered::New => Put::New(Next::Elect(target, task.candidate())),
            Registered::Existing(existing) => repeated(task, target, *existing),
        })
    }

    /// Lets tasks come to their lane, in the order of their records. If one cannot be written, those behind it must not be
    /// written before it: their records fail with it.
    async fn line_up(
        &self,
        lane: LaneId,
        numbering: Numbering,
        coming: Vec<(Record, Parsed)>,
    ) -> Vec<(Record, Result<Put, Error>)> {
        let Self { store, outbox, env, .. } = *self;
        let notify = self.routes.get(&lane.route()).map(|route| route.notify.clone()).unwrap_or_default();
        let (records, arrivals): (Vec<Record>, Vec<Arrival>) = coming
            .into_iter()
            .map(|(record, Parsed { task, target, order, .. })| {
                (record, Arrival { task, target, sequence: order.and_then(|order| order.sequence) })
            })
            .unzip();
        let mut lined =
            (Ordering { store, outbox, env }).line_up(&lane, numbering, &arrivals, &notify).await.into_iter();
        let mut last = Error::Conflict("a task before it in its lane");
        let mut done = Vec::with_capacity(records.len());
        for (record, Arrival { task, target, .. }) in records.into_iter().zip(arrivals) {
            let put = match lined.next() {
                Some(Ok(Lined::First)) => Ok(Put::New(Next::Elect(target, task.candidate()))),
                Some(Ok(Lined::Behind)) => Ok(Put::New(Next::Nothing)),
                Some(Ok(Lined::Existing(existing))) => Ok(repeated(task, target, *existing)),
                Some(Ok(Lined::Used)) => Ok(Put::Refused(Refused::of(used(), message_of(task)))),
                Some(Ok(Lined::TooFarAhead)) => Ok(Put::Refused(Refused::of(too_far_ahead(), message_of(task)))),
                Some(Ok(Lined::OtherNumbering)) => Ok(Put::Refused(Refused::of(other_numbering(), message_of(task)))),
                Some(Err(error)) => {
                    last = error;
                    Err(last.clone())
                }
                None => Err(last.clone()),
            };
            done.push((record, put));
        }
        done
    }

    /// Puts tasks on their list, each under its own id: a redelivered record finds what it put.
    async fn put_on_list(
        &self,
        list: &ListId,
        arrived: Vec<(Record, TaskMessage)>,
        plan: &mut Plan,
        report: &mut Report,
    ) {
        let Self { store, outbox, env, .. } = *self;
        let (records, tasks): (Vec<Record>, Vec<TaskMessage>) = arrived.into_iter().unzip();
        let mut placed = match (Listing { store, outbox, env }).put_each(list, &tasks).await {
            Ok(placed) => placed,
            Err(error) => {
                report.failed.extend(records.into_iter().map(|record| (record.message_id, error.clone())));
                return;
            }
        };
        for (record, task) in records.iter().zip(tasks) {
            let at = placed.iter().position(|(id, _)| *id == task.id);
            match at.map(|at| placed.remove(at).1) {
                Some(Placed::Now(_)) => report.listed += 1,
                Some(Placed::Before(_)) => report.repeated += 1,
                Some(Placed::KeyUsed) => plan.reject(record, Refused::of(conflict(), task)),
                Some(Placed::Closed) => plan.reject(record, Refused::of(closed(), task)),
                None => report.failed.push((record.message_id.clone(), Error::Conflict("no answer of its list"))),
            }
        }
    }

    /// Tells who must hear of settled tasks, and of rejected messages as if they had failed: nobody must wait for a task that
    /// will never be. But a task of the same id may be there for the same item or event, from an earlier copy of the message;
    /// then its own outcome counts. Returns the records of which it may not have been heard.
    async fn ack(&self, mut acks: Vec<(String, Ties, Outcome)>, lost: Vec<Lost>) -> Vec<(String, Error)> {
        let lost_records: Vec<String> = lost.iter().map(|lost| lost.record.clone()).collect();
        let lost = match self.without_task(lost).await {
            Ok(lost) => lost,
            Err(error) => {
                let unacked = acks.into_iter().map(|(record, ..)| record).chain(lost_records);
                return unacked.map(|record| (record, error.clone())).collect();
            }
        };
        acks.extend(lost.into_iter().map(|lost| (lost.record, lost.ties, Outcome::Failed)));
        let Self { store, outbox, env, .. } = *self;
        let settled = acks.iter().map(|(_, ties, outcome)| (ties.clone(), *outcome)).collect();
        let heard = ties::tell(store, outbox, env, settled).await;
        acks.into_iter().filter_map(|(record, ties, _)| Some((record, heard.error(&ties)?.clone()))).collect()
    }

    /// Those of the rejected messages for whose item or event no task is there, and none waits on a list.
    async fn without_task(&self, lost: Vec<Lost>) -> Result<Vec<Lost>, Error> {
        let messages = || lost.iter().filter_map(|lost| lost.message.as_deref());
        let ids: BTreeSet<TaskId> = messages().map(|message| message.id.clone()).collect();
        let tasks = self.store.read(&Vec::from_iter(ids), Freshness::Latest).await?;
        let mut waiting: Vec<(TaskId, Addition)> = Vec::new();
        for message in messages() {
            let Some(list) = &message.list else { continue };
            let Some(list) = self.store.list(list).await? else { continue };
            let put = self.store.additions(&list.tail.life, &[message.id.as_str().to_owned()]).await?;
            // Whatever else it says: what waits under this id is acked by its own outcome.
            waiting.extend(put.into_iter().map(|put| (message.id.clone(), put)));
        }
        let has_task = |lost: &Lost| {
            lost.message.as_ref().is_some_and(|message| {
                let is_its =
                    |task: &Task| task.id == message.id && task.item == lost.ties.item && task.event == lost.ties.event;
                let waits_for_it = |(id, put): &(TaskId, Addition)| {
                    let is_item = put.item.is_some() && put.item == lost.ties.item;
                    *id == message.id && (is_item || put.digest == message.digest())
                };
                waiting.iter().any(waits_for_it) || tasks.iter().any(is_its)
            })
        };
        let (kept, _): (Vec<Lost>, Vec<Lost>) = lost.into_iter().partition(|lost| !has_task(lost));
        Ok(kept)
    }

    /// Acks and sends everything the plan holds; what could not be acked or sent fails the records that need it. What drives
    /// tasks on goes first: no tracker keeps it waiting.
    async fn carry_out(&self, plan: Plan, report: &mut Report) {
        let Plan { waiting, mut messages, mut rejected, twins, acks, lost } = plan;
        for (target, tasks) in waiting {
            let (records, candidates): (Vec<String>, Vec<Candidate>) = tasks.into_iter().unzip();
            let records = records.chunks(MAX_TASKS).map(<[_]>::to_vec);
            messages.extend(records.zip(elections(self.env, &target, &candidates, 0)));
        }
        self.send(messages, report).await;
        if !(acks.is_empty() && lost.is_empty()) {
            let unacked = self.ack(acks, lost).await;
            // The record comes again, and its message is rejected then.
            rejected.retain(|(rejected, _)| !unacked.iter().any(|(record, _)| record == rejected));
            report.failed.extend(unacked);
        }
        report.rejected = rejected.len();
        self.send(rejected.into_iter().map(|(record, message)| (vec![record], message)).collect(), report).await;
        for (twin, first) in twins {
            if report.failed.iter().any(|(record, _)| *record == first) {
                report.failed.push((twin, Error::Conflict("an equal record before it failed")));
            }
        }
    }

    async fn send(&self, messages: Vec<(Vec<String>, Outgoing)>, report: &mut Report) {
        let (records, outgoing): (Vec<Vec<String>>, Vec<Outgoing>) = messages.into_iter().unzip();
        for (records, sent) in records.into_iter().zip(self.outbox.send(outgoing).await) {
            if let Err(error) = sent {
                report.failed.extend(records.into_iter().map(|record| (record, error.clone().into())));
            }
        }
    }
}

/// A panic while a record is looked into is that record's alone: its content is what made the difference.
fn caught<T>(look: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(look))
        .unwrap_or_else(|_| Err(Rejection::new(Code::Panicked, "looking into the message panicked; this is a bug")))
}

/// What becomes of a task whose id is there already.
fn repeated(task: Task, target: Target, existing: Task) -> Put {
    if existing.digest == task.digest {
        return Put::Repeated((existing, target));
    }
    Put::Refused(Refused::of(conflict(), message_of(task)))
}

/// The message that asked for a task.
fn message_of(task: Task) -> TaskMessage {
    TaskMessage { id: task.id, payload: task.payload, item: task.item, list: None, event: task.event }
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
