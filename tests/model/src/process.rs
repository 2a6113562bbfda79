//! Processes: the real steps, run up to their next I/O.
//!
//! A step's future cannot be copied, but it is a function of its message and of the answers it got. So a process *is*
//! that history, and its next I/O is found by running the step once more over it. What was found is remembered: the same
//! history is met in many states.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use groupage_core::domain::id::{Fence, Shard, TaskId};
use groupage_core::domain::rest::Rest;
use groupage_core::domain::session::Timing;
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::Freshness;
use groupage_core::routes::Routes;
use groupage_core::steps::elect::{ElectLeader, send_successors};
use groupage_core::steps::group::GroupBatch;
use groupage_core::steps::handle::{self, Delivery, HandleBatch};
use groupage_core::steps::register::{Record, Register};

use crate::io::{Answer, Body, Op};
use crate::kept::{Kept, Names, fresh_name};
use crate::recorder::Recorder;

/// A message as a process was given it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Origin {
    /// What it says.
    pub body: Kept<Body>,
    /// Whether it may have been handled before.
    pub redelivered: bool,
    /// The number of the fresh name that the process may give.
    pub name: u8,
}

/// A process between two I/Os.
#[derive(Debug)]
pub struct Process {
    /// Its message.
    pub origin: Origin,
    /// The answers so far, each with the number of the call it is to.
    log: Vec<(usize, Answer)>,
    /// The calls that wait for an answer.
    pub pending: Vec<(usize, Op)>,
    /// Set when the step has returned: whether its message is acknowledged.
    pub end: Option<bool>,
    /// The holder that it has signalled last, and by which shard's lock that leads.
    pub signalled: Option<(Shard, Fence)>,
    /// Fresh names that it knows.
    pub names: Names,
    fingerprint: u64,
}

impl Process {
    /// The process, as a number.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Its next I/O: calls that it has under way at once are answered in their order.
    #[must_use]
    pub fn next_io(&self) -> Option<&(usize, Op)> {
        self.pending.iter().find(|(_, op)| !matches!(op, Op::Sleep))
    }

    /// Its latest I/O.
    #[must_use]
    pub fn last_io(&self) -> Option<&(usize, Op)> {
        self.pending.iter().rev().find(|(_, op)| !matches!(op, Op::Sleep))
    }

    /// The pause between two heartbeats, if it makes one.
    #[must_use]
    pub fn sleeps(&self) -> Option<&(usize, Op)> {
        self.pending.iter().find(|(_, op)| matches!(op, Op::Sleep))
    }

    /// Its next I/O, if nobody else can tell when it happens: a worker's eventual reads are of payloads, and these never
    /// change. When calls come `last`, their members are settled at once, too.
    #[must_use]
    pub fn quiet_io(&self, last: bool) -> Option<&(usize, Op)> {
        let handles = matches!(&*self.origin.body, Body::Handle(_));
        self.next_io().filter(|(_, op)| {
            handles && (matches!(op, Op::Read(_, Freshness::Eventual)) || last && matches!(op, Op::Settle(..)))
        })
    }

    /// Whether it has just read or written a batch, whose candidates it looks at next.
    #[must_use]
    pub fn has_just_seen_its_batch(&self) -> bool {
        matches!(self.log.last(), Some((_, Answer::Batch(_) | Answer::Stored(_))))
    }
}

/// The real steps, with what is known of their ways.
#[derive(Debug)]
pub struct Steps {
    routes: Routes,
    deadline: Timestamp,
    known: RwLock<HashMap<u64, Arc<Process>>>,
}

impl Steps {
    /// The steps under these routes. `one_batch_each` makes a leader go on by another message after each batch.
    #[must_use]
    pub fn new(routes: Routes, one_batch_each: bool) -> Self {
        let deadline = Timestamp(if one_batch_each { 0 } else { u64::MAX });
        Self { routes, deadline, known: RwLock::default() }
    }

    /// A process that has just been given its message.
    pub fn start(&self, origin: Origin) -> Arc<Process> {
        let mut hasher = DefaultHasher::new();
        origin.hash(&mut hasher);
        let names = origin.body.names() | 1 << origin.name;
        self.known(hasher.finish(), |fingerprint| self.run(origin, Vec::new(), None, names, fingerprint))
    }

