//! Processes: the real steps, run up to their next I/O; see [`crate::harness::histories`].

use groupage_core::domain::sender::Sender;
use groupage_core::domain::session::Timing;
use groupage_core::domain::{Batch, Fence, Rest, RouteName, Shard, Target, TaskId, Timestamp};
use groupage_core::ports::{Freshness, Signalled, Stored};
use groupage_core::routes::Routes;
use groupage_core::steps::elect::ElectLeader;
use groupage_core::steps::election_messages::send_next;
use groupage_core::steps::group::GroupBatch;
use groupage_core::steps::handle::{Delivery, HandleBatch};
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::register::{Asked, Rations, Record, Register};

use crate::harness::act::Answer;
use crate::harness::histories::{self, Calls};
use crate::harness::kept::{Kept, Names, fresh_name};
use crate::pipeline::io::{Body, Op, Ports};

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
pub type Process = histories::Process<Steps>;

/// What a process has learnt.
#[derive(Clone, Copy, Debug)]
pub struct Learnt {
    /// The holder that it has signalled last, and by which shard's lock that leads.
    pub signalled: Option<(Shard, Fence)>,
    /// Fresh names that it knows.
    pub names: Names,
}

impl Process {
    /// Its latest I/O.
    pub fn last_io(&self) -> Option<&(usize, Op)> {
        self.pending.iter().rev().find(|(_, op)| !Steps::is_pause(op))
    }

    /// The pause between two heartbeats, if it makes one.
    pub fn sleeps(&self) -> Option<&(usize, Op)> {
        self.pending.iter().find(|(_, op)| Steps::is_pause(op))
    }

    /// Its next I/O, if nobody else can tell when it happens: a worker's eventual reads are of payloads, and these
    /// never change. When calls come `last`, their members are settled at once, too.
    pub fn quiet_io(&self, last: bool) -> Option<&(usize, Op)> {
        let handles = matches!(&*self.role.body, Body::Handle(_));
        self.next_io().filter(|(_, op)| {
            handles && (matches!(op, Op::Read(_, Freshness::Eventual)) || last && matches!(op, Op::Settle(..)))
        })
    }

    /// Whether it has just read or written a batch, whose candidates it looks at next.
    pub fn has_just_seen_its_batch(&self) -> bool {
        let is_of_batch =
            |answer: &Answer| answer.get::<Option<Kept<Batch>>>().is_some() || answer.get::<Kept<Stored>>().is_some();
        self.last_answer().is_some_and(is_of_batch)
    }
}

/// The real steps.
#[derive(Debug)]
pub struct Steps {
    routes: Routes,
    deadline: Timestamp,
    aware: bool,
}

impl Steps {
    /// The steps under these routes. `one_batch_each` makes a leader go on by another message after each batch, `aware`
    /// says that those who register know that somebody may lead.
    pub const fn new(routes: Routes, one_batch_each: bool, aware: bool) -> Self {
        Self { routes, deadline: Timestamp(if one_batch_each { 0 } else { u64::MAX }), aware }
    }
}

impl Calls for Steps {
    type Role = Origin;
    type Op = Op;
    type Answer = Answer;
    type Learnt = Learnt;

    /// Time stands still at 0. What is over in time (a lease, a session, a window, a pause) is so because the model
    /// writes a 0 into the table.
    fn ports(&self, origin: &Origin) -> Ports {
        Ports::new(fresh_name(origin.name), 0)
    }

    fn begin(&self, origin: &Origin) -> Learnt {
        Learnt { signalled: None, names: origin.body.names() | 1 << origin.name }
    }

    fn is_pause(op: &Op) -> bool {
        matches!(op, Op::Sleep)
    }

    fn learn(&self, learnt: &mut Learnt, op: &Op, answer: &Answer) {
        if let (Op::Signal(target, held), Some(Signalled::Yes)) = (op, answer.get::<Kept<Signalled>>().map(|it| &**it))
        {
            learnt.signalled = Some((target.shard(), held.fence));
        }
        learnt.names |= answer.names;
    }

    /// The step that a message goes to.
    async fn call(&self, origin: Origin, ports: &Ports) -> bool {
        let redelivered = origin.redelivered;
        let routes = &self.routes;
        // Each event is that of a process which knows nothing of those before, but that somebody may lead.
        let register = async |records: Vec<Record>| {
            let (deadline, rations) = (Timestamp(u64::MAX), &Rations::default());
            let asked = &Asked::default();
            if self.aware {
                let target = Target::of(&RouteName::new("r"), "a");
                let _ = asked.may_be_led(&target, Timestamp(u64::MAX), Timestamp(0));
            }
            let step = Register { store: ports, queues: ports, env: ports, routes, deadline, rations, asked };
            step.run(records).await.kept().next().is_none()
        };
        match (*origin.body).clone() {
            Body::Register(numbers) => {
                let records = numbers.into_iter().map(|n| record(format!("m{n}"), text(n), 1));
                register(records.collect()).await
            }
            Body::Rest(numbers, stage) => {
                let body = Rest::body(&numbers.into_iter().map(text).collect::<Vec<_>>(), stage, Shard::HOME);
                // So often that it is not hidden any more: a message that is hidden comes again, as any may.
                register(vec![record("rest".to_owned(), body, u32::MAX)]).await
            }
            Body::Elect(message) => {
                let step = ElectLeader { store: ports, env: ports, routes, draw: 0.0 };
                let Ok(decided) = step.run(message, redelivered).await else { return false };
                let next_messages = decided.next_messages.into_iter().map(|next_message| ((), next_message)).collect();
                send_next(ports, next_messages).await.is_empty()
            }
            Body::Group(message) => {
                let step = GroupBatch { store: ports, queue: ports, env: ports, routes, deadline: self.deadline };
                step.run(message, Delivery { receipt: "", received: 1 }).await.is_ok()
            }
            Body::Handle(message) => {
                let (store, queue, downstream, env, timing) = (ports, ports, ports, ports, Timing::default());
                let step = HandleBatch {
                    store,
                    queue,
                    downstream,
                    env,
                    routes,
                    timing,
                    worker: "model",
                    announced: &Announced::default(),
                };
                // As the function's entry does: what did not end well comes again.
                let outcome = step.run(message, Delivery { receipt: "", received: 1 }).await;
                outcome.is_ok_and(|outcome| !outcome.keeps_its_message())
            }
        }
    }
}

/// The message that registers the task with this number.
pub fn text(n: u8) -> String {
    format!(r#"{{"id":"t{n}","payload":{}}}"#, payload())
}

/// The number of the task that a message registers.
pub fn number(text: &str) -> Option<u8> {
    text.strip_prefix(r#"{"id":"t"#)?.split('"').next()?.parse().ok()
}

/// The id of the task with this number.
pub fn task_id(n: u8) -> TaskId {
    TaskId::new(format!("t{n}"))
}

/// The payload of every task.
pub const fn payload() -> &'static str {
    r#"{"k":"a"}"#
}

fn record(message_id: String, body: String, received: u32) -> Record {
    Record { receipt: message_id.clone(), message_id, received, sender: Sender::Stack, body, trace: None }
}
