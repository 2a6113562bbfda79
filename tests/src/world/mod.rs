//! The whole pipeline in virtual time: every step as a process of its own, many at once, over tables and queues in
//! memory and a scripted downstream.

pub mod fan_out;
mod jobs;
pub mod shelf;
pub mod source;
mod steps;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use groupage_core::domain::id::{LaneId, RouteName, TaskId, TrackerId};
use groupage_core::domain::lane::{self, Lane};
use groupage_core::domain::stream::{self, Stream};
use groupage_core::domain::task::Status;
use groupage_core::domain::tracker::{State, Tracker};
use groupage_core::memory::{Delivery, MemoryStore};
use groupage_core::ports::Env;
use groupage_core::routes::Routes;
use groupage_core::steps::Error;
use groupage_core::steps::register::{Record, Report};
use tokio::sync::Notify;

use crate::clock::TestEnv;
use crate::downstream::{Scripted, Seen};
use crate::lag::Lagging;
use crate::mutation::Mutation;
use crate::process::{Fate, Plan, Process};
use crate::queues::Queues;
use crate::records::records;
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
    /// The routes.
    pub routes: Routes,
    /// The routes as processes go by them that register tasks.
    pub(crate) registrars_routes: Routes,
    /// The routes as leaders know them.
    pub(crate) leaders_routes: Routes,
    /// Where calls go.
    pub downstream: Scripted,
    /// What befell whom.
    pub fate: Arc<Fate>,
    pub(crate) setting: Setting,
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

/// How long a message in hand is hidden, in milliseconds.
pub const VISIBILITY_MS: u64 = 60_000;
/// How often somebody looks whether everything is at rest, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// A person cancels a task within this many milliseconds.
const CANCEL_MS: u64 = 5_000;
/// A person runs a failed task again within this many milliseconds.
const RETRY_MS: u64 = 90_000;
/// How often a person looks for lanes that a failure stopped, in milliseconds.
const PERSON_MS: u64 = 600_000;

impl World {
    /// An empty world. Must be made on a runtime whose clock is paused.
    ///
    /// # Panics
    /// The routes are no routes.
    pub fn new(setting: Setting, routes: &str, downstream: Scripted) -> Self {
        let env = TestEnv::new(setting.seed);
        let [routes, registrars_routes, leaders_routes] = in_force(routes, &setting);
        let witness = Witness::new(setting.mutation, setting.lag.index_ms == 0, &routes);
        Self {
            store: Lagging::new(witness, env.clone(), setting.lag, setting.seed),
            queues: Queues::new(env.clone(), setting.loss, setting.newer),
            routes,
            registrars_routes,
            leaders_routes,
            downstream,
            fate: Arc::new(
                Fate::new(setting.plan.clone(), env.with_seed(setting.seed ^ 0xFA7E), setting.traced)
                    .with(setting.lasting.clone()),
            ),
            env,
            setting,
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
        }
    }

