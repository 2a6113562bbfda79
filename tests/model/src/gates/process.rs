//! Processes: the real batch-handler and sweep, run up to their next I/O; see [`crate::harness::histories`].

use groupage_core::domain::batch::{Batch, Status};
use groupage_core::domain::message::Handle;
use groupage_core::domain::session::Timing;
use groupage_core::ports::Stored;
use groupage_core::routes::Routes;
use groupage_core::steps::handle::{Delivery, HandleBatch};
use groupage_core::steps::process::notify::Announced;
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

/// How a process begins.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Origin {
    /// What it does.
    pub does: Does,
    /// When it begins, in milliseconds.
    pub at: u64,
    /// The number of the fresh name that it may give.
    pub name: u8,
}

/// What a process has done.
#[derive(Clone, Copy, Debug)]
pub struct Learnt {
    /// It has written a gate.
    pub passed: bool,
    /// It has claimed its batch.
    pub claimed: bool,
    /// It has made a call.
    pub called: bool,
    /// Fresh names that it knows.
    pub names: Names,
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
        Learnt { passed: false, claimed: false, called: false, names: 1 << origin.name }
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
            Op::Store(batch, _) if is_stored && is_claim(batch) => learnt.claimed = true,
            Op::Call(..) => learnt.called = true,
            _ => {}
        }
        learnt.names |= told.answer.names;
    }

    /// Nothing here is renewed: what a session outlives is short.
    async fn call(&self, origin: Origin, ports: &Ports) -> bool {
        let (store, queue, downstream, env, routes) = (ports, ports, ports, ports, &self.routes);
        match origin.does {
            Does::Handles(message) => {
                let timing = Timing { heartbeat_ms: 60_000, ..Timing::default() };
                let announced = &Announced::default();
                let step = HandleBatch { store, queue, downstream, env, routes, timing, worker: "model", announced };
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

/// Whether this is a batch as a claim writes it.
pub const fn is_claim(batch: &Batch) -> bool {
    matches!(batch.status, Status::InProgress { .. })
}
