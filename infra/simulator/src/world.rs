//! A whole stack in virtual time: senders, queues, mappings, the real functions, tables, and a downstream.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use futures::future::BoxFuture;
use groupage_aws::Meter;
use groupage_aws::entry::mapping::{MEMORY_MB, SWEEP_EVERY_MS};
use groupage_aws::entry::{self, Handled, RouteSource, Stack};
use groupage_core::domain::id::digest;
use groupage_core::domain::session::Timing;
use groupage_core::memory::MemoryStore;
use groupage_core::ports::{Destination, Outgoing};
use groupage_core::routes::Routes;
use groupage_core::steps::track::Lifetimes;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock::{TestEnv, in_virtual_time};
use crate::downstream::Accepting;
use crate::lag::{Lag, Lagging};
use crate::limits::{Capacity, Limits};
use crate::load::{Load, Sending};
use crate::machine::Machine;
use crate::mapping;
use crate::queues::{Queues, Step, Wired};
use crate::report::{Outcome, Report};
use crate::store::{Store, Tables};

/// What a function works with: tables and queues as one environment sees them, and virtual time.
pub type Function = Stack<Store, Wired, TestEnv>;

/// What the functions do with their events: the real steps, or others for comparison.
pub trait Steps: Send + Sync {
    /// One invocation.
    fn handle<'a>(
        &'a self,
        function: &'a Function,
        downstream: &'a Accepting,
        step: Step,
        event: SqsEvent,
    ) -> BoxFuture<'a, Handled>;
}

/// The real steps.
#[derive(Clone, Copy, Debug)]
pub struct Real;

impl Steps for Real {
    fn handle<'a>(
        &'a self,
        function: &'a Function,
        downstream: &'a Accepting,
        step: Step,
        event: SqsEvent,
    ) -> BoxFuture<'a, Handled> {
        match step {
            Step::RegisterTask | Step::RegisterInOrder => Box::pin(entry::register_task(function, event)),
            Step::ElectLeader => Box::pin(entry::elect_leader(function, event)),
            Step::GroupBatch => Box::pin(entry::group_batch(function, event)),
            Step::BatchHandler => Box::pin(entry::batch_handler(function, downstream, event)),
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random follows from it.
    pub seed: u64,
    /// What is sent.
    pub load: Load,
    /// How far behind indexes may be, in milliseconds.
    pub lag_ms: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    pub wait_ms: u64,
    /// Tasks in one call at most.
    pub max_items: usize,
    /// How long a call takes, in milliseconds.
    pub call_ms: u64,
    /// Whether tasks that fill batches by themselves become such at once.
    pub express: bool,
    /// How many shards each Target has.
    pub shards: u8,
    /// What the tables bear; `None` bears everything.
    pub limits: Option<Limits>,
    /// When to stop, whatever is left, and not before, in seconds; `None` runs until nothing is.
    pub stop_after_s: Option<u64>,
}

impl Setting {
    /// The conditions that figures are given for: calls of a second with up to a hundred tasks, indexes that do not lag.
    #[must_use]
    pub const fn of(load: Load) -> Self {
        Self {
            seed: 1,
            load,
            lag_ms: 0,
            wait_ms: 6_000,
            max_items: 100,
            call_ms: 1_000,
            express: false,
            shards: 1,
            limits: None,
            stop_after_s: None,
        }
    }

    fn routes(&self) -> String {
        let Self { max_items, wait_ms, express, shards, .. } = self;
        format!(
            "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    shards: {shards}\n    \
             batch: {{ max_items: {max_items}, wait_ms: {wait_ms}, express: {express} }}\n    \
             downstream: {{ http: {{ url: \"http://downstream.invalid/load\" }} }}\n"
        )
    }
}

/// A run could not come to its end.
#[derive(Debug)]
pub enum Error {
    /// The route is none.
    Routes(groupage_core::routes::Error),
    /// Tasks are left that nothing moves.
    Stuck {
        /// How many are settled.
        settled: u64,
        /// Of how many.
        tasks: usize,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Routes(error) => write!(f, "the scenario's route is none: {error}"),
            Self::Stuck { settled, tasks } => write!(f, "only {settled} of {tasks} tasks are settled after an hour"),
        }
    }
}

impl std::error::Error for Error {}

/// The world's clock is so far ahead of the beginning of virtual time that its numbers are as long as real ones.
const AHEAD_MS: i64 = 1_800_000_000_000;
const PATIENCE: Duration = Duration::from_secs(3_600);

pub(crate) struct World {
    pub(crate) queues: Arc<Queues>,
    pub(crate) env: TestEnv,
    pub(crate) report: Report,
    tables: Tables,
    routes: Arc<Routes>,
    downstream: Accepting,
    steps: Box<dyn Steps>,
}

/// Runs what is simulated to its end, in virtual time, on a runtime of its own; `progress` hears of settled tasks.
///
/// # Errors
/// [`Error`]
///
/// # Panics
/// The runtime does not start.
pub fn run(setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    run_steps(Box::new(Real), setting, progress)
}

/// As [`run`], with other steps than the real ones.
///
/// # Errors
/// [`Error`]
///
/// # Panics
/// The runtime does not start.
pub fn run_steps(steps: Box<dyn Steps>, setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    in_virtual_time(simulate(steps, setting, progress))
}

