//! Processes: the real batch-handler and sweep, run up to their next I/O; see [`crate::harness::histories`].

use std::collections::BTreeMap;

use groupage_core::domain::Timestamp;
use groupage_core::domain::batch::{Batch, Status};
use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::message::Handle;
use groupage_core::domain::session::Timing;
use groupage_core::ports::Stored;
use groupage_core::routes::Routes;
use groupage_core::steps::handle::{Delivery, HandleBatch};
use groupage_core::steps::notebook::Notebook;
use groupage_core::steps::sweep::{Budget, Sweep};
use groupage_core::steps::track::Lifetimes;

use super::ports::{Op, Ports, Told};
use super::setting::SWEEP_MS;
use crate::harness::histories::{self, Calls};
use crate::harness::kept::{Kept, Names, fresh_name};

/// What a process does.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Does {
    /// It handles a batch's message.
    Handles(Kept<Handle>),
    /// It is sweep.
    Sweeps,
}

/// Gates as a process saw them last, and when, in milliseconds.
pub type Mind = BTreeMap<Scope, (Kept<Gate>, u64)>;

/// How a process begins.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Origin {
    /// What it does.
    pub does: Does,
    /// When it begins, in milliseconds.
    pub at: u64,
    /// The number of the fresh name that it may give.
    pub name: u8,
    /// What it has kept in mind.
    pub mind: Mind,
}

/// What a process has done.
#[derive(Clone, Debug)]
pub struct Learnt {
    /// It has written a gate.
    pub passed: bool,
    /// It has claimed its batch.
    pub claimed: bool,
    /// It has made a call.
    pub called: bool,
    /// Fresh names that it knows.
    pub names: Names,
    /// What it keeps in mind.
    pub mind: Mind,
}

/// A process between two I/Os.
pub type Process = histories::Process<Steps>;

/// The real steps.
#[derive(Debug)]
pub struct Steps {
    routes: Routes,
}

impl Steps {
    /// The steps under these routes.
    pub const fn new(routes: Routes) -> Self {
        Self { routes }
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
        let mind = origin.mind.clone();
        Learnt { passed: false, claimed: false, called: false, names: 1 << origin.name, mind }
    }

    fn is_pause(op: &Op) -> bool {
        matches!(op, Op::Never)
    }

    fn time_of(told: &Told) -> Option<u64> {
        Some(told.at)
    }

    fn learn(&self, learnt: &mut Learnt, op: &Op, told: &Told) {
        let is_stored = told.answer.get::<Kept<Stored>>().is_some_and(|stored| **stored == Stored::Yes);
        match op {
            Op::StoreGate(..) if is_stored => learnt.passed = true,
            Op::TakePlace(_, bid, lease) => {
                let gate = told.answer.get::<Kept<Gate>>();
                learnt.passed |= gate.is_some_and(|gate| bid.is_won(gate, *lease));
            }
            Op::Store(batch, _) if is_stored && is_claim(batch) => learnt.claimed = true,
            Op::Call(..) => learnt.called = true,
            _ => {}
        }
        learnt.names |= told.answer.names;
        if let Some((scope, gate)) = seen(op, told, is_stored) {
            learnt.mind.insert(scope.clone(), (gate.clone(), told.at));
        }
    }

    /// Nothing here is renewed: what a session outlives is short.
    async fn call(&self, origin: Origin, ports: &Ports) -> bool {
        let (store, queue, downstream, env, routes) = (ports, ports, ports, ports, &self.routes);
        match origin.does {
            Does::Handles(message) => {
                let timing = Timing { heartbeat_ms: 60_000, ..Timing::default() };
                let notebook = &Notebook::default();
                for (scope, (gate, at)) in &origin.mind {
                    notebook.sightings.note(scope, gate, Timestamp(*at));
                }
                let step = HandleBatch { store, queue, downstream, env, routes, timing, worker: "model", notebook };
                let outcome = step.run((*message).clone(), Delivery { receipt: "", received: 1 }).await;
                // As the function's entry does: what did not end well comes again.
                outcome.is_ok_and(|outcome| !outcome.keeps_its_message())
            }
            Does::Sweeps => {
                let (budget, lifetimes) = (Budget::default(), Lifetimes::default());
                let sweep = Sweep { store, outbox: queue, env, routes, budget, every_ms: SWEEP_MS, lifetimes };
                // Trackers, lists and streams are not asked for.
                let _ = sweep.run().await;
                true
            }
        }
    }
}

/// The gate that an I/O has shown.
fn seen<'a>(op: &'a Op, told: &'a Told, is_stored: bool) -> Option<(&'a Scope, &'a Kept<Gate>)> {
    match op {
        Op::Gate(scope) | Op::TakePlace(scope, ..) => Some((scope, told.answer.get()?)),
        Op::StoreGate(scope, gate) if is_stored => Some((scope, gate)),
        Op::TakeTicket(scope, ..) | Op::GiveBack(scope, ..) => {
            Some((scope, told.answer.get::<Option<Kept<Gate>>>()?.as_ref()?))
        }
        _ => None,
    }
}

/// Whether this is a batch as a claim writes it.
pub const fn is_claim(batch: &Batch) -> bool {
    matches!(batch.status, Status::InProgress { .. })
}
