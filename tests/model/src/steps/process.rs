//! Processes: the real steps, run up to their next I/O; see [`crate::harness::histories`].

use groupage_core::domain::batch::Status;
use groupage_core::domain::sender::Sender;
use groupage_core::domain::session::Timing;
use groupage_core::routes::Routes;
use groupage_core::steps::elect::ElectLeader;
use groupage_core::steps::election_messages::send_next;
use groupage_core::steps::group::GroupBatch;
use groupage_core::steps::handle::{Delivery, HandleBatch};
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::register::{Asked, Rations, Record, Register};
use groupage_core::steps::sweep::{Budget, Sweep};
use groupage_core::steps::track::Lifetimes;

use super::io::{Body, Op, Ports, Told};
use crate::harness::histories::{self, Calls};
use crate::harness::kept::fresh_name;
use crate::prelude::*;

/// The time between two sweeps, in milliseconds.
pub const SWEEP_MS: u64 = 61_000;

/// The beginning of a process.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Origin {
    /// The message that it was given.
    pub body: Kept<Body>,
    /// Set if that may have been handled before.
    pub redelivered: bool,
    /// The time when it begins, in milliseconds.
    pub at: u64,
    /// The number of the fresh name that the process may give.
    pub name: u8,
}

/// A process between two I/Os.
pub type Process = histories::Process<Steps>;

/// The knowledge of a process, and what it has done.
#[derive(Clone, Copy, Debug)]
pub struct Learnt {
    /// The holder that it has signalled last, and by which shard's lock that leads.
    pub signalled: Option<(Shard, Fence)>,
    /// It has written a gate.
    pub passed: bool,
    /// It has claimed its batch.
    pub claimed: bool,
    /// It has made a call.
    pub called: bool,
    /// Fresh names that it knows.
    pub names: Names,
}

impl Process {
    /// The renewal of its session, if one is under way.
    pub fn renewal(&self) -> Option<&(usize, Op)> {
        self.pending.iter().find(|(_, op)| matches!(op, Op::Renew(_)))
    }

    /// The pause between two heartbeats, if it makes one.
    pub fn sleeps(&self) -> Option<&(usize, Op)> {
        self.pending.iter().find(|(_, op)| Steps::is_pause(op))
    }

    /// Its next I/O, if nobody else can tell when it happens: a worker's eventual reads are of payloads, and these
    /// never change. When calls come `last`, their members are settled at once, too. Gates are open, and time stands
    /// still.
    pub fn quiet_io(&self, last: bool) -> Option<&(usize, Op)> {
        let handles = self.role.body.handled().is_some();
        self.next_io().filter(|(_, op)| match op {
            Op::Read(_, Freshness::Eventual) => handles,
            Op::Settle(..) => handles && last,
            _ => op.is_of_a_gate() || matches!(op, Op::Sleep(_)),
        })
    }

    /// Whether it has just read or written a batch, whose candidates it looks at next.
    pub fn has_just_seen_its_batch(&self) -> bool {
        let is_of_batch = |Told { answer, .. }: &Told| {
            answer.get::<Option<Kept<Batch>>>().is_some() || answer.get::<Kept<Stored>>().is_some()
        };
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
    type Answer = Told;
    type Learnt = Learnt;

    fn ports(&self, origin: &Origin) -> Ports {
        Ports::new(fresh_name(origin.name), origin.at)
    }

    fn begin(&self, origin: &Origin) -> Learnt {
        let names = origin.body.names() | 1 << origin.name;
        Learnt { signalled: None, passed: false, claimed: false, called: false, names }
    }

    fn is_pause(op: &Op) -> bool {
        matches!(op, Op::Pause)
    }

    fn time_of(told: &Told) -> Option<u64> {
        Some(told.at)
    }

    fn learn(&self, learnt: &mut Learnt, op: &Op, Told { answer, .. }: &Told) {
        let is_stored = || answer.get::<Kept<Stored>>().is_some_and(|stored| **stored == Stored::Yes);
        let is_signalled = || answer.get::<Kept<Signalled>>().is_some_and(|it| matches!(**it, Signalled::Yes));
        match op {
            Op::Signal(term) if is_signalled() => learnt.signalled = Some((term.target.shard(), term.fence)),
            Op::StoreGate(..) if is_stored() => learnt.passed = true,
            Op::Store(batch, _) if is_stored() && is_claim(batch) => learnt.claimed = true,
            Op::Call(..) => learnt.called = true,
            _ => {}
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
                let (store, queue, downstream, env, announced) = (ports, ports, ports, ports, &Announced::default());
                let reads = &Destination::Handle;
                // What a session outlives is short: it is renewed only if the model says so.
                let timing = Timing { heartbeat_ms: 60_000, ..Timing::default() };
                let step =
                    HandleBatch { store, queue, reads, downstream, env, routes, timing, worker: "model", announced };
                // As the function's entry does: what did not end well comes again.
                let outcome = step.run(message, Delivery { receipt: "", received: 1 }).await;
                outcome.is_ok_and(|outcome| !outcome.keeps_its_message())
            }
            Body::Sweep => {
                let (budget, lifetimes) = (Budget::default(), Lifetimes::default());
                let (store, outbox, env, every_ms) = (ports, ports, ports, SWEEP_MS);
                // Trackers, lists and streams are not asked for.
                let _ = Sweep { store, outbox, env, routes, budget, every_ms, lifetimes }.run().await;
                true
            }
        }
    }
}

/// Returns whether this is a batch as a claim writes it.
pub const fn is_claim(batch: &Batch) -> bool {
    matches!(batch.status, Status::InProgress { .. })
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
