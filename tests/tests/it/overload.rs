//! More tasks of one Target come than its partition of the index bears.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupage_aws::entry::mapping::TASKS;
use groupage_core::ports::{self, Result};
use groupage_core::steps::register::{Record, Report};
use groupage_lab::prelude::*;

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

around_tables! { Full, |it| &it.inner; Locks, Batches, Lanes, Trackers, Lists, Streams }

impl layer::Tasks for Full {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // Others are asked before it is answered.
        tokio::task::yield_now().await;
        let takes = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| room.checked_sub(1));
        match takes {
            Ok(_) => self.inner.register(task).await,
            Err(_) => Err(ports::Error::Throttled { what: "putting", why: "a test".to_owned() }),
        }
    }
}

/// Registers in a process that is new.
async fn register(store: &Full, queues: &MemoryQueues, records: Vec<Record>) -> Report {
    register_in(&Rations::default(), store, queues, records).await
}

async fn register_in(rations: &Rations, store: &Full, queues: &MemoryQueues, records: Vec<Record>) -> Report {
    let (routes, env) = (Routes::parse(ROUTES).unwrap(), TestEnv::new(1));
    let deadline = env.now().plus_ms(TASKS.budget_ms());
    let asked = &Asked::default();
    Register { store, queues, env: &env, routes: &routes, deadline, rations, asked }.run(records).await
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
    let (rations, routes, env) = (Rations::default(), Routes::parse(ROUTES).unwrap(), TestEnv::new(1));
    let asked = &Asked::default();
    let mut passes = Vec::new();
    while !record.is_empty() {
        let deadline = env.now().plus_ms(TASKS.budget_ms());
        let register =
            Register { store: &store, queues: &queues, env: &env, routes: &routes, deadline, rations: &rations, asked };
        let report = register.run(record).await;
        assert_eq!(report.failed.len(), 0);
        passes.push(report.registered);
        let message = back(&queues).pop().filter(|_| report.yielded > 0);
        env.sleep(message.as_ref().map_or(0, |message| message.delay_ms)).await;
        record = message.map(|message| records(&[message.body])).unwrap_or_default();
    }
    assert!(passes.len() <= 4 && passes.iter().sum::<usize>() == 30, "{passes:?}");
    let put: BTreeSet<String> = store.inner.tasks().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(put, (0..30).map(|n| format!("p{n}")).collect());
}

#[tokio::test(start_paused = true)]
async fn a_new_process_that_hears_of_refusals_tries_a_few_puts_first() {
    let (store, queues) = (Full::with_room(0), MemoryQueues::new());
    register(&store, &queues, records(&parcels(500, 1))).await;
    let came = back(&queues).pop().unwrap();
    let asked = store.asked.swap(0, Ordering::SeqCst);
    let report = register(&store, &queues, records(&[came.body])).await;
    assert_eq!((report.registered, report.yielded, report.failed.len()), (0, 500, 0));
    let again = store.asked.load(Ordering::SeqCst);
    assert!(2 * again <= asked, "{again} puts, and {asked} of the process that had heard of none");
}

#[tokio::test(start_paused = true)]
async fn a_process_remembers_a_refusal_from_event_to_event() {
    let (store, queues, rations) = (Full::with_room(0), MemoryQueues::new(), Rations::default());
    register_in(&rations, &store, &queues, records(&parcels(100, 1))).await;
    store.asked.store(0, Ordering::SeqCst);
    let more: Vec<String> = parcels(200, 1).split_off(100);
    let report = register_in(&rations, &store, &queues, records(&more)).await;
    assert_eq!((report.registered, report.yielded, store.asked.load(Ordering::SeqCst)), (0, 100, 0));
}
