use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::domain::id::{RouteName, TaskId};
use crate::domain::task::{Status, Task};
use crate::memory::{MemoryQueues, MemoryStore};
use crate::ports::{Tasks, layer};
use crate::routes::Routes;
use crate::steps::still::Turned;
use crate::steps::sweep::Budget;
use crate::steps::track::Lifetimes;

/// Tables in which the partition of one Target takes this many tasks a second that fall due, and throttles the others.
struct Narrow<'a> {
    tables: MemoryStore,
    clock: &'a Turned,
    a_second: u64,
    /// The second, and how many it has taken.
    taken: Mutex<(u64, u64)>,
    throttled: AtomicU64,
}

impl layer::Layer for Narrow<'_> {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.tables
    }
}

impl layer::Tasks for Narrow<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn fall_due(
        &self,
        task: (&TaskId, Traits),
        target: &Target,
        now: Timestamp,
    ) -> ports::Result<Option<Waiting>> {
        if target.value() == "hot" {
            let second = self.clock.now().0 / 1_000;
            let mut taken = self.taken.lock().unwrap();
            let so_far = if taken.0 == second { taken.1 } else { 0 };
            *taken = (second, (so_far + 1).min(self.a_second));
            if so_far >= self.a_second {
                self.throttled.fetch_add(1, Ordering::SeqCst);
                return Err(ports::Error::Throttled { what: "writing", why: "a test".to_owned() });
            }
        }
        self.tables.fall_due(task, target, now).await
    }
}

crate::hand_on!(Narrow<'_>: Batches, Failures, Gates, Lanes, Lists, Locks, Sessions, Shelves, Streams, Trackers);

const NOW: Timestamp = Timestamp(10_000_000);
const ROUTES: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: pull }]";

/// One sweep over as many tasks that are due, of a Target whose partition takes that many a second, and one of another.
/// Says how many of the first are still scheduled, whether the other waits, how many writes were throttled, and for how
/// long it went on.
async fn sweep(tasks: usize, a_second: u64) -> (usize, bool, u64, u64) {
    let clock = Turned::at(NOW);
    let tables = MemoryStore::new();
    let ids = (0..=tasks).map(|n| (format!("t{n:05}"), if n == 0 { "cold" } else { "hot" }));
    for (id, value) in ids {
        let target = Target::of(&RouteName::new("r"), value);
        let task = Task::new(TaskId::new(id), target.clone(), "{}".to_owned(), String::new(), Timestamp(0));
        let status = Status::Scheduled { due: Timestamp(NOW.0 - 1), target };
        tables.register(&Task { status, ..task }).await.unwrap();
    }
    let store = Narrow { tables, clock: &clock, a_second, taken: Mutex::default(), throttled: AtomicU64::new(0) };
    let (outbox, routes) = (&MemoryQueues::new(), &Routes::parse(ROUTES).unwrap());
    let (budget, every_ms, lifetimes) = (Budget::default(), 60_000, Lifetimes::default());
    let sweep = Sweep { store: &store, outbox, env: &clock, routes, budget, every_ms, lifetimes };
    sweep.due(NOW.plus_ms(sweep.budget.time_ms)).await;
    let left = store.tables.tasks().into_iter().filter(|task| matches!(task.status, Status::Scheduled { .. }));
    let left: Vec<String> = left.map(|task| task.id.to_string()).collect();
    let is_cold_due = !left.iter().any(|id| id == "t00000");
    (left.len(), is_cold_due, store.throttled.load(Ordering::SeqCst), clock.now().since(NOW))
}

#[tokio::test]
async fn what_the_index_does_not_bear_at_once_falls_due_in_the_same_sweep() {
    let (left, is_cold_due, throttled, took_ms) = sweep(2_000, 100).await;
    assert_eq!((left, is_cold_due), (0, true), "after {took_ms} ms");
    assert!((19_000..30_000).contains(&took_ms), "{took_ms} ms for 2,000 at 100 a second");
    assert!(throttled < 2_000, "{throttled} writes were throttled: it waits after the first");
}

#[tokio::test]
async fn what_is_left_when_its_time_is_up_is_the_next_ones() {
    let (left, is_cold_due, _, took_ms) = sweep(2_000, 10).await;
    assert!(is_cold_due && (1_400..1_700).contains(&left), "{left} after {took_ms} ms");
    assert!((45_000..50_000).contains(&took_ms), "{took_ms} ms");
}
