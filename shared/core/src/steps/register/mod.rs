//! register-task: writes each new task down, then asks for a leader once per Target.
//!
//! Records are judged one by one: a bad one goes to the rejected queue with its reason and its neighbours go on. A
//! record counts as done when its task *and* the message that drives it on are durable; a crash in between brings the
//! record again, which finds its task and drives it on from where it stands. Tasks that fill batches by themselves need
//! no leader (module `express`), nor do those that the rests of several events have together (module `gather`).
//!
//! An event may be more than one invocation gets through (module `parts`). What is not begun when the time is up goes
//! back. What comes again is worked through in smaller parts, each to its end before the next one begins.

mod ack;
mod came;
mod express;
mod gather;
mod parts;
mod plan;
mod rations;
mod refused;
mod sort;
mod spread;
mod yielding;

use std::collections::HashSet;

use futures::future::join;
use futures::{StreamExt, stream};

use super::ballot::{elections, keyed_election_messages};
use super::drive_on::{Found, Next, drive_on};
use super::lane::{Arrival, Lined, Ordering};
use super::list::{Listing, Placed};
use super::{CONCURRENCY, Error};
use crate::domain::lane::Numbering;
use crate::domain::message::MAX_TASKS;
use crate::domain::sender::Sender;
use crate::domain::shards::Shards;
use crate::domain::task::{Candidate, Status, Task};
use crate::domain::trace::{TraceParent, Traces};
use crate::domain::{BatchId, LaneId, ListId, Retryable, Target, TaskId, TaskMessage, Timestamp};
use crate::ports::{
    self, Batches, Env, Inbox, Lanes, Lists, Outbox, Outgoing, Registered, Streams, Tasks, Trackers, Waiting,
};
use crate::routes::Routes;
use came::{Parsed, message_of};
use gather::Carved;
use plan::{Asking, Plan};
use refused::{Refused, closed, conflict, other_numbering, too_far_ahead, used};
use sort::Coming;
use spread::Spread;

pub use gather::FULL_EVENT;
pub use rations::Rations;

/// One message of the task queue.
#[derive(Clone, Debug)]
pub struct Record {
    /// SQS's id for it.
    pub message_id: String,
    /// Its receipt handle.
    pub receipt: String,
    /// How often it was received, this time included.
    pub received: u32,
    /// Who sent it.
    pub sender: Sender,
    /// Its body as it came.
    pub body: String,
    /// What an attribute of it says that it belongs to.
    pub trace: Option<TraceParent>,
}

/// What registering a set of records came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Records that have failed and must come again, by message id, with the error.
    pub failed: Vec<(String, Error)>,
    /// Tasks of rests that are not done and come again by a message of their own, by what stands for their message id.
    pub sent_back: Vec<(String, Error)>,
    /// Tasks written by this call.
    pub registered: usize,
    /// Records whose task was there already.
    pub repeated: usize,
    /// Records whose task was put on its list by this call.
    pub listed: usize,
    /// Records sent to the rejected queue.
    pub rejected: usize,
    /// Rests that go on gathering: these records are not done either, and nothing is wrong with them.
    pub held: Vec<String>,
    /// Tasks that their event has left, sent on to those of others.
    pub gathered: usize,
    /// Why rests could not gather; their tasks were put, to be elected.
    pub not_gathered: Vec<Error>,
    /// Tasks that go back to the queue: no time was left for them, or the index of their Target bears no more.
    pub yielded: usize,
    /// Of these, those for which no time was left.
    pub late: usize,
    /// Why the index bears no more, once for each Target.
    pub overloads: Vec<(Target, Error)>,
    /// Batches that were full at once, frozen without a leader.
    pub batches: usize,
    /// Their members.
    pub members: usize,
    /// Those of the tasks written by this call whose senders gave a trace.
    pub traces: Traces,
}

impl Report {
    /// The message ids of all records that must come again.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.failed.iter().map(|(message_id, _)| message_id).chain(&self.held).map(String::as_str)
    }

    /// Fails the records that equal one that failed, and names each record once.
    fn fail_twins(&mut self, twins: Vec<(String, String)>) {
        let mut failed: HashSet<String> = self.failed.iter().map(|(record, _)| record.clone()).collect();
        for (twin, first) in twins {
            if failed.contains(&first) {
                failed.insert(twin.clone());
                self.failed.push((twin, Error::Conflict("an equal record before it failed")));
            }
        }
        self.failed.retain(|(record, _)| failed.remove(record));
    }
}

