//! The whole pipeline in virtual time: every step as a process of its own, many at once, over tables and queues in
//! memory and a scripted downstream.

mod expiry;
pub mod fan_out;
mod jobs;
mod people;
mod rest;
pub mod shelf;
pub mod source;
mod steps;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use groupage_core::steps::Error;
use groupage_core::steps::register::{Record, Report};
use tokio::sync::Notify;

use crate::downstream::Seen;
use crate::prelude::*;
use crate::queues::Queues;
use crate::witness::Witness;

pub use crate::setting::Setting;

use fan_out::FanOut;
use jobs::{Job, Jobs};
use shelf::{Caller, Told};
use source::Source;

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
    /// The routes in the beginning.
    pub routes: Routes,
    /// The routes files that were in force until now, the present one last.
    pushed: Mutex<Vec<Version>>,
    /// Where calls go.
    pub downstream: Scripted,
    /// What befell whom.
    pub fate: Arc<Fate>,
    pub(crate) setting: Setting,
    /// For which Targets the processes that register tasks have asked for a leader.
    pub(crate) asked: Asked,
    pub(crate) jobs: Mutex<Jobs>,
    pub(crate) jobs_changed: Notify,
    pub(crate) fan_outs: Mutex<Vec<Arc<FanOut>>>,
    pub(crate) callers: Mutex<Vec<Arc<Caller>>>,
    /// What they were told.
    pub(crate) told: Mutex<Told>,
    /// Every message that was put into the task queue.
    sent: Mutex<Vec<String>>,
    complaints: Mutex<Vec<String>>,
    /// How often somebody wanted to run each failed task again.
    wanted_again: Mutex<BTreeMap<TaskId, usize>>,
    /// Tasks of which somebody has considered whether to cancel them.
    cancelled: Mutex<BTreeSet<TaskId>>,
    /// Tasks that are to be erased.
    to_erase: Mutex<BTreeSet<TaskId>>,
}

/// A routes file in force, as all know it, and as leaders do.
type Known = [Routes; 2];

/// The same, since when.
pub(crate) type Version = (Timestamp, Arc<Known>);

/// How long a message in hand is hidden, in milliseconds.
pub const VISIBILITY_MS: u64 = 60_000;
impl World {
    /// An empty world. Must be made on a runtime whose clock is paused.
    ///
    /// # Panics
    /// The routes are no routes.
    pub fn new(setting: Setting, routes: &str, downstream: Scripted) -> Self {
        let env = TestEnv::new(setting.seed);
        let known = in_force(routes, &setting);
        let routes = known[0].clone();
        let versions: Vec<Known> = setting.pushes.iter().map(|(_, routes)| in_force(routes, &setting)).collect();
        let all: Vec<&Routes> = [&routes].into_iter().chain(versions.iter().map(|[routes, ..]| routes)).collect();
        let mut witness = Witness::new(setting.mutation, setting.lag.index_ms == 0, &all);
        if let Some(expires) = setting.expires {
            witness.tables = MemoryStore::keeping(expires.keeps);
        }
        let world = Self {
            store: Lagging::new(witness, env.clone(), setting.lag, setting.seed),
            queues: Queues::new(env.clone(), setting.loss, setting.newer),
            pushed: Mutex::new(vec![(env.now(), Arc::new(known))]),
            routes,
            downstream,
            fate: Arc::new(
                Fate::new(setting.plan.clone(), env.with_seed(setting.seed ^ 0xFA7E), setting.traced)
                    .with(setting.lasting.clone()),
            ),
            env,
            setting,
            asked: Asked::default(),
            jobs: Mutex::default(),
            jobs_changed: Notify::new(),
            fan_outs: Mutex::default(),
            callers: Mutex::default(),
            told: Mutex::default(),
            sent: Mutex::default(),
            complaints: Mutex::default(),
            wanted_again: Mutex::default(),
            cancelled: Mutex::default(),
            to_erase: Mutex::default(),
        };
        for (at, routes) in &world.setting.pushes {
            world.later(*at, Job::Push(routes.clone()));
        }
        world
    }

    /// Puts other routes in force for all that is done from now on.
    ///
    /// # Panics
    /// The routes are no routes.
    pub fn push(&mut self, routes: &str) {
        let known = in_force(routes, &self.setting);
        self.routes = known[0].clone();
        self.pushed = Mutex::new(vec![(self.env.now(), Arc::new(known))]);
    }

