//! A whole stack in virtual time: senders, queues, mappings, the real functions, tables, and a downstream.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use futures::future::BoxFuture;
use groupage_aws::entry::mapping::{MEMORY_MB, SWEEP_EVERY_MS};
use groupage_aws::entry::{self, Handled, RouteSource, Stack};
use groupage_core::domain::gate::Unit;
use groupage_core::ports::Destination;
use groupage_core::routes::Routes;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock::TestEnv;
use crate::downstream::Accepting;
use crate::lambda::{Lambda, Running};
use crate::limits::Limits;
use crate::load::{Load, Sending, message};
use crate::machine::Machine;
use crate::message::Chain;
use crate::queues::{Queues, Step, Wired};
use crate::report::Report;
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
            Step::BatchHandler => Box::pin(entry::batch_handler(function, &Destination::Handle, downstream, event)),
        }
    }
}

/// What the route's gate lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CallLimits {
    /// Calls in flight; `None` is no limit.
    pub in_flight: Option<u32>,
    /// Calls that start in a second; `None` is no limit.
    pub per_second: Option<u32>,
    /// The same for each Target.
    pub per_second_per_target: Option<u32>,
    /// Tokens of tasks in a minute, whose calls have up to 8,000; `None` is no limit.
    pub tokens_per_minute: Option<u32>,
    /// Whether a pause holds back the whole route, and not just a Target.
    pub pauses_route: bool,
    /// How Targets share it, if they do.
    pub shared: Option<Weights>,
}

/// The weights by which Targets share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// All have the same.
    Equal,
    /// The first ten Targets have 1 to 10.
    OneToTen,
}

impl Weights {
    fn share(self) -> String {
        let of = |n: usize| format!("target == 't{n}' && `{}`", n + 1);
        let weight = match self {
            Self::Equal => String::new(),
            Self::OneToTen => format!(", weight: \"{}\"", (0..10).map(of).collect::<Vec<_>>().join(" || ")),
        };
        format!("share: {{ by: target{weight} }}, ")
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
    /// What the route's gate lets through.
    pub calls: CallLimits,
    /// How many shards each Target has.
    pub shards: u8,
    /// Whether tasks wait for the next full hour ([`UNTIL_THE_HOUR`](crate::UNTIL_THE_HOUR)).
    pub hourly: bool,
    /// Fields of the route's `batch` beside those, and lines of the route; empty without any.
    pub options: (&'static str, &'static str),
    /// Where the route's calls go, as YAML. Every kind is answered alike.
    pub downstream: &'static str,
    /// What the tables bear; `None` bears everything.
    pub limits: Option<Limits>,
    /// How Lambda is set.
    pub lambda: Lambda,
    /// When the downstream goes away, and for how long, in seconds.
    pub away_s: Option<(u64, u64)>,
    /// When to stop, whatever is left, and not before, in seconds; `None` runs until nothing is.
    pub stop_after_s: Option<u64>,
}

impl Setting {
    /// The conditions that figures are given for: calls of a second with up to a hundred tasks, indexes that do not
    /// lag.
    pub const fn of(load: Load) -> Self {
        Self {
            seed: 1,
            load,
            lag_ms: 0,
            wait_ms: 6_000,
            max_items: 100,
            call_ms: 1_000,
            express: false,
            calls: CallLimits {
                in_flight: None,
                per_second: None,
                per_second_per_target: None,
                tokens_per_minute: None,
                pauses_route: false,
                shared: None,
            },
            shards: 1,
            hourly: false,
            options: ("", ""),
            downstream: "{ http: { url: 'http://downstream.invalid/load' } }",
            limits: None,
            lambda: Lambda::DEFAULT,
            away_s: None,
            stop_after_s: None,
        }
    }

