//! The whole pipeline in virtual time: every step as a process of its own, many at once, over tables and queues in memory
//! and a scripted downstream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use shared::domain::time::Timestamp;
use shared::memory::{Delivery, MemoryStore};
use shared::ports::{Destination, Env};
use shared::routes::Routes;
use shared::steps::Error;
use shared::steps::register::{Record, Report};
use tokio::sync::Notify;

use crate::clock::TestEnv;
use crate::downstream::{Scripted, Seen};
use crate::lag::{Lag, Lagging};
use crate::mutation::Mutation;
use crate::process::{Fate, Plan, Process};
use crate::queues::Queues;
use crate::witness::Witness;

/// What a world is like.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random follows from it.
    pub seed: u64,
    /// What befalls the calls to ports.
    pub plan: Plan,
    /// How far indexes and replicas are behind.
    pub lag: Lag,
    /// The longest that a call to a port takes, in milliseconds.
    pub latency_ms: u64,
    /// How far a process's clock may be off, in milliseconds.
    pub skew_ms: u64,
    /// The chance that a message between steps is lost.
    pub loss: f64,
    /// The chance that a message is delivered twice at once.
    pub twice: f64,
    /// Whether sweep runs each minute.
    pub sweeps: bool,
    /// Workers that pull the route of this name, and how many.
    pub workers: Option<(&'static str, usize)>,
    /// A rule that is not kept.
    pub mutation: Option<Mutation>,
    /// Whether every call's answer is kept for reading.
    pub traced: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 1,
            plan: Plan::Nothing,
            lag: Lag::default(),
            latency_ms: 0,
            skew_ms: 0,
            loss: 0.0,
            twice: 0.0,
            sweeps: false,
            workers: None,
            mutation: None,
            traced: false,
        }
    }
}

/// The tables as the processes see them.
pub type Store = Lagging<Witness, TestEnv>;

/// Everything together.
pub struct World {
    /// The tables.
    pub store: Store,
    /// The queues.
    pub queues: Queues,
    /// The true clock.
    pub env: TestEnv,
    /// The routes.
    pub routes: Routes,
    /// Where calls go.
    pub downstream: Scripted,
    /// What befell whom.
    pub fate: Arc<Fate>,
    pub(crate) setting: Setting,
    jobs: Mutex<Jobs>,
    jobs_changed: Notify,
}

/// Jobs that begin at their time.
#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<(Timestamp, u64, Job)>,
    made: u64,
}

/// What a process is started with.
#[derive(Clone, Debug)]
enum Job {
    /// Records of the intake queue, for register-task.
    Event(Vec<Record>),
    /// A message between the steps.
    Delivery(Delivery),
}

/// How long a message in hand is hidden, in milliseconds.
pub const VISIBILITY_MS: u64 = 60_000;
/// How often somebody looks whether everything is at rest, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// A world that is not at rest after so many milliseconds never will be.
const PATIENCE_MS: u64 = 12 * 60 * 60 * 1000;

/// A world that makes so many calls to ports goes round in circles.
const MOST_CALLS: usize = 1_000_000;

impl World {
    /// An empty world. Must be made on a runtime whose clock is paused.
    ///
    /// # Panics
    /// The routes are no routes.
    #[must_use]
    #[allow(clippy::expect_used, reason = "a test's set-up")]
    pub fn new(setting: Setting, routes: &str, downstream: Scripted) -> Self {
        let env = TestEnv::new(setting.seed);
        let witness = Witness::new(setting.mutation, setting.lag.index_ms == 0);
        Self {
            store: Lagging::new(witness, env.clone(), setting.lag, setting.seed),
            queues: Queues::new(env.clone(), setting.loss),
            routes: Routes::parse(routes).expect("good routes"),
            downstream,
            fate: Arc::new(Fate::new(setting.plan.clone(), env.with_seed(setting.seed ^ 0xFA7E), setting.traced)),
            env,
            setting,
            jobs: Mutex::default(),
            jobs_changed: Notify::new(),
        }
    }

    /// The tables themselves.
    pub const fn tables(&self) -> &MemoryStore {
        self.store.inner().tables()
    }

