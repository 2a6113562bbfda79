//! The whole pipeline on one clock: steps, a store, queues in memory and a scripted downstream, one message at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::faulty::{Faulty, Plan};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shared::domain::message::{Elect, Group, Handle};
use shared::domain::session::Timing;
use shared::domain::time::Timestamp;
use shared::memory::{Delivery, MemoryQueues};
use shared::ports::{Answer, Call, Destination, Downstream, Env, NoAnswer, Store};
use shared::routes::Routes;
use shared::steps::elect::ElectLeader;
use shared::steps::group::GroupBatch;
use shared::steps::handle::{self, HandleBatch};
use shared::steps::register::{Record, Register, Report};

/// A clock that stands until it is turned, and numbers that follow from a seed.
#[derive(Clone, Debug)]
pub struct TestEnv {
    now: Arc<AtomicU64>,
    random: Arc<Mutex<StdRng>>,
}

impl TestEnv {
    /// A clock that begins at one million seconds.
    pub fn new(seed: u64) -> Self {
        let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        Self { now: Arc::new(AtomicU64::new(1_000_000_000)), random }
    }

    /// Turns the clock forward to `moment`; it never goes back.
    pub fn turn_to(&self, moment: Timestamp) {
        self.now.fetch_max(moment.0, Ordering::SeqCst);
    }
}

impl Env for TestEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn random(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    fn fresh_id(&self) -> String {
        format!("{:032x}", self.random.lock().unwrap_or_else(PoisonError::into_inner).random::<u128>())
    }

    async fn sleep(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }
}

/// One call as the downstream saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `Idempotency-Key`.
    pub key: String,
    /// The body's `target`.
    pub target: String,
    /// The items' ids.
    pub items: Vec<String>,
}

/// Answers a call, given what was seen of it and how many calls came before with its key.
pub type Script = Box<dyn Fn(&Seen, usize) -> Result<Answer, NoAnswer> + Send + Sync>;

/// A downstream that keeps a ledger and answers by a script.
pub struct Scripted {
    script: Script,
    ledger: Mutex<Vec<Seen>>,
}

impl Scripted {
    /// Accepts everything.
    pub fn accepting() -> Self {
        Self::new(Box::new(|_, _| Ok(ok(""))))
    }

    /// Answers by `script`.
    pub const fn new(script: Script) -> Self {
        Self { script, ledger: Mutex::new(Vec::new()) }
    }

    /// Every call, in order.
    pub fn ledger(&self) -> Vec<Seen> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A good answer with this body.
pub fn ok(body: &str) -> Answer {
    Answer { status: 200, retry_after_ms: None, body: body.as_bytes().to_vec() }
}

impl Downstream for Scripted {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let body: serde_json::Value = serde_json::from_str(&call.body).map_err(|_| NoAnswer::Connection)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let items = body["items"].as_array().into_iter().flatten().map(|item| text(&item["id"])).collect();
        let seen = Seen { key: call.batch.to_string(), target: text(&body["target"]), items };
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let before = ledger.iter().filter(|earlier| earlier.key == seen.key).count();
        let answer = (self.script)(&seen, before);
        ledger.push(seen);
        answer
    }
}

/// Everything together.
pub struct World<S> {
    /// The tables.
    pub store: S,
    /// The queues as the steps see them.
    pub queues: Faulty<MemoryQueues>,
    /// The clock.
    pub env: TestEnv,
    /// The routes.
    pub routes: Routes,
    /// Where calls go.
    pub downstream: Scripted,
}

/// How long a message in hand is hidden, in milliseconds.
pub const VISIBILITY_MS: u64 = 60_000;

impl<S: Store> World<S> {
    /// An empty world.
    pub fn new(store: S, env: TestEnv, routes: Routes, downstream: Scripted, faults: Plan) -> Self {
        let queues = MemoryQueues::new();
        queues.set_now(env.now());
        Self { store, queues: Faulty::new(queues, faults), env, routes, downstream }
    }

    /// Registers messages as one invocation of register-task would; message ids follow from the position.
    pub async fn register(&self, bodies: &[String]) -> Report {
        let records = bodies
            .iter()
            .enumerate()
            .map(|(n, body)| Record { message_id: format!("m{n}"), body: body.clone() })
            .collect();
        let step = Register { store: &self.store, outbox: &self.queues, env: &self.env, routes: &self.routes };
        step.run(records).await
    }

    /// Hands on one delivery; `Ok` says that its message is done.
    ///
    /// # Errors
    /// What the step said; the message stays.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<bool, shared::steps::Error> {
        let Self { store, queues, env, routes, downstream } = self;
        let body = &delivery.outgoing.body;
        let bad = |error: serde_json::Error| shared::steps::Error::BadMessage(error.to_string());
        match delivery.outgoing.to {
            Destination::Elect => {
                let message: Elect = serde_json::from_str(body).map_err(bad)?;
                let step = ElectLeader { store, outbox: queues, env, routes };
                step.run(message, delivery.received > 1).await.map(|_| true)
            }
            Destination::Group => {
                let message: Group = serde_json::from_str(body).map_err(bad)?;
                let deadline = env.now().plus_ms(30_000);
                let step = GroupBatch { store, outbox: queues, env, routes, deadline };
                step.run(message).await.map(|_| true)
            }
            Destination::Handle => {
                let message: Handle = serde_json::from_str(body).map_err(bad)?;
                let timing = Timing::default();
                let step = HandleBatch { store, queue: queues, downstream, env, routes, timing, worker: "test" };
                let outcome = step.run(message, &delivery.receipt).await?;
                Ok(!matches!(outcome, handle::Outcome::CallAgain { .. } | handle::Outcome::ClaimLost))
            }
            Destination::Rejected | Destination::Notification(_) => Ok(true),
        }
    }

    /// Hands on messages until no step's queue holds any. Fails after `most` deliveries, with what is left.
    ///
    /// # Errors
    /// The system did not come to rest.
    pub async fn run_to_rest(&self, most: usize) -> Result<(), String> {
        for _ in 0..most {
            self.queues.inner.set_now(self.env.now());
            let Some(delivery) = self.queues.inner.receive(VISIBILITY_MS) else {
                match self.queues.inner.next_visible_at() {
                    None => return Ok(()),
                    Some(moment) => self.env.turn_to(moment),
                }
                continue;
            };
            if self.deliver(&delivery).await.is_ok_and(|done| done) {
                self.queues.inner.delete(&delivery.receipt);
            }
        }
        Err(format!("not at rest after {most} deliveries; next: {:?}", self.queues.inner.receive(0)))
    }

    /// In how many batches, by key, each item was seen; and each key's distinct sets of members.
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
}
