//! Entries of an index that can never be looked after, and one behind them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use groupage_core::domain::batch::Assumes;
use groupage_core::domain::shelf::{Bookmark, Bookmarks, Position};
use groupage_core::domain::tracker::Options;
use groupage_core::ports::{Entries, Error, Result};
use groupage_core::steps::sweep::Budget;
use groupage_lab::prelude::*;

use super::{EVERY_MS, Stand};

/// A store of which some entries are broken for good, in one way or another.
struct Poisoned {
    tables: MemoryStore,
    /// Whether sweeps find the bookmarks that they leave.
    keeps_bookmarks: bool,
    visited: Mutex<Vec<String>>,
}

impl Poisoned {
    fn new(keeps_bookmarks: bool) -> Self {
        Self { tables: MemoryStore::new(), keeps_bookmarks, visited: Mutex::default() }
    }

    /// Somebody looks after the entry with this id.
    async fn visit(&self, id: &str) -> Result<()> {
        self.visited.lock().unwrap_or_else(PoisonError::into_inner).push(id.to_owned());
        if !id.contains("stuck") {
            return Ok(());
        }
        if id.ends_with('7') {
            panic!("a bug that only {id} meets");
        }
        if id.ends_with("13") {
            std::future::pending::<()>().await;
        }
        Err(Error::Broken { what: "look after an entry", why: format!("{id} makes no sense") })
    }

    fn has_visited(&self, id: &str) -> bool {
        self.visited.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|visited| visited.contains(id))
    }
}

around_tables! { Poisoned, |it| &it.tables; Lanes, Locks, Failures, Gates }

impl layer::Tasks for Poisoned {
    type Cursor = <MemoryStore as Tasks>::Cursor;
}

impl layer::Batches for Poisoned {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.visit(id.as_str()).await?;
        self.tables.batch(id).await
    }
}

impl layer::Sessions for Poisoned {
    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.visit(id.as_str()).await?;
        self.tables.end_session(id, beat).await
    }
}

impl layer::Trackers for Poisoned {
    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        self.visit(id.as_str()).await?;
        self.tables.look(id, nodes, freshness).await
    }

    async fn due_trackers(&self, look: Look<'_>) -> Result<Entries<TrackerId>> {
        if look.after.is_some_and(|after| after.0 == UNKNOWN) {
            return Err(Error::Broken { what: "query an index", why: "the starting key is invalid".to_owned() });
        }
        self.tables.due_trackers(look).await
    }
}

/// A position that no index has.
const UNKNOWN: &str = "unknown";

impl layer::Lists for Poisoned {
    async fn list(&self, id: &ListId) -> Result<Option<List>> {
        self.visit(id.as_str()).await?;
        self.tables.list(id).await
    }
}

impl layer::Streams for Poisoned {
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>> {
        self.visit(id.as_str()).await?;
        self.tables.stream(id).await
    }
}

impl layer::Shelves for Poisoned {
    async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, now: Timestamp) -> Result<()> {
        if self.keeps_bookmarks { self.tables.keep_bookmarks(shelf, bookmarks, now).await } else { Ok(()) }
    }
}

/// Ten entries of each part, and one page of a scan in one segment.
const TEN: Budget = Budget {
    segments: 1,
    pages: 1,
    sessions: 10,
    batches: 10,
    page: 100,
    trackers: 10,
    lists: 10,
    streams: 10,
    time_ms: 45_000,
};
/// This many in one part cannot be looked after.
const STUCK: usize = 25;

/// Ids of entries that lie in one part: those that are stuck, and the one behind them.
fn in_one_part<P: PartialEq>(part: impl Fn(&str) -> P) -> Vec<String> {
    let here = part("good");
    let stuck = (0..).map(|n| format!("stuck-{n:04}")).filter(|id| part(id) == here);
    stuck.take(STUCK).chain(["good".to_owned()]).collect()
}

/// The sweep in which the entry behind those that are stuck was visited, if that was one of the first `sweeps`.
async fn visited_in(stand: &Stand, store: &Poisoned, sweeps: usize) -> Option<usize> {
    for sweep in 1..=sweeps {
        stand.wait().await;
        let (_, done) = stand.sweep(store).await;
        done.unwrap_err();
        if store.has_visited("good") {
            return Some(sweep);
        }
    }
    None
}