async fn simulate(steps: Box<dyn Steps>, setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    let routes = Arc::new(Routes::parse(&setting.routes()).map_err(Error::Routes)?);
    let env = TestEnv::new(setting.seed).ahead_by(AHEAD_MS);
    let meter = Arc::new(Meter::new());
    let lag = Lag { index_ms: setting.lag_ms, ..Lag::default() };
    let capacity = setting.limits.map(|limits| Arc::new(Capacity::new(limits, setting.seed)));
    let inner = Lagging::new(MemoryStore::new(), env.clone(), lag, setting.seed);
    let world = Arc::new(World {
        queues: Arc::new(Queues::new(Arc::clone(&meter))),
        tables: Tables::new(inner, env.clone(), Arc::clone(&meter), capacity.clone()),
        env,
        report: Report::default(),
        routes,
        downstream: Accepting::after(Duration::from_millis(setting.call_ms)),
        steps,
    });
    let (begun, senders) = (Instant::now(), setting.load.senders(&world.env));
    let tasks = senders.iter().flatten().map(|sending| sending.targets.len()).sum();
    // Dropping the set ends everything.
    let mut running = JoinSet::new();
    for step in Step::ALL {
        running.spawn(mapping::run(Arc::clone(&world), step));
    }
    running.spawn(Arc::clone(&world).sweep());
    let mut first = 0;
    for sender in senders {
        let numbers = first;
        first += sender.iter().map(|sending| sending.targets.len()).sum::<usize>();
        running.spawn(Arc::clone(&world).send(sender, numbers, begun));
    }
    let took = world.until_done(tasks, setting.stop_after_s.map(Duration::from_secs), progress).await?;
    let notes = std::mem::take(&mut *world.report.notes());
    Ok(Outcome {
        tasks,
        took,
        usage: meter.snapshot(),
        fifo_requests: world.queues.fifo_requests(),
        functions: notes.functions,
        sweeps: notes.sweeps,
        calls: world.downstream.seen(),
        tasks_at: notes.tasks_at,
        counts: notes.counts,
        throttled: capacity.map_or(0, |capacity| capacity.throttled()),
    })
}

/// A task's message: id and payload as the embedded stack's bursts have them.
fn message(number: usize, target: usize) -> (String, Outgoing) {
    // Random order, as of UUIDs.
    let id = digest(&["task", &number.to_string()]);
    let body = format!(r#"{{"id":"{id}","payload":{{"truck":"t{target}","parcel":{number}}}}}"#);
    (id, Outgoing { to: Destination::Tasks, body, delay_ms: 0, attributes: Vec::new() })
}

/// The id in a task's message.
pub(crate) fn task_of(body: &str) -> Option<&str> {
    body.strip_prefix(r#"{"id":""#)?.split('"').next()
}

impl World {
    /// One sender's requests, one after the other, each at its time or later.
    async fn send(self: Arc<Self>, requests: Vec<Sending>, first: usize, begun: Instant) {
        let mut number = first;
        for Sending { at, targets } in requests {
            sleep_until(begun + at).await;
            let mut ids = Vec::with_capacity(targets.len());
            let mut messages = Vec::with_capacity(targets.len());
            for target in targets {
                let (id, message) = message(number, target);
                number += 1;
                ids.push(id);
                messages.push(message);
            }
            self.queues.send_from_outside(&self.env, messages).await;
            ids.into_iter().for_each(|id| self.report.arrived(id));
        }
    }

    /// Waits until it is time to stop; if there is no such time, until every task is settled and no message is under way. Says
    /// when the last task was settled, or when it stopped before that.
    async fn until_done(
        &self,
        tasks: usize,
        stop_after: Option<Duration>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Duration, Error> {
        const LOOK: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        let mut took = None;
        while took.is_none() || stop_after.is_some() || !self.queues.are_empty() {
            if begun.elapsed() > PATIENCE {
                return Err(Error::Stuck { settled: self.report.settled(), tasks });
            }
            if let Some(stopped) = stop_after.filter(|stop_after| begun.elapsed() >= *stop_after) {
                return Ok(took.unwrap_or(stopped));
            }
            sleep(LOOK).await;
            let settled = self.report.settled();
            progress(settled);
            if took.is_none() && settled >= tasks as u64 {
                took = Some(begun.elapsed());
            }
        }
        Ok(took.unwrap_or_default())
    }

    /// A new execution environment of a function with so much memory.
    pub(crate) fn machine(&self, memory_mb: u32) -> Machine {
        Machine::of_memory(self.env.clone(), memory_mb)
    }

    fn function(&self, machine: Machine) -> Function {
        Stack {
            store: self.tables.seen_by(machine.clone()),
            queues: Wired { queues: Arc::clone(&self.queues), machine },
            env: self.env.clone(),
            timing: Timing::default(),
            lifetimes: Lifetimes::default(),
            worker: "groupage-batch-handler/[$LATEST]0123456789abcdef0123456789abcdef".to_owned(),
            routes: RouteSource::Fixed(Arc::clone(&self.routes)),
        }
    }

    /// One invocation on this environment; says which messages stay.
    pub(crate) async fn handle(&self, machine: &Machine, step: Step, event: SqsEvent) -> Vec<String> {
        let function = self.function(machine.clone());
        let handled = self.steps.handle(&function, &self.downstream, step, event).await;
        self.report.notes().counts.merge(&handled.counts);
        handled.response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
    }

    async fn sweep(self: Arc<Self>) {
        let function = self.function(self.machine(MEMORY_MB));
        loop {
            sleep(Duration::from_millis(SWEEP_EVERY_MS)).await;
            let begun = Instant::now();
            // What it could not do is the next one's.
            let (swept, _) = Box::pin(entry::sweep(&function, SWEEP_EVERY_MS)).await;
            let mut notes = self.report.notes();
            notes.counts.merge(&swept);
            notes.sweeps.push(begun.elapsed());
        }
    }
}
