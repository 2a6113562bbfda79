use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::domain::id::{Fence, Round, RouteName};
use crate::domain::traits::Collapse;
use crate::domain::{Task, Traits};
use crate::memory::MemoryStore;
use crate::ports::{self, layer};

#[test]
fn who_came_with_the_leader_has_come_since_the_window_began() {
    let (began, wait_ms) = (Timestamp(100_000), 6_000);
    let limits = Limits { wait_ms, ..Limits::default() };
    let batch = Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &[], began.plus_ms(5_000), wait_ms);
    let mut filling = Filling::new(batch.waited_for_since(began, wait_ms));
    for n in 0..60 {
        let (id, traits) = (TaskId::new(format!("t{n}")), Traits::default());
        filling.load.add(&Candidate { id, round: Round(0), bytes: 1, traits });
    }
    assert_eq!(filling.pace(limits, began.plus_ms(5_020)), Pace { members: 60, ms: 5_020 });
}

fn target() -> Target {
    Target::of(&RouteName::new("r"), "t")
}

/// Tables that count what a leader reads of the index.
struct Counted {
    tables: MemoryStore,
    pages: AtomicUsize,
    entries: AtomicUsize,
}

impl Counted {
    fn count(&self, candidates: &[Candidate]) {
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.entries.fetch_add(candidates.len(), Ordering::Relaxed);
    }

    /// Pages and entries that were read since the last time.
    fn read(&self) -> (usize, usize) {
        (self.pages.swap(0, Ordering::Relaxed), self.entries.swap(0, Ordering::Relaxed))
    }
}

impl layer::Layer for Counted {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.tables
    }
}

impl layer::Locks for Counted {}

impl layer::Tasks for Counted {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn waiting(
        &self,
        target: &Target,
        after: Option<&Self::Cursor>,
        limit: usize,
    ) -> ports::Result<Page<Self::Cursor>> {
        let page = self.tables.waiting(target, after, limit).await?;
        self.count(&page.candidates);
        Ok(page)
    }

    async fn urgent(
        &self,
        target: &Target,
        above: u8,
        after: Option<&Self::Cursor>,
        limit: usize,
    ) -> ports::Result<Page<Self::Cursor>> {
        let page = self.tables.urgent(target, above, after, limit).await?;
        self.count(&page.candidates);
        Ok(page)
    }
}

/// Tables in which this many tasks of each of these priorities wait.
async fn waiting(of: &[(usize, u8)]) -> Counted {
    let tables = MemoryStore::new();
    for (count, priority) in of {
        for n in 0..*count {
            let id = TaskId::new(format!("p{priority}-{n:05}"));
            let task = Task::new(id, target(), "{}".to_owned(), String::new(), Timestamp(0));
            let traits = Traits { priority: *priority, ..Traits::default() };
            tables.register(&task.with_traits(traits)).await.unwrap();
        }
    }
    Counted { tables, pages: AtomicUsize::new(0), entries: AtomicUsize::new(0) }
}

#[tokio::test]
async fn a_leader_of_urgent_tasks_alone_reads_few_pages_for_each_batch() {
    for of in [&[(3_000, 9)][..], &[(1_000, 1), (2_000, 9)], &[(1_500, 4), (1_000, 5), (500, 9)]] {
        reads_few_pages(&waiting(of).await).await;
    }
}

async fn reads_few_pages(store: &Counted) {
    let limits = Limits { max_items: 100, urgent_first: true, ..Limits::default() };
    let mut drain = Drain::new([], [target()], false);
    for batch in 0..30 {
        let gathered = Gathered::gather(store, &target(), &mut drain, &limits.room(), Timestamp(0)).await.unwrap();
        assert_eq!(gathered.candidates.len(), 100, "batch {batch}");
        for one in gathered.candidates {
            store.join(&one.id, one.round, &BatchId::new(format!("b{batch}"))).await.unwrap();
        }
        let (pages, entries) = store.read();
        assert!(pages <= 2 && entries <= 400, "batch {batch} read {pages} pages, {entries} entries");
    }
}

/// A task with this key and this size in bytes, that came then.
fn keyed(id: &str, bytes: usize, came: u64) -> Task {
    let traits = Traits { collapse: Some(Collapse { key: 7, came }), ..Traits::default() };
    Task::new(TaskId::new(id), target(), "x".repeat(bytes), String::new(), Timestamp(0)).with_traits(traits)
}

/// An open batch as the next delivery takes it up.
async fn taken_up(store: &MemoryStore, filling: Filling, limits: Limits) -> Filling {
    let batch = store.batch(&BatchId::new("b")).await.unwrap().unwrap();
    Filling::resume(store, batch, Some(filling.knowledge(limits)), Timestamp(1)).await.unwrap()
}

#[tokio::test]
async fn a_task_that_missed_in_an_earlier_round_and_joined_in_the_next_is_a_member() {
    let store = MemoryStore::new();
    let limits = Limits { wait_ms: 60_000, ..Limits::default() };
    store.register(&Task { round: Round(1), ..keyed("t", 1, 0) }).await.unwrap();
    let shown = |round| Candidate { round: Round(round), ..keyed("t", 1, 0).candidate() };
    let gathered = Gathered { candidates: vec![shown(0), shown(1)], full: false };
    let open = Batch::open(BatchId::new("b"), target(), Fence(1), &[], Timestamp(0), limits.wait_ms);
    let (mut filling, mut drain) = (Filling::new(open), Drain::new([], [target()], false));
    filling.fill(&store, &mut drain, limits, Timestamp(1), Some(gathered)).await.unwrap();
    let joined = vec![Member { id: TaskId::new("t"), round: Round(1) }];
    assert_eq!(filling.joined, joined);
    assert_eq!(taken_up(&store, filling, limits).await.joined, joined);
}

#[tokio::test]
async fn a_batch_that_is_taken_up_again_carries_only_what_is_called() {
    let store = MemoryStore::new();
    let limits = Limits { max_bytes: 250, wait_ms: 60_000, collapses: true, ..Limits::default() };
    let open = Batch::open(BatchId::new("b"), target(), Fence(1), &[], Timestamp(0), limits.wait_ms);
    let mut filling = Filling::new(open);
    for (n, bytes) in [100, 90, 80, 120].into_iter().enumerate() {
        store.register(&keyed(&format!("t{n}"), bytes, n as u64)).await.unwrap();
        let mut drain = Drain::new([], [target()], false);
        let filled = filling.fill(&store, &mut drain, limits, Timestamp(1), None).await.unwrap();
        assert!(matches!(filled, Filled::Waits { .. }), "it was full with task {n}");
        assert_eq!(filling.load.bytes(), bytes as u64, "with task {n}");
        filling = taken_up(&store, filling, limits).await;
        assert_eq!((filling.load.bytes(), filling.load.called()), (bytes as u64, 1), "taken up with task {n}");
    }
}