/// Whether what comes behind is found within a round with bookmarks, and never without.
async fn found_within_a_round(fill: impl AsyncFn(&Stand, &MemoryStore)) {
    for keeps_bookmarks in [true, false] {
        let (stand, store) = (Stand::new(TEN), Poisoned::new(keeps_bookmarks));
        fill(&stand, &store.tables).await;
        let expected = keeps_bookmarks.then_some(3);
        assert_eq!(visited_in(&stand, &store, 12).await, expected, "with bookmarks: {keeps_bookmarks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_behind_those_that_cannot_be_looked_at_is_found() {
    found_within_a_round(async |stand, tables| {
        let target = Target::of(&RouteName::new("parcels"), "x");
        for (n, id) in in_one_part(|_| 0).into_iter().enumerate() {
            let batch = Batch::express(BatchId::new(format!("{n:03}-{id}")), target.clone(), &[], stand.env.now());
            let batch = batch.due_at(stand.env.now().plus_ms(n as u64));
            tables.store(&batch, Assumes::Absent).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_behind_those_that_cannot_be_ended_is_found() {
    found_within_a_round(async |stand, tables| {
        let pool = Pool::of_handlers().next().unwrap();
        for (n, id) in in_one_part(|_| 0).into_iter().enumerate() {
            let id = SessionId::within(&pool, &format!("{n:03}-{id}"));
            let expires_at = stand.env.now().plus_ms(1);
            let session = Session { id, beat: Beat(1), expires_at, claims: Vec::new(), worker: String::new() };
            tables.open_session(&session).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_tracker_behind_those_that_cannot_be_looked_after_is_found() {
    found_within_a_round(async |stand, tables| {
        for (n, id) in in_one_part(|id| Part::of_tracker(&TrackerId::new(id))).into_iter().enumerate() {
            let options = Options { deadline: None, notify: NotificationQueue::None };
            let tracker = Tracker::open(TrackerId::new(id), options, stand.env.now());
            tables.open_tracker(&Tracker { due: stand.env.now().plus_ms(n as u64), ..tracker }).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_behind_those_that_cannot_be_looked_after_is_found() {
    found_within_a_round(async |stand, tables| {
        let Stand { queues: outbox, env, .. } = stand;
        for id in in_one_part(|id| Part::of_list(&ListId::new(id))) {
            let options = list::Options::default();
            Listing { store: tables, outbox, env }.open(&ListId::new(id), options).await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Nobody uses them for longer than they are kept.
        tokio::time::sleep(Duration::from_secs(40 * 24 * 60 * 60)).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_behind_those_that_cannot_be_looked_after_is_found() {
    found_within_a_round(async |stand, tables| {
        for (n, id) in in_one_part(|id| Part::of_stream(&StreamId::new(id))).into_iter().enumerate() {
            let stream = Stream::open(StreamId::new(id), stream::Options::default(), stand.env.now());
            tables.open_stream(&Stream { due: Some(stand.env.now().plus_ms(n as u64)), ..stream }).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_position_that_an_index_knows_no_more_begins_a_new_round() {
    let (stand, store) = (Stand::new(TEN), Poisoned::new(true));
    let began = stand.env.now();
    let lost = Bookmark { after: Some(Position(UNKNOWN.to_owned())), began, since: began };
    let part = Part::of_tracker(&TrackerId::new("good"));
    let bookmarks = Bookmarks(BTreeMap::from([(part.tracker_key(), lost)]));
    store.tables.keep_bookmarks(&Shelf::Trackers, &bookmarks, began).await.unwrap();
    let options = Options { deadline: None, notify: NotificationQueue::None };
    store.tables.open_tracker(&Tracker::open(TrackerId::new("good"), options, began)).await.unwrap();
    stand.wait().await;
    let (report, done) = stand.sweep(&store).await;
    done.unwrap_err();
    assert_eq!(report.oldest_unvisited.ms, EVERY_MS, "nothing of that part was visited");
    stand.wait().await;
    let (report, done) = stand.sweep(&store).await;
    done.unwrap();
    assert!(store.has_visited("good"));
    assert_eq!(report.oldest_unvisited.ms, 0);
}