    /// What it is like.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Puts messages into the intake queue, as one event for register-task.
    pub fn send(&self, bodies: &[String]) {
        self.later(0, Job::Event(records(bodies)));
    }

    /// Puts messages into the intake queue after a while.
    pub fn send_later(&self, delay_ms: u64, bodies: &[String]) {
        self.later(delay_ms, Job::Event(records(bodies)));
    }

    /// Registers messages at once, with nothing befalling anybody.
    pub async fn register(&self, bodies: &[String]) -> Report {
        let process = self.unharmed();
        self.register_as(&process, records(bodies)).await
    }

    /// Hands on one delivery with nothing befalling anybody; `Ok` says that its message is done.
    ///
    /// # Errors
    /// What the step said; the message stays.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<bool, Error> {
        self.deliver_as(&self.unharmed(), delivery).await
    }

    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// It cannot come to rest, or does not within half a day.
    pub async fn run_to_rest(&self) -> Result<(), String> {
        self.run_while(|| true).await
    }

    /// Runs until nothing is left to do or `go_on` says stop; whoever is at work then dies.
    ///
    /// # Errors
    /// As [`run_to_rest`](Self::run_to_rest).
    pub async fn run_while(&self, go_on: impl Fn() -> bool) -> Result<(), String> {
        let end = self.env.now().plus_ms(PATIENCE_MS);
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut background: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        if self.setting.sweeps && self.setting.mutation != Some(Mutation::NeverSweeps) {
            background.push(Box::pin(self.sweep_for_ever()));
        }
        for _ in 0..self.setting.workers.map_or(0, |(_, count)| count) {
            background.push(Box::pin(self.work_for_ever()));
        }
        while go_on() {
            while let Some(job) = self.next_job() {
                running.push(Box::pin(self.run(job)));
            }
            let (now, next) = (self.env.now(), self.next_job_at());
            if running.is_empty() {
                if next.is_none() && self.is_at_rest() {
                    return Ok(());
                }
                if next.is_none() && background.is_empty() {
                    return Err(self.stuck());
                }
            }
            if now > end || self.fate.count() > MOST_CALLS {
                return Err(self.stuck());
            }
            let wait_ms = next.map_or(LOOK_MS, |next| next.since(now).clamp(1, LOOK_MS));
            tokio::select! {
                biased;
                Some(()) = running.next(), if !running.is_empty() => {}
                Some(()) = background.next(), if !background.is_empty() => {}
                () = self.queues.changed() => {}
                () = self.jobs_changed.notified() => {}
                () = self.env.sleep(wait_ms) => {}
            }
        }
        Ok(())
    }

    /// Each key's calls.
    pub fn calls_by_key(&self) -> BTreeMap<String, Vec<Seen>> {
        let mut by_key: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
        for seen in self.downstream.ledger() {
            by_key.entry(seen.key.clone()).or_default().push(seen);
        }
        by_key
    }

    /// How many keys each item was sent under.
    pub fn keys_by_item(&self) -> HashMap<String, usize> {
        let mut keys = HashMap::new();
        for calls in self.calls_by_key().values() {
            for item in calls.iter().take(1).flat_map(|seen| &seen.items) {
                *keys.entry(item.clone()).or_default() += 1;
            }
        }
        keys
    }

    fn is_at_rest(&self) -> bool {
        self.tables().tasks().iter().all(|task| task.status.is_settled())
            && self.tables().batches().iter().all(|batch| batch.unfinished().is_none())
    }

    fn stuck(&self) -> String {
        let tasks = self.tables().tasks();
        let tasks = tasks.iter().filter(|task| !task.status.is_settled());
        let tasks: Vec<String> = tasks.map(|task| format!("{} is {:?}", task.id, task.status)).collect();
        let batches = self.tables().batches();
        let batches = batches.iter().filter(|batch| batch.unfinished().is_some());
        let batches: Vec<String> =
            batches.map(|batch| format!("{} is {:?}, due {}", batch.id, batch.status, batch.due.0)).collect();
        format!("no task is lost: nothing moves at {}: {tasks:?}, {batches:?}", self.env.now().0)
    }

    /// Starts a job later; it can be forgotten by the number until then.
    fn later(&self, delay_ms: u64, job: Job) -> u64 {
        let at = self.env.now().plus_ms(delay_ms);
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.made += 1;
        let number = jobs.made;
        jobs.waiting.push_back((at, number, job));
        self.jobs_changed.notify_one();
        number
    }

    /// Whether the job was still waiting.
    fn forget(&self, number: u64) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = jobs.waiting.len();
        jobs.waiting.retain(|(_, other, _)| *other != number);
        jobs.waiting.len() < before
    }

    fn next_job(&self) -> Option<Job> {
        let now = self.env.now();
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = jobs.waiting.iter().position(|(at, _, _)| *at <= now) {
            return jobs.waiting.remove(at).map(|(_, _, job)| job);
        }
        drop(jobs);
        let delivery = self.queues.receive(VISIBILITY_MS)?;
        if self.setting.twice > 0.0 && self.env.chance(self.setting.twice) {
            self.later(0, Job::Delivery(delivery.clone()));
        }
        Some(Job::Delivery(delivery))
    }

    fn next_job_at(&self) -> Option<Timestamp> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.waiting.iter().map(|(at, _, _)| *at).chain(self.queues.now().next_visible_at()).min()
    }

    /// A process that nothing befalls.
    fn unharmed(&self) -> Process {
        let fate = Arc::new(Fate::new(Plan::Nothing, self.env.clone(), false));
        Process::new("unharmed", self.env.clone(), fate, self.setting.latency_ms)
    }

    /// One process's life.
    async fn run(&self, job: Job) {
        let process = self.mortal(step(&job));
        let twin = || {
            self.later(0, job.clone());
        };
        match &job {
            Job::Event(records) => {
                // Hidden, and shown again unless it is deleted.
                let hidden = self.later(VISIBILITY_MS, job.clone());
                if self.setting.mutation == Some(Mutation::AcknowledgesFirst) {
                    self.forget(hidden);
                }
                if let Some(report) = process.run(self.register_as(&process, records.clone()), twin).await
                    && self.forget(hidden)
                {
                    let failed: Vec<Record> =
                        records.iter().filter(|record| failed(&report, record)).cloned().collect();
                    if !failed.is_empty() {
                        self.later(VISIBILITY_MS, Job::Event(failed));
                    }
                }
            }
            Job::Delivery(delivery) => {
                if self.setting.mutation == Some(Mutation::AcknowledgesFirst) {
                    self.queues.now().delete(&delivery.receipt);
                }
                if let Some(Ok(true)) = process.run(self.deliver_as(&process, delivery), twin).await {
                    self.queues.now().delete(&delivery.receipt);
                }
            }
        }
    }

    /// A process to which the plan applies, with a clock of its own.
    pub(crate) fn mortal(&self, step: &'static str) -> Process {
        let skew_ms = i64::try_from(self.setting.skew_ms).unwrap_or_default();
        let ahead_ms = i64::try_from(self.env.pick(0..=2 * self.setting.skew_ms)).unwrap_or_default() - skew_ms;
        Process::new(step, self.env.ahead_by(ahead_ms), Arc::clone(&self.fate), self.setting.latency_ms)
    }
}

const fn step(job: &Job) -> &'static str {
    match job {
        Job::Event(_) => "register-task",
        Job::Delivery(delivery) => match delivery.outgoing.to {
            Destination::Elect => "elect-leader",
            Destination::Group => "group-batch",
            Destination::Handle => "batch-handler",
            Destination::Rejected | Destination::Notification(_) => "nobody",
        },
    }
}

fn failed(report: &Report, record: &Record) -> bool {
    report.failed.iter().any(|(id, _)| *id == record.message_id)
}

/// Message ids follow from the content, so that a repeat is one.
fn records(bodies: &[String]) -> Vec<Record> {
    bodies.iter().enumerate().map(|(n, body)| Record { message_id: format!("m{n}"), body: body.clone() }).collect()
}