    /// Puts other routes in force for all that is done from now on.
    ///
    /// # Panics
    /// The routes are no routes.
    pub fn push(&mut self, routes: &str) {
        [self.routes, self.registrars_routes, self.leaders_routes] = in_force(routes, &self.setting);
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

    /// Has a person hold a route's calls back after a while, for forty seconds.
    pub fn hold_later(&self, delay_ms: u64, route: &str) {
        self.later(delay_ms, Job::Hold(RouteName::new(route)));
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

    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// It cannot come to rest, or does not within its setting's patience.
    pub async fn run_to_rest(&self) -> Result<(), String> {
        self.run_while(|| true).await
    }

    /// Runs until nothing is left to do or `go_on` says stop; the process at work then dies.
    pub async fn run_while(&self, go_on: impl Fn() -> bool) -> Result<(), String> {
        let end = self.env.now().plus_ms(self.setting.patience_ms);
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut background: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        if self.setting.sweeps && self.setting.mutation != Some(Mutation::NeverSweeps) {
            background.push(Box::pin(self.sweep_for_ever()));
        }
        for _ in 0..self.setting.workers.map_or(0, |(_, count)| count) {
            background.push(Box::pin(self.work_for_ever()));
        }
        let mut looks_at = self.env.now().plus_ms(PERSON_MS);
        while go_on() {
            while let Some(job) = self.next_job() {
                running.push(Box::pin(self.run(job)));
            }
            let (now, next) = (self.env.now(), self.next_job_at());
            // A source whose window is full is never idle, so people look after lanes now and then, too.
            if now >= looks_at {
                looks_at = now.plus_ms(PERSON_MS);
                self.somebody_lets_lanes_go_on();
            }
            if self.somebody_retries() | self.somebody_cancels() {
                continue;
            }
            if running.is_empty() {
                if next.is_none() && self.is_at_rest() {
                    return Ok(());
                }
                if next.is_none() && self.somebody_lets_lanes_go_on() {
                    continue;
                }
                if next.is_none() && background.is_empty() {
                    return Err(self.stuck());
                }
            }
            if now > end || self.fate.count() > self.setting.most_calls {
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

    /// When nothing else is under way, a person looks after the lanes that a failure stopped with tasks behind it.
    fn somebody_lets_lanes_go_on(&self) -> bool {
        let stopped = |(lane, waiting): &(Lane, usize)| {
            *waiting > 0 && lane.is_stopped() && !matches!(lane.state, lane::State::Failing(_))
        };
        let stopped: Vec<LaneId> = self.tables().lanes().into_iter().filter(stopped).map(|(lane, _)| lane.id).collect();
        for lane in &stopped {
            self.later(VISIBILITY_MS, Job::Resume(lane.clone()));
        }
        !stopped.is_empty()
    }

    /// A person runs what has failed again, soon after: other copies of what settled it may be under way.
    fn somebody_retries(&self) -> bool {
        if self.setting.retries == 0 {
            return false;
        }
        let mut wanted = self.wanted_again.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for task in self.tables().tasks().into_iter().filter(|task| matches!(task.status, Status::Failed { .. })) {
            let times = wanted.entry(task.id.clone()).or_default();
            // Once for each of its failures.
            if *times < self.setting.retries && *times <= self.store.inner().retries(&task.id) {
                *times += 1;
                any = true;
                self.later(self.env.pick(0..=RETRY_MS), Job::Retry(task.id));
            }
        }
        any
    }

    /// A person cancels some of what waits, or is in a batch, once each.
    fn somebody_cancels(&self) -> bool {
        if self.setting.cancels == 0.0 {
            return false;
        }
        let mut looked_at = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for task in self.tables().tasks().into_iter().filter(|task| !task.status.is_settled()) {
            if looked_at.insert(task.id.clone()) && self.env.chance(self.setting.cancels) {
                any = true;
                self.later(self.env.pick(0..=CANCEL_MS), Job::Cancel(task.id));
            }
        }
        any
    }

    /// Cancels tasks after a while, each by a person of its own.
    pub fn cancel_later(&self, delay_ms: u64, ids: &[&str]) {
        for id in ids {
            self.later(delay_ms, Job::Cancel(TaskId::new(*id)));
        }
    }

    /// Cancels a tracker's tasks after a while.
    pub fn cancel_tracker_later(&self, delay_ms: u64, tracker: &TrackerId) {
        self.later(delay_ms, Job::CancelOf(tracker.clone()));
    }

    /// Has tasks erased after a while, each by a person of its own.
    pub fn erase_later(&self, delay_ms: u64, ids: &[&str]) {
        for id in ids {
            self.to_erase.lock().unwrap_or_else(PoisonError::into_inner).insert(TaskId::new(*id));
            self.later(delay_ms, Job::Erase(TaskId::new(*id)));
        }
    }

    /// Tasks that are to be erased.
    pub fn to_erase(&self) -> BTreeSet<TaskId> {
        self.to_erase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_at_rest(&self) -> bool {
        self.tables().tasks().iter().all(|task| task.status.is_settled())
            && self.tables().untold().is_empty()
            && self.tables().batches().iter().all(|batch| batch.unfinished().is_none())
            && self.tables().trackers().iter().all(is_told_of)
            && self.tables().lists().iter().all(|list| list.head.reservations.is_empty())
            && self.tables().streams().iter().all(is_complete)
    }

    fn stuck(&self) -> String {
        let tasks = self.tables().tasks();
        let tasks = tasks.iter().filter(|task| !task.status.is_settled());
        let tasks: Vec<String> = tasks.map(|task| format!("{} is {:?}", task.id, task.status)).collect();
        let batches = self.tables().batches();
        let batches = batches.iter().filter(|batch| batch.unfinished().is_some());
        let batches: Vec<String> =
            batches.map(|batch| format!("{} is {:?}, due {}", batch.id, batch.status, batch.due.0)).collect();
        let trackers: Vec<_> = self.tables().trackers().into_iter().filter(|tracker| !is_told_of(tracker)).collect();
        let heads: Vec<_> = self.tables().lists().into_iter().map(|list| list.head).collect();
        let heads: Vec<_> = heads.into_iter().filter(|head| !head.reservations.is_empty()).collect();
        let now = self.env.now().0;
        format!("no task is lost: nothing moves at {now}: {tasks:?}, {batches:?}, {trackers:?}, {heads:?}")
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

/// Routes as all know them, as processes do that register tasks, and as leaders do.
#[allow(clippy::expect_used, reason = "a test's set-up")]
fn in_force(routes: &str, setting: &Setting) -> [Routes; 3] {
    let spread = routes.replace("shards: auto", &format!("shards: {}", setting.spread));
    let known = [routes.to_owned(), spread, as_leaders_know_them(routes, setting.mutation)];
    known.map(|routes| Routes::parse(&routes).expect("good routes"))
}

/// The routes file as leaders know it: not as it is, if they overlook shards.
fn as_leaders_know_them(routes: &str, mutation: Option<Mutation>) -> String {
    let is_known =
        |line: &&str| mutation != Some(Mutation::OverlooksShards) || !line.trim_start().starts_with("shards:");
    routes.lines().filter(is_known).fold(String::new(), |all, line| all + line + "\n")
}

/// Whether all of a stream is settled, and that is told.
fn is_complete(stream: &Stream) -> bool {
    stream.state == stream::State::Completed && stream.is_told
}

/// Whether a tracker has ended, and its notice is sent.
fn is_told_of(tracker: &Tracker) -> bool {
    matches!(&tracker.state, State::Ended(end) if end.told)
}