    /// The process after the answer to one of its calls.
    pub fn next(&self, process: &Process, call: usize, op: &Op, answer: Answer) -> Arc<Process> {
        let mut hasher = DefaultHasher::new();
        (process.fingerprint, call, &answer).hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| {
            let signalled = match (op, &answer) {
                (Op::Signal(target, held), Answer::Done) => Some((target.shard(), held.fence)),
                _ => process.signalled,
            };
            let names = process.names | answer.names();
            let mut log = process.log.clone();
            log.push((call, answer));
            self.run(process.origin.clone(), log, signalled, names, fingerprint)
        })
    }

    fn known(&self, fingerprint: u64, run: impl FnOnce(u64) -> Process) -> Arc<Process> {
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&fingerprint) {
            return Arc::clone(known);
        }
        let process = Arc::new(run(fingerprint));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(fingerprint).or_insert(process))
    }

    fn run(
        &self,
        origin: Origin,
        log: Vec<(usize, Answer)>,
        signalled: Option<(Shard, Fence)>,
        names: Names,
        fingerprint: u64,
    ) -> Process {
        let recorder = Recorder::new(fresh_name(origin.name));
        let mut context = Context::from_waker(Waker::noop());
        let mut step = self.step(&origin, &recorder);
        let mut end = step.as_mut().poll(&mut context);
        for (call, answer) in &log {
            recorder.answer(*call, answer.clone());
            end = step.as_mut().poll(&mut context);
        }
        let end = match end {
            Poll::Ready(acknowledged) => Some(acknowledged),
            Poll::Pending => None,
        };
        // While the step still lives: dropping it drops its calls.
        let pending = if end.is_none() { recorder.pending() } else { Vec::new() };
        drop(step);
        Process { origin, log, pending, end, signalled, names, fingerprint }
    }

    /// The step that a message goes to; gives whether the message is acknowledged.
    fn step<'a>(&'a self, origin: &Origin, ports: &'a Recorder) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        let redelivered = origin.redelivered;
        let routes = &self.routes;
        match (*origin.body).clone() {
            Body::Register(numbers) => Box::pin(async move {
                let records = numbers.into_iter().map(|n| record(format!("m{n}"), text(n), 1));
                let step = Register { store: ports, queues: ports, env: ports, routes };
                step.run(records.collect()).await.kept().next().is_none()
            }),
            Body::Rest(numbers, stage) => Box::pin(async move {
                let body = Rest::body(&numbers.into_iter().map(text).collect::<Vec<_>>(), stage, Shard::HOME);
                let step = Register { store: ports, queues: ports, env: ports, routes };
                // So often that it is not hidden any more: a message that is hidden comes again, as any may.
                step.run(vec![record("rest".to_owned(), body, u32::MAX)]).await.kept().next().is_none()
            }),
            Body::Elect(message) => Box::pin(async move {
                let step = ElectLeader { store: ports, env: ports, routes, draw: 0.0 };
                let Ok(decided) = step.run(message, redelivered).await else { return false };
                let successors = decided.successors.into_iter().map(|successor| ((), successor)).collect();
                send_successors(ports, successors).await.is_empty()
            }),
            Body::Group(message) => Box::pin(async move {
                let step = GroupBatch { store: ports, outbox: ports, env: ports, routes, deadline: self.deadline };
                step.run(message).await.is_ok()
            }),
            Body::Handle(message) => Box::pin(async move {
                let (store, queue, downstream, env, timing) = (ports, ports, ports, ports, Timing::default());
                let step = HandleBatch { store, queue, downstream, env, routes, timing, worker: "model" };
                match step.run(message, Delivery { receipt: "", received: 1 }).await {
                    // As the function's entry does: these messages must come again.
                    Ok(handle::Outcome::CallAgain { .. } | handle::Outcome::ClaimLost) | Err(_) => false,
                    Ok(
                        handle::Outcome::Settled { .. }
                        | handle::Outcome::FollowedUp(_)
                        | handle::Outcome::Waits
                        | handle::Outcome::Nothing,
                    ) => true,
                }
            }),
        }
    }
}

/// The message that registers the task with this number.
#[must_use]
pub fn text(n: u8) -> String {
    format!(r#"{{"id":"t{n}","payload":{}}}"#, payload())
}

/// The number of the task that a message registers.
#[must_use]
pub fn number(text: &str) -> Option<u8> {
    text.strip_prefix(r#"{"id":"t"#)?.split('"').next()?.parse().ok()
}

/// The id of the task with this number.
#[must_use]
pub fn task_id(n: u8) -> TaskId {
    TaskId::new(format!("t{n}"))
}

/// The payload of every task.
#[must_use]
pub const fn payload() -> &'static str {
    r#"{"k":"a"}"#
}

impl Answer {
    fn names(&self) -> Names {
        match self {
            Self::Tasks(tasks) => tasks.iter().fold(0, |names, task| names | task.names()),
            Self::Lock(lock) => lock.as_ref().map_or(0, Kept::names),
            Self::Batch(batch) => batch.as_ref().map_or(0, Kept::names),
            Self::Session(session) => session.as_ref().map_or(0, Kept::names),
            Self::Advanced(advanced) => advanced.names(),
            Self::Ended(ended) => ended.names(),
            Self::Registered(registered) => registered.names(),
            Self::Page(_)
            | Self::Joined(_)
            | Self::PutBack(_)
            | Self::Released(_)
            | Self::Stored(_)
            | Self::Renewed(_)
            | Self::Reply(_)
            | Self::Done => 0,
        }
    }
}

fn record(message_id: String, body: String, received: u32) -> Record {
    Record { receipt: message_id.clone(), message_id, received, body }
}
