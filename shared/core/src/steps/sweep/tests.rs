use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use super::*;
use crate::domain::Target;
use crate::domain::id::RouteName;
use crate::domain::task::{Status, Task};
use crate::memory::{MemoryQueues, MemoryStore};
use crate::ports::{self, Batches, Sessions, Tasks, layer};
use crate::steps::still::Turned;

/// Counts the calls, by what they do.
#[derive(Default)]
struct Counted(MemoryStore, Mutex<BTreeMap<&'static str, usize>>);

impl layer::Layer for Counted {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn around<T>(
        &self,
        call: &'static str,
        work: impl Future<Output = ports::Result<T>> + Send,
    ) -> ports::Result<T> {
        *self.1.lock().unwrap().entry(call).or_default() += 1;
        work.await
    }
}

impl layer::Tasks for Counted {
    type Cursor = <MemoryStore as Tasks>::Cursor;
}
crate::hand_on!(Counted: Batches, Failures, Gates, Lanes, Lists, Locks, Sessions, Shelves, Streams, Trackers);

const NOW: Timestamp = Timestamp(10_000_000);

/// The calls of one sweep over `routes` routes, every other of them pulled.
async fn calls(routes: usize, store: MemoryStore) -> BTreeMap<&'static str, usize> {
    let mut file = "version: 1\nroutes:\n".to_owned();
    for n in 0..routes {
        let downstream = if n % 2 == 0 { "{ http: { url: 'http://localhost/' } }" } else { "pull" };
        writeln!(file, "- {{ name: r{n}, target: t, downstream: {downstream} }}").unwrap();
    }
    let (store, outbox, env) = (Counted(store, Mutex::default()), MemoryQueues::new(), Turned::at(NOW));
    let routes = &Routes::parse(&file).unwrap();
    let (budget, lifetimes) = (Budget::default(), Lifetimes::default());
    let sweep = Sweep { store: &store, outbox: &outbox, env: &env, routes, budget, every_ms: 60_000, lifetimes };
    let (report, done) = sweep.run().await;
    done.unwrap();
    assert_eq!(report, Report::default(), "nothing is there to be sent on");
    store.1.into_inner().unwrap()
}

#[tokio::test]
async fn a_resting_sweep_reads_as_much_for_one_route_as_for_fifty() {
    let one = calls(1, MemoryStore::new()).await;
    assert_eq!(one, BTreeMap::from([("bookmarks", 7), ("is_empty", 7)]));
    assert_eq!(calls(50, MemoryStore::new()).await, one);
}

#[tokio::test]
async fn where_something_waits_a_sweep_reads_as_much_for_one_route_as_for_fifty() {
    let store = MemoryStore::new();
    let target = Target::of(&RouteName::new("r0"), "x");
    let paused = Batch::express(BatchId::new("b"), target.clone(), &[], NOW).due_at(NOW.plus_ms(1_000));
    store.store(&paused, Assumes::Absent).await.unwrap();
    let id = crate::domain::SessionId::of_handler("s");
    let (beat, claims) = (crate::domain::Beat(1), Vec::new());
    let session = Session { id, beat, expires_at: NOW.plus_ms(5_000), claims, worker: String::new() };
    store.open_session(&session).await.unwrap();
    let later = Task::new(crate::domain::TaskId::new("t"), target.clone(), String::new(), String::new(), NOW);
    let status = Status::Scheduled { due: NOW.plus_ms(1_000), target };
    store.register(&Task { status, ..later }).await.unwrap();
    let one = calls(1, store.copy()).await;
    assert_eq!((one["all_unfinished"], one["all_sessions"], one["due"]), (16, 16, 16));
    assert_eq!(calls(50, store).await, one);
}