/// register-task, over its ports.
#[derive(Debug)]
pub struct Register<'a, S, Q, E> {
    /// Tasks and batches.
    pub store: &'a S,
    /// Where messages go, and where the records are from.
    pub queues: &'a Q,
    /// Time and ids.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// When this invocation should begin nothing more: what it has begun must still be sent on in time.
    pub deadline: Timestamp,
    /// What its process may put for Targets that were throttled, in this event and in those after it.
    pub rations: &'a Rations,
}

/// How many shards a put leaves; if the next one does not take it either, its task or its record comes again.
const MOVES: usize = 3;
/// A put that has had no answer for so long, in milliseconds, is not tried in another shard, only those after it are:
/// there must be time left to say what failed. A throttled put is told so at once, the last one within some hundred
/// milliseconds.
const PATIENCE_MS: u64 = 3_000;

/// A task for a list, and its record.
type Listed = (Record, TaskMessage);
/// What became of tasks that came to one list.
type OnList = Result<Vec<(TaskId, Placed)>, Error>;
/// A task that names a batch, and its record.
type Named = (BatchId, Record, Found);

/// What became of a record's task.
enum Put {
    New(Next),
    /// It names a batch that is written next.
    Batched(BatchId, Found),
    /// It was there, and is to be driven on.
    Repeated(Found),
    Refused(Refused),
    /// It is not put.
    Yields(Box<Parsed>, Yields),
}

/// Why a task is not put.
enum Yields {
    /// No time is left.
    Late,
    /// Its Target's partition of the index bears no more. The first of its Target has what the store said.
    Overload(Option<Error>),
}

