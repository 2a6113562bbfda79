//! Calls of the tracking steps, each a process of its own that may be stopped at every call to a port.

use std::collections::BTreeSet;
use std::sync::Arc;

use groupage_core::domain::notice::NotificationQueue;
use groupage_core::memory::MemoryQueues;
use groupage_core::ports::Destination;
use groupage_core::steps::track::Tracking;

use crate::clock::TestEnv;
use crate::faulty::Faulty;
use crate::process::{Fate, Plan, Process};
use crate::tracked::Tracked;

/// The tracking steps as a process has them.
pub type Steps<'a> = Tracking<'a, Faulty<'a, Tracked>, Faulty<'a, MemoryQueues>, TestEnv>;

/// Trackers and the queue of their notices.
#[derive(Debug)]
pub struct Tally {
    /// The trackers.
    pub trackers: Tracked,
    /// The clock and the dice.
    pub env: TestEnv,
    queues: MemoryQueues,
    latency_ms: u64,
}

/// What became of a call.
#[derive(Debug)]
pub struct Called<T> {
    /// Its answer; `None` if the process died.
    pub answer: Option<T>,
    /// Whether anything befell it.
    pub faulted: bool,
    /// The calls to ports that it made.
    pub calls: usize,
}

impl Tally {
    /// No trackers yet. A call to a port takes up to `latency_ms`; `stale` is the chance that an eventual read is old.
    pub fn new(env: &TestEnv, latency_ms: u64, stale: f64) -> Self {
        let trackers = Tracked::new(env.with_seed(env.pick(0..=u64::MAX)), stale);
        Self { trackers, env: env.clone(), queues: MemoryQueues::new(), latency_ms }
    }

    /// Runs a step as a process to which happens what the plan says.
    pub async fn call<T>(&self, plan: Plan, work: impl AsyncFnOnce(Steps<'_>) -> T) -> Called<T> {
        let fate = Arc::new(Fate::new(plan, self.env.clone(), false));
        let process = Process::new("track", self.env.clone(), Arc::clone(&fate), self.latency_ms);
        let (store, outbox) = (Faulty::new(&self.trackers, &process), Faulty::new(&self.queues, &process));
        let steps = Tracking { store: &store, outbox: &outbox, env: process.env() };
        let answer = process.run(work(steps), || {}).await;
        Called { answer, faulted: !fate.faults().is_empty(), calls: fate.count() }
    }

    /// How many notices were sent, and each different one of them.
    pub fn notices(&self) -> (usize, BTreeSet<String>) {
        let sent = self.queues.messages(&Destination::Notification(NotificationQueue::Default));
        (sent.len(), sent.into_iter().map(|notice| notice.body).collect())
    }
}