    pub(crate) fn routes(&self) -> String {
        let Self { max_items, wait_ms, express, shards, options: (fields, lines), downstream, .. } = self;
        let closes = if self.hourly { ", close_at: '0 * * * *'" } else { "" };
        let limit = |name: &str, most: Option<u32>| most.map_or_else(String::new, |most| format!("{name}: {most}, "));
        let in_flight = limit("in_flight", self.calls.in_flight);
        let shared = self.calls.shared.map(Weights::share).unwrap_or_default();
        let rate = limit("calls_per_second", self.calls.per_second);
        let rate_of_one = limit("calls_per_second_per_target", self.calls.per_second_per_target);
        let budget = self.calls.tokens_per_minute;
        let rates = |most| format!("rates: [{{ amount: {most}, per: minute, of: weight }}], ");
        let weight = budget.map_or("", |_| "weight: tokens, max_weight: 8000, ");
        let calls = in_flight + &rate + &rate_of_one + &budget.map(rates).unwrap_or_default() + &shared;
        let pause = if self.calls.pauses_route { "route" } else { "target" };
        format!(
            "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    shards: {shards}\n    \
             batch: {{ max_items: {max_items}, wait_ms: {wait_ms}, {weight}{fields}express: {express}{closes} }}\n    limits: {{ {calls}pause: {pause} }}\n    \
             downstream: {downstream}\n{lines}"
        )
    }
}

pub(crate) struct World {
    pub(crate) queues: Arc<Queues>,
    pub(crate) env: TestEnv,
    pub(crate) report: Report,
    pub(crate) tables: Tables,
    pub(crate) routes: Arc<Routes>,
    pub(crate) downstream: Accepting,
    pub(crate) lambda: Running,
    pub(crate) steps: Box<dyn Steps>,
}

impl World {
    /// One sender's requests, one after the other, each at its time or later.
    pub(crate) async fn send(self: Arc<Self>, requests: Vec<Sending>, first: usize, begun: Instant) {
        let mut number = first;
        let has_tokens = self.routes.iter().flat_map(|route| route.rates.iter()).any(|rate| rate.of == Unit::Weight);
        for Sending { at, targets } in requests {
            sleep_until(begun + at).await;
            let mut ids = Vec::with_capacity(targets.len());
            let mut messages = Vec::with_capacity(targets.len());
            for target in targets {
                let (id, message) = message(number, target, has_tokens);
                number += 1;
                ids.push(id);
                messages.push(message);
            }
            self.queues.send_from_outside(&self.env, messages).await;
            ids.into_iter().for_each(|id| self.report.arrived(id));
        }
    }

    /// A new execution environment of a function with so much memory.
    pub(crate) fn machine(&self, memory_mb: u32) -> Machine {
        Machine::of_memory(self.env.clone(), memory_mb)
    }

    fn function(&self, machine: Machine, chain: Chain) -> Function {
        let (rations, asked) = (machine.rations(), machine.asked());
        // As long as the name of a log stream: sessions are stored with it.
        let worker = "groupage-batch-handler/[$LATEST]0123456789abcdef0123456789abcdef".to_owned();
        let store = self.tables.seen_by(machine.clone());
        let queues = Wired { queues: Arc::clone(&self.queues), machine, chain };
        let routes = RouteSource::Fixed(Arc::clone(&self.routes));
        Stack { rations, asked, worker, ..Stack::new(store, queues, self.env.clone(), routes) }
    }

    /// One invocation on this environment, in this chain; says which messages stay.
    pub(crate) async fn handle(&self, machine: &Machine, step: Step, chain: Chain, event: SqsEvent) -> Vec<String> {
        let function = self.function(machine.clone(), chain);
        let handled = self.steps.handle(&function, &self.downstream, step, event).await;
        self.report.notes().counts.merge(&handled.counts);
        handled.response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
    }

    pub(crate) async fn sweep(self: Arc<Self>) {
        // Its schedule begins a chain each time.
        let function = self.function(self.machine(MEMORY_MB), Chain::default());
        loop {
            sleep(Duration::from_millis(SWEEP_EVERY_MS)).await;
            let Some(_place) = self.lambda.place() else { continue };
            let begun = Instant::now();
            // What it could not do is the next one's.
            let (swept, _) = Box::pin(entry::sweep(&function, SWEEP_EVERY_MS)).await;
            let mut notes = self.report.notes();
            notes.counts.merge(&swept);
            notes.sweeps.push(begun.elapsed());
        }
    }
}
