//! Tables, queues and a clock in memory, and single steps over them: for tests that need no whole world.

use groupage_aws::entry::mapping::TASKS;
use groupage_core::domain::tracker::Options;
use groupage_core::steps::register::Report;

use crate::prelude::*;

/// Everything that a step needs.
#[derive(Debug)]
pub struct Memory {
    /// The tables.
    pub store: MemoryStore,
    /// The queues.
    pub queues: MemoryQueues,
    /// The clock.
    pub env: TestEnv,
}

impl Memory {
    /// Empty tables and queues; chance follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self { store: MemoryStore::new(), queues: MemoryQueues::new(), env: TestEnv::new(seed) }
    }

    /// Calls about trackers.
    pub const fn tracking(&self) -> Tracking<'_, MemoryStore, MemoryQueues, TestEnv> {
        Tracking { store: &self.store, outbox: &self.queues, env: &self.env }
    }

    /// Calls about lists.
    pub const fn listing(&self) -> Listing<'_, MemoryStore, MemoryQueues, TestEnv> {
        Listing { store: &self.store, outbox: &self.queues, env: &self.env }
    }

    /// Registers messages.
    ///
    /// # Panics
    /// The routes are no routes.
    #[allow(clippy::expect_used, reason = "a test's set-up")]
    pub async fn register(&self, routes: &str, bodies: &[String]) -> Report {
        let (store, queues, env) = (&self.store, &self.queues, &self.env);
        let routes = &Routes::parse(routes).expect("good routes");
        let deadline = env.now().plus_ms(TASKS.budget_ms());
        Register { store, queues, env, routes, deadline, rations: &Rations::default(), asked: &Asked::default() }
            .run(records(bodies))
            .await
    }

    /// What was sent to a queue.
    pub fn bodies(&self, to: &Destination) -> Vec<String> {
        self.queues.messages(to).into_iter().map(|message| message.body).collect()
    }
}

/// Opens a tracker of this many items, of whose end nobody is told.
///
/// # Panics
/// There is such a tracker.
#[allow(clippy::expect_used, reason = "a test's set-up")]
pub async fn track(tracking: Tracking<'_, impl Trackers, impl Outbox, impl Env>, id: &str, items: u64) -> TrackerId {
    let id = TrackerId::new(id);
    let options = Options { deadline: None, notify: NotificationQueue::None };
    let opened = tracking.open(id.clone(), options).await.expect("an answer");
    assert!(opened.is_ok(), "{opened:?}");
    let added = tracking.add(&id, "k", items).await.expect("an answer");
    assert!(added.is_ok(), "{added:?}");
    id
}

/// Makes a wrapper a layer around the tables in memory, and hands these ports on as they are.
#[macro_export]
macro_rules! around_tables {
    ($wrapper:ty, |$it:ident| $tables:expr; $($port:ident),+) => {
        impl layer::Layer for $wrapper {
            type Inner = MemoryStore;

            fn inner(&self) -> &MemoryStore {
                let $it = self;
                $tables
            }
        }
        groupage_core::hand_on!($wrapper: $($port),+);
    };
}