impl<S: Tasks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
    /// Registers records. Every record is answered for: one that the report does not [keep](Report::kept) is done.
    pub async fn run(&self, records: Vec<Record>) -> Report {
        let mut all = Report::default();
        for part in parts::parts(records) {
            all.add(self.register(part).await);
        }
        all
    }

    /// Registers one part of an event.
    async fn register(&self, records: Vec<Record>) -> Report {
        let mut report = Report::default();
        let mut plan = Plan::default();
        let records_came = records.len();
        let Coming { to_put, to_list, to_lane, rests } = self.sort(records, &mut plan, &mut report);
        let Carved { to_put, to_send, to_hold } = self.carve(to_put, &rests, records_came);
        let spread = Spread::default();
        // At once: those of other events are on their way, too.
        let (mut done, missed) = join(self.put_each(to_put, &spread), self.gather(to_send, to_hold, &mut report)).await;
        done.extend(self.put_each(missed, &spread).await);
        let lists: Vec<_> = to_list.into_iter().map(|(list, arrived)| self.put_on_list(list, arrived)).collect();
        let listed: Vec<_> = stream::iter(lists).buffer_unordered(CONCURRENCY).collect().await;
        for (arrived, placed) in listed {
            account_for(arrived, placed, &mut plan, &mut report);
        }
        let lanes: Vec<_> =
            to_lane.into_iter().map(|(lane, (numbering, coming))| self.line_up(lane, numbering, coming)).collect();
        let lined_up: Vec<_> = stream::iter(lanes).buffer_unordered(CONCURRENCY).collect().await;
        done.extend(lined_up.into_iter().flatten());
        let Sorted { batched, mut found, yielded } = sort_out(done, &mut plan, &mut report);
        yielding::put_off(yielded, || self.env.random(), &mut plan, &mut report);
        found.extend(self.write_batches(batched, &mut plan, &mut report).await);
        let (records, found): (Vec<Record>, Vec<Found>) = found.into_iter().unzip();
        for (record, next) in records.iter().zip(drive_on(self.store, self.env, found).await) {
            match next {
                Ok(next) => plan.add(record, next),
                Err(error) => report.failed.push((record.message_id.clone(), error)),
            }
        }
        let twins = std::mem::take(&mut plan.twins);
        self.carry_out(plan, &mut report).await;
        report.fail_twins(twins);
        self.send_back(&rests, &mut report).await;
        report
    }

    async fn put_each(&self, tasks: Vec<(Record, Parsed)>, spread: &Spread) -> Vec<(Record, Result<Put, Error>)> {
        for (target, times) in yielding::overloaded(&tasks) {
            let shards = self.routes.get(&target.route()).map_or(Shards::Fixed(1), |route| route.shards);
            self.rations.heard(target, shards, times, self.env.now());
            self.rations.expect(target, times, self.env.now());
        }
        let putting = stream::iter(tasks).map(|(record, parsed)| async move {
            let put = self.put(parsed, spread).await;
            (record, put)
        });
        putting.buffered(CONCURRENCY).collect().await
    }

    /// Puts a task, into another shard if one does not take it ([`Spread`]).
    async fn put(&self, mut parsed: Parsed, spread: &Spread) -> Result<Put, Error> {
        let drawn = parsed.target.clone();
        let begun = self.env.now();
        let shards = self.routes.get(&drawn.route()).map_or(Shards::Fixed(1), |route| route.shards);
        let waits = matches!(parsed.task.status, Status::Created { .. });
        let mut moves = 0;
        loop {
            if self.is_late() {
                let late = |parsed| Put::Yields(Box::new(parsed), Yields::Late);
                return if waits { Ok(late(parsed)) } else { Err(Error::NoTime) };
            }
            if waits && moves == 0 && !self.rations.take(&drawn, self.env.now()) {
                return Ok(Put::Yields(Box::new(parsed), Yields::Overload(None)));
            }
            let task = &mut parsed.task;
            let mut target = drawn.clone();
            // What names a batch is in no shard.
            if let Status::Created { target: waits_for } = &mut task.status {
                target = spread.place(&drawn);
                waits_for.clone_from(&target);
            }
            // A repeat would take from a throttled partition what its leader needs to move tasks out.
            let put = match waits {
                true => self.store.try_register(task).await,
                false => self.store.register(task).await,
            };
            let registered = match put {
                // If it was written all the same, the next put finds it, wherever it waits.
                Err(error) if waits && error.retryable() == Retryable::Yes => {
                    let is_throttled = matches!(error, ports::Error::Throttled { .. });
                    let count = match is_throttled {
                        true => self.rations.refused(&drawn, shards, self.env.now()),
                        false => self.rations.spread(&drawn, shards, self.env.now()),
                    };
                    // Whether or not this task moves: others need not try there.
                    let has_other = spread.leave(&drawn, &target, count, || self.env.random());
                    if has_other && moves < MOVES && self.env.now().since(begun) < PATIENCE_MS {
                        moves += 1;
                        continue;
                    }
                    if is_throttled {
                        let is_first = self.rations.throttled(&drawn, self.env.now());
                        let said = is_first.then(|| error.into());
                        return Ok(Put::Yields(Box::new(parsed), Yields::Overload(said)));
                    }
                    return Err(error.into());
                }
                registered => registered?,
            };
            let task = parsed.task;
            return Ok(match registered {
                Registered::New => match &task.status {
                    Status::Batched { batch } => Put::Batched(batch.clone(), (task, target)),
                    Status::Scheduled { due, .. } => Put::New(Next::Due(*due, Waiting::new(&task, &target))),
                    Status::Queued | Status::Created { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
                        Put::New(Next::Elect(Waiting::new(&task, &target)))
                    }
                },
                Registered::Existing(existing) => repeated(task, target, *existing),
            });
        }
    }

    /// Lets tasks come to their lane, in the order of their records. If one cannot be written, those behind it must not
    /// be written before it: their records fail with it.
    async fn line_up(
        &self,
        lane: LaneId,
        numbering: Numbering,
        coming: Vec<(Record, Parsed)>,
    ) -> Vec<(Record, Result<Put, Error>)> {
        let Self { store, queues: outbox, env, .. } = *self;
        let notify = self.routes.get(&lane.route()).map(|route| route.notify.clone()).unwrap_or_default();
        let (records, arrivals): (Vec<Record>, Vec<Arrival>) = coming
            .into_iter()
            .map(|(record, Parsed { task, target, order, .. })| {
                (record, Arrival { task, target, sequence: order.and_then(|order| order.sequence) })
            })
            .unzip();
        let lined = match self.is_late() {
            true => vec![Err(Error::NoTime)],
            false => (Ordering { store, outbox, env }).line_up(&lane, numbering, &arrivals, &notify).await,
        };
        let mut lined = lined.into_iter();
        let mut last = Error::Conflict("a task before it in its lane");
        let mut done = Vec::with_capacity(records.len());
        for (record, Arrival { task, target, .. }) in records.into_iter().zip(arrivals) {
            let put = match lined.next() {
                Some(Ok(Lined::First)) => Ok(Put::New(Next::Elect(Waiting::new(&task, &target)))),
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
    async fn put_on_list(&self, list: ListId, arrived: Vec<Listed>) -> (Vec<Listed>, OnList) {
        let Self { store, queues: outbox, env, .. } = *self;
        let (records, tasks): (Vec<Record>, Vec<TaskMessage>) = arrived.into_iter().unzip();
        let placed = match self.is_late() {
            true => Err(Error::NoTime),
            false => (Listing { store, outbox, env }).put_each(&list, &tasks).await,
        };
        (records.into_iter().zip(tasks).collect(), placed)
    }

    /// Acks and sends everything the plan holds; what could not be acked or sent fails the records that need it. What
    /// drives tasks on goes first: no tracker keeps it waiting.
    async fn carry_out(&self, plan: Plan, report: &mut Report) {
        let Plan { waiting, mut due, mut messages, mut rejected, acks, lost, .. } = plan;
        // What waits for its window falls due together, by sweep: with messages, the latest of it would go ahead alone.
        due.retain(|(_, target), _| self.routes.closing(target).is_none());
        messages.extend(plan::due_messages(due, self.env.now()));
        let asked = waiting.into_iter().flat_map(|(target, Asking { since, tasks })| {
            let (records, candidates): (Vec<String>, Vec<Candidate>) = tasks.into_iter().unzip();
            let records: Vec<Vec<String>> = records.chunks(MAX_TASKS).map(<[_]>::to_vec).collect();
            records.into_iter().zip(elections(self.env, &target, &candidates, since, 0))
        });
        messages.extend(
            keyed_election_messages(asked, 0).into_iter().map(|(records, message)| (records.concat(), message)),
        );
        self.send(messages, report).await;
        if !(acks.is_empty() && lost.is_empty()) {
            let unacked = self.ack(acks, lost).await;
            // The record comes again, and its message is rejected then.
            rejected.retain(|(rejected, _)| !unacked.iter().any(|(record, _)| record == rejected));
            report.failed.extend(unacked);
        }
        report.rejected = rejected.len();
        self.send(rejected.into_iter().map(|(record, message)| (vec![record], message)).collect(), report).await;
    }

    async fn send(&self, messages: Vec<(Vec<String>, Outgoing)>, report: &mut Report) {
        let (records, outgoing): (Vec<Vec<String>>, Vec<Outgoing>) = messages.into_iter().unzip();
        for (records, sent) in records.into_iter().zip(self.queues.send(outgoing).await) {
            if let Err(error) = sent {
                report.failed.extend(records.into_iter().map(|record| (record, error.clone().into())));
            }
        }
    }
}

/// Says what became of the records of tasks that came to a list.
fn account_for(arrived: Vec<Listed>, placed: OnList, plan: &mut Plan, report: &mut Report) {
    let mut placed = match placed {
        Ok(placed) => placed,
        Err(error) => {
            report.failed.extend(arrived.into_iter().map(|(record, _)| (record.message_id, error.clone())));
            return;
        }
    };
    for (record, task) in arrived {
        let at = placed.iter().position(|(id, _)| *id == task.id);
        match at.map(|at| placed.remove(at).1) {
            Some(Placed::Now(_)) => report.listed += 1,
            Some(Placed::Before(_)) => report.repeated += 1,
            Some(Placed::KeyUsed) => plan.reject(&record, Refused::of(conflict(), task)),
            Some(Placed::Closed) => plan.reject(&record, Refused::of(closed(), task)),
            Some(Placed::TooLarge(why)) => plan.reject(&record, Refused::of(why, task)),
            None => report.failed.push((record.message_id, Error::Conflict("no answer of its list"))),
        }
    }
}

/// What was put or not, by what is next.
#[derive(Default)]
struct Sorted {
    /// Tasks that name a batch which is to be written.
    batched: Vec<Named>,
    /// Tasks that were there already.
    found: Vec<(Record, Found)>,
    /// Tasks that are not put now.
    yielded: Vec<(Record, Parsed, Yields)>,
}

fn sort_out(done: Vec<(Record, Result<Put, Error>)>, plan: &mut Plan, report: &mut Report) -> Sorted {
    let Sorted { mut batched, mut found, mut yielded } = Sorted::default();
    for (record, put) in done {
        match put {
            Err(error) => report.failed.push((record.message_id, error)),
            Ok(Put::New(next)) => {
                report.registered += 1;
                report.traces.extend(plan.traced.remove(&record.message_id));
                plan.add(&record, next);
            }
            Ok(Put::Batched(batch, task)) => {
                report.registered += 1;
                report.traces.extend(plan.traced.remove(&record.message_id));
                batched.push((batch, record, task));
            }
            Ok(Put::Repeated(task)) => {
                report.repeated += 1;
                found.push((record, task));
            }
            Ok(Put::Refused(refused)) => plan.reject(&record, refused),
            Ok(Put::Yields(parsed, why)) => yielded.push((record, *parsed, why)),
        }
    }
    Sorted { batched, found, yielded }
}

/// What becomes of a task whose id is there already.
fn repeated(task: Task, target: Target, existing: Task) -> Put {
    if existing.is_repeated_by(&task.digest) {
        return Put::Repeated((existing, target));
    }
    Put::Refused(Refused::of(conflict(), message_of(task)))
}
