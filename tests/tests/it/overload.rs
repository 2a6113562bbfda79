//! More tasks of one Target come than its partition of the index bears.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupage_aws::entry::mapping::TASKS;
use groupage_core::domain::rest::Stage;
use groupage_core::ports::{self, Result, layer};
use groupage_core::steps::register::{Rations, Record, Register, Report};
use groupage_tests::prelude::*;

const ROUTES: &str = parcels_route!["batch: { max_items: 10, wait_ms: 2000, express: false }"];

/// Tables that take this many waiting tasks more, and throttle all others.
struct Full {
    inner: MemoryStore,
    room: AtomicUsize,
    asked: AtomicUsize,
}

impl Full {
    fn with_room(room: usize) -> Self {
        Self { inner: MemoryStore::new(), room: room.into(), asked: 0.into() }
    }
}

impl layer::Layer for Full {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn around<T: Send>(&self, _: &'static str, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        work.await
    }
}

impl layer::Tasks for Full {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let takes = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| room.checked_sub(1));
        match takes {
            Ok(_) => self.inner.register(task).await,
            Err(_) => Err(ports::Error::Throttled { what: "putting", why: "a test".to_owned() }),
        }
    }
}

impl layer::Batches for Full {}
impl layer::Lanes for Full {}
impl layer::Trackers for Full {}
impl layer::Lists for Full {}
impl layer::Streams for Full {}

async fn register(store: &Full, queues: &MemoryQueues, records: Vec<Record>) -> Report {
    let (routes, env) = (Routes::parse(ROUTES).unwrap(), TestEnv::new(1));
    let deadline = env.now().plus_ms(TASKS.budget_ms());
    Register { store, queues, env: &env, routes: &routes, deadline, rations: &Rations::default() }.run(records).await
}

/// The messages that wait on the task queue.
fn back(queues: &MemoryQueues) -> Vec<Outgoing> {
    queues.messages(&Destination::Tasks)
}

#[tokio::test(start_paused = true)]
async fn what_the_index_bears_no_more_waits_on_the_queue_and_counts_no_failure() {
    let (store, queues) = (Full::with_room(40), MemoryQueues::new());
    let report = register(&store, &queues, records(&parcels(500, 1))).await;
    assert_eq!((report.registered, report.yielded, report.failed.len()), (40, 460, 0));
    assert_eq!(report.overloads.len(), 1, "said once");
    let asked = store.asked.load(Ordering::SeqCst);
    assert!(asked < 40 + 64, "{asked} puts: those under way at the first throttle, and no more");
    let [message] = &back(&queues)[..] else { panic!("one message for all of them") };
    let rest = Rest::parse(&message.body).unwrap();
    assert_eq!((rest.stage(), rest.tasks().count()), (Stage::Yielded(1), 460));
    assert!((2_000..=4_000).contains(&message.delay_ms), "{message:?}");
}

#[tokio::test(start_paused = true)]
async fn who_yielded_is_put_when_there_is_room_and_waits_longer_while_there_is_none() {
    let (store, queues) = (Full::with_room(0), MemoryQueues::new());
    let mut record = records(&parcels(30, 1));
    let mut delays = Vec::new();
    for times in 1..=4 {
        let report = register(&store, &queues, record).await;
        assert_eq!((report.registered, report.yielded, report.failed.len()), (0, 30, 0));
        let message = back(&queues).pop().unwrap();
        assert_eq!(Rest::parse(&message.body).unwrap().stage(), Stage::Yielded(times));
        delays.push(message.delay_ms);
        record = records(&[message.body]);
    }
    assert!(delays.is_sorted(), "{delays:?}");
    store.room.store(30, Ordering::SeqCst);
    let mut registered = 0;
    // A process that hears how often they yielded begins slowly.
    for _ in 0..30 {
        let report = register(&store, &queues, record).await;
        assert_eq!(report.failed.len(), 0);
        registered += report.registered;
        record = back(&queues).pop().map(|message| records(&[message.body])).unwrap_or_default();
        if record.is_empty() {
            break;
        }
    }
    assert_eq!(registered, 30);
    let put: BTreeSet<String> = store.inner.tasks().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(put, (0..30).map(|n| format!("p{n}")).collect());
}