    /// Puts other routes in force while processes are at work. What no route wanted before is sent again, once all of
    /// them know.
    pub(crate) fn push_now(&self, routes: &str) {
        let known = Arc::new(in_force(routes, &self.setting));
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner).push((self.env.now(), known));
        self.later(self.setting.push_lag_ms, Job::Redrive);
    }

    /// Sends anew what was rejected, unless its task is settled. Others may be tasks already: a record that was
    /// rejected when it came again may be the only message of its task.
    pub(crate) fn redrive(&self) {
        let settled: Vec<_> = self.tables().tasks().into_iter().filter(|task| task.status.is_settled()).collect();
        let is_open = |body: &String| settled.iter().all(|task| !body.contains(&format!(r#""{}""#, task.id)));
        let rejected = self.queues.now().messages(&Destination::Rejected).into_iter().map(|message| message.body);
        let again: Vec<String> = rejected.filter(is_open).collect();
        if !again.is_empty() {
            self.later(0, Job::Event(records(&again)));
        }
    }

    /// The routes files that were in force until now, the present one last.
    pub(crate) fn versions(&self) -> Vec<Version> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The routes by which a process goes that begins now: for a while after a push perhaps the former ones.
    pub(crate) fn known(&self) -> Arc<Known> {
        let versions = self.versions();
        let is_former = |(since, _): &&Version| self.env.now().since(*since) < self.setting.push_lag_ms;
        let recent = versions.iter().skip(1).rev().take_while(is_former).count();
        let late = if recent > 0 { usize::try_from(self.env.pick(0..=recent as u64)).unwrap_or_default() } else { 0 };
        Arc::clone(&versions[versions.len() - 1 - late].1)
    }

    /// The tables themselves.
    pub const fn tables(&self) -> &MemoryStore {
        self.store.inner().tables()
    }

    /// What it is like.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Puts messages into the task queue, as one event for register-task.
    pub fn send(&self, bodies: &[String]) {
        self.send_later(0, bodies);
    }

    /// Puts messages into the task queue after a while.
    pub fn send_later(&self, delay_ms: u64, bodies: &[String]) {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).extend(bodies.iter().cloned());
        self.later(delay_ms, Job::Event(records(bodies)));
    }

    /// Every message that was put into the task queue.
    pub fn sent_bodies(&self) -> Vec<String> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a stream's source.
    pub fn feed(&self, source: Source) {
        self.later(0, Job::Feed(Arc::new(source)));
    }

    /// Starts a fan-out's owner after a while.
    pub fn fan_out_later(&self, delay_ms: u64, fan_out: FanOut) {
        let fan_out = Arc::new(fan_out);
        self.fan_outs.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&fan_out));
        self.later(delay_ms, Job::Own(fan_out));
    }

    /// All fan-outs whose owners were started.
    pub fn fan_outs(&self) -> Vec<Arc<FanOut>> {
        self.fan_outs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts somebody who makes calls to a list.
    pub fn call_list(&self, caller: Caller) {
        let caller = Arc::new(caller);
        self.callers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&caller));
        self.later(0, Job::List(caller));
    }

    /// All who make calls to lists.
    pub fn callers(&self) -> Vec<Arc<Caller>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that somebody outside was told what must not be.
    pub(crate) fn complain(&self, what: String) {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// What was complained of.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers messages at once, with nothing befalling anybody.
    pub async fn register(&self, bodies: &[String]) -> Report {
        self.register_records(records(bodies)).await
    }

    /// Registers these records at once, with nothing befalling anybody.
    pub async fn register_records(&self, records: Vec<Record>) -> Report {
        self.register_as(&self.unharmed(), records).await
    }

    /// Registers messages at once, in a process that goes by this plan.
    pub async fn register_by(&self, plan: Plan, bodies: &[String]) -> Report {
        self.register_watched(plan, bodies).await.0
    }

    /// The same, with the names of the calls that it made.
    pub async fn register_watched(&self, plan: Plan, bodies: &[String]) -> (Report, Vec<&'static str>) {
        let process = self.going_by(plan);
        let report = self.register_as(&process, records(bodies)).await;
        (report, process.calls())
    }

    /// Registers messages at once, with nothing befalling anybody, under routes that were in force before the world's.
    ///
    /// # Panics
    /// The routes are no routes.
    #[allow(clippy::expect_used, reason = "a test's set-up")]
    pub async fn register_before(&self, routes: &str, bodies: &[String]) -> Report {
        let routes = Routes::parse(routes).expect("good routes");
        self.register_under(&routes, &self.unharmed(), records(bodies)).await
    }

    /// Hands on one delivery with nothing befalling anybody; `Ok` says that its message is done.
    ///
    /// # Errors
    /// What the step said; the message stays.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<bool, Error> {
        self.deliver_as(&self.unharmed(), delivery).await
    }

    /// Hands on one delivery to a process that goes by this plan.
    ///
    /// # Errors
    /// What the step said; the message stays.
    pub async fn deliver_by(&self, plan: Plan, delivery: &Delivery) -> Result<bool, Error> {
        self.deliver_as(&self.going_by(plan), delivery).await
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

    /// A process that nothing befalls.
    fn unharmed(&self) -> Process {
        self.going_by(Plan::Nothing)
    }

    /// A process of its own, and its plan.
    fn going_by(&self, plan: Plan) -> Process {
        let fate = Arc::new(Fate::new(plan, self.env.clone(), false));
        Process::new("beside", self.env.clone(), fate, self.setting.latency_ms)
    }

    /// A process to which the plan applies, with a clock of its own.
    pub(crate) fn mortal(&self, step: &'static str) -> Process {
        let skew_ms = i64::try_from(self.setting.skew_ms).unwrap_or_default();
        let ahead_ms = i64::try_from(self.env.pick(0..=2 * self.setting.skew_ms)).unwrap_or_default() - skew_ms;
        Process::new(step, self.env.ahead_by(ahead_ms), Arc::clone(&self.fate), self.setting.latency_ms)
    }
}

/// Routes as all know them, and as leaders do.
#[allow(clippy::expect_used, reason = "a test's set-up")]
fn in_force(routes: &str, setting: &Setting) -> Known {
    [routes.to_owned(), as_leaders_know_them(routes, setting.mutation)]
        .map(|routes| Routes::parse(&routes).expect("good routes"))
}

/// The routes file as leaders know it: not as it is, if they overlook shards.
fn as_leaders_know_them(routes: &str, mutation: Option<Mutation>) -> String {
    let is_known =
        |line: &&str| mutation != Some(Mutation::OverlooksShards) || !line.trim_start().starts_with("shards:");
    routes.lines().filter(is_known).fold(String::new(), |all, line| all + line + "\n")
}
