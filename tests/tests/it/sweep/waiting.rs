//! Tasks that wait behind many that cannot move.

use std::collections::BTreeSet;
use std::sync::Arc;

use groupage_aws::entry::{self, RouteSource};
use groupage_core::domain::shelf::Bookmarks;
use groupage_core::domain::task::Status;
use groupage_core::ports::Result;
use groupage_core::steps::sweep::Budget;
use groupage_lab::prelude::*;

use super::Stand;

/// A hundred entries of each segment.
const SMALL: Budget = Budget {
    segments: 16,
    pages: 16,
    sessions: 500,
    batches: 100,
    page: 100,
    trackers: 100,
    lists: 100,
    streams: 100,
    time_ms: 45_000,
};

/// Lets a task wait under a route and a value.
async fn waits(stand: &Stand, store: &MemoryStore, id: &str, route: &str, value: &str) {
    let target = Target::of(&RouteName::new(route), value);
    let task = Task::new(TaskId::new(id), target, "{}".to_owned(), id.to_owned(), stand.env.now());
    store.register(&task).await.unwrap();
}

/// The Targets for which leaders were asked, and lost: elections fail for good.
fn asked(stand: &Stand) -> BTreeSet<String> {
    let lost = stand.queues.lose_everything().into_iter().filter(|message| message.to == Destination::Elect);
    let targets = lost.flat_map(|message| match serde_json::from_str(&message.body).unwrap() {
        Elect::Waiting(election) => vec![election.target],
        Elect::Several(elections) => elections.into_iter().map(|election| election.target).collect(),
        other @ (Elect::Returning(_) | Elect::Due(_)) => panic!("nobody goes back: {other:?}"),
    });
    targets.map(|target| target.to_string()).collect()
}

/// A store that forgets where sweeps stopped, as if each began at the front.
struct Forgetful<'a>(&'a MemoryStore);

around_tables! { Forgetful<'_>, |it| it.0; Lanes, Locks, Batches, Sessions, Failures, Gates, Trackers, Lists, Streams }

impl layer::Tasks for Forgetful<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;
}
impl layer::Shelves for Forgetful<'_> {
    async fn keep_bookmarks(&self, _: &Shelf, _: &Bookmarks, _: Timestamp) -> Result<()> {
        Ok(())
    }
}

/// 4,000 tasks that cannot move, about 250 in each segment, and one that lost its election behind them.
async fn crowded() -> (Stand, MemoryStore) {
    let (stand, store) = (Stand::new(SMALL), MemoryStore::new());
    for n in 0..4_000 {
        // Of some nobody knows the route any more, of others each election is lost.
        let route = if n % 2 == 0 { "gone" } else { "parcels" };
        waits(&stand, &store, &format!("a{n:05}"), route, &format!("stuck-{}", n % 400)).await;
    }
    waits(&stand, &store, "z", "parcels", "lost").await;
    stand.wait().await;
    (stand, store)
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_behind_thousands_that_cannot_move_is_found_within_a_round() {
    let (stand, store) = crowded().await;
    let mut sweeps = 0;
    loop {
        stand.wait().await;
        let (report, done) = stand.sweep(&store).await;
        done.unwrap();
        sweeps += 1;
        assert!(sweeps <= 3, "4,001 tasks at 1,600 a sweep");
        if asked(&stand).contains("parcels:lost") {
            break;
        }
        assert!(report.oldest_unvisited.ms >= sweeps * super::EVERY_MS, "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_place_sweep_never_comes_to_a_task_behind_those_that_cannot_move() {
    let (stand, store) = crowded().await;
    for _ in 0..30 {
        stand.wait().await;
        stand.sweep(&Forgetful(&store)).await.1.unwrap();
        assert!(!asked(&stand).contains("parcels:lost"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_sweep_gets_through_leaves_no_bookmark_and_nothing_unvisited() {
    let (stand, store) = (Stand::new(SMALL), MemoryStore::new());
    for n in 0..300 {
        waits(&stand, &store, &format!("t{n}"), "parcels", "x").await;
    }
    stand.wait().await;
    stand.wait().await;
    let (report, done) = stand.sweep(&store).await;
    done.unwrap();
    assert_eq!(report.oldest_unvisited.ms, 0);
    assert_eq!(store.bookmarks(&Shelf::Waiting).await.unwrap(), Bookmarks::default());
}

#[tokio::test(start_paused = true)]
async fn sweep_says_how_long_the_oldest_task_has_waited_that_should_not_wait() {
    let (stand, store) = (Stand::new(SMALL), MemoryStore::new());
    // No route wants it, which is told by another figure.
    waits(&stand, &store, "stranded", "gone", "x").await;
    stand.wait().await;
    waits(&stand, &store, "oldest", "parcels", "x").await;
    // Its time has not come.
    let later = Timestamp(stand.env.now().0 + 30 * 60_000);
    let target = Target::of(&RouteName::new("parcels"), "x");
    let task = Task::new(TaskId::new("later"), target.clone(), "{}".to_owned(), "later".to_owned(), stand.env.now());
    let status = Status::Scheduled { target, due: later };
    store.register(&Task { status, ..task }).await.unwrap();
    let mut told = Vec::new();
    for minute in 0..32_u64 {
        if minute == 10 {
            waits(&stand, &store, "younger", "parcels", "y").await;
        }
        let (report, done) = stand.sweep(&store).await;
        done.unwrap();
        told.push(report.oldest_waiting.ms / super::EVERY_MS);
        if minute == 20 {
            store.join(&TaskId::new("oldest"), Round(0), &BatchId::new("b")).await.unwrap();
        }
        stand.wait().await;
    }
    assert_eq!(told[..2], [0, 0], "nobody has waited for longer than a minute");
    assert_eq!(told[2..21], (2..21).collect::<Vec<_>>(), "whether or not it asked for a leader in that minute");
    assert_eq!(told[21..32], (11..22).collect::<Vec<_>>(), "the younger one, and not what fell due by the last sweep");
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_is_published_in_milliseconds() {
    let (stand, store) = (Stand::new(SMALL), MemoryStore::new());
    waits(&stand, &store, "t", "parcels", "x").await;
    let routes = RouteSource::Fixed(Routes::parse(super::ROUTES).unwrap().into());
    let stack = entry::Stack::new(store, MemoryQueues::new(), stand.env.clone(), routes);
    let published = async || {
        stand.wait().await;
        let (counts, done) = entry::sweep(&stack, super::EVERY_MS).await;
        done.unwrap();
        let line = counts.to_emf("sweep", stand.env.now())?;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().clone();
        let declared = metrics.into_iter().find(|metric| metric["Name"] == "OldestWaiting")?;
        Some((declared["Unit"].as_str()?.to_owned(), line["OldestWaiting"].as_u64()?))
    };
    let milliseconds = |ms| Some(("Milliseconds".to_owned(), ms));
    assert_eq!(published().await, None, "nobody has waited for longer than a minute");
    assert_eq!(published().await, milliseconds(120_000));
    assert_eq!(published().await, milliseconds(180_000), "each sweep, whether it asks for a leader or not");
}

/// A task that is visited each few sweeps only is sent on no less often for that.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_seldom_visited_gets_its_elections_all_the_same() {
    let (stand, store) = crowded().await;
    let mut elections = 0;
    for _ in 0..64 {
        stand.wait().await;
        stand.sweep(&store).await.1.unwrap();
        elections += usize::from(asked(&stand).contains("parcels:lost"));
    }
    // After 1, 2, 4, 8 minutes, and then each sixteen; once more for each round whose length is not known exactly.
    assert!((6..=16).contains(&elections), "{elections} elections within 64 minutes");
}

/// One of 600 Targets for each task, in pages of ten.
async fn scattered() -> (Stand, MemoryStore) {
    let (stand, store) = (Stand::new(Budget { page: 10, ..SMALL }), MemoryStore::new());
    for n in 0..600 {
        waits(&stand, &store, &format!("t{n:04}"), "parcels", &format!("v{n}")).await;
    }
    stand.wait().await;
    stand.wait().await;
    (stand, store)
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_dies_midway_or_meets_another_skips_nothing_for_good() {
    let (stand, store) = scattered().await;
    let points = {
        let fate = Arc::new(Fate::new(Plan::Nothing, stand.env.clone(), false));
        let process = Process::new("sweep", stand.env.clone(), Arc::clone(&fate), 4);
        stand.sweep_by(&Faulty::new(&store, &process), &Faulty::new(&stand.queues, &process)).await.1.unwrap();
        fate.count()
    };
    assert!(points > 300, "{points} calls");
    for point in (0..points).step_by(17) {
        for side in [Side::Before, Side::After] {
            let (stand, store) = scattered().await;
            let mut found = BTreeSet::new();
            for sweep in 0..7 {
                let plan = if sweep == 1 { Plan::At(point, side, Fault::Death) } else { Plan::Nothing };
                let fate = Arc::new(Fate::new(plan, stand.env.clone(), false));
                let process = Process::new("sweep", stand.env.clone(), fate, 4);
                let (tables, queues) = (Faulty::new(&store, &process), Faulty::new(&stand.queues, &process));
                // Each goes on where the one before it stopped, and is slower or faster than the other.
                let one = process.run(stand.sweep_by(&tables, &queues), || {});
                let (_, (_, done)) = tokio::join!(one, stand.sweep(&store));
                done.unwrap();
                found.extend(asked(&stand));
                stand.wait().await;
            }
            assert_eq!(found.len(), 600, "a death {side:?} call {point}");
        }
    }
}
