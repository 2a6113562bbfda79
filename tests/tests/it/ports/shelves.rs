//! What sweep needs of the indexes that it looks through: positions to go on from, and bookmarks.

use std::collections::BTreeMap;

use groupage_core::domain::batch::Assumes;
use groupage_core::domain::shelf::{Bookmark, Bookmarks, Position};
use groupage_core::domain::tracker::Options;
use groupage_core::ports::{Entries, Result, Unfinished};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{batch, target};

conformance![without_lag:
    bookmarks_are_read_as_they_were_written_last,
    each_shelf_has_bookmarks_of_its_own,
    unfinished_batches_go_on_behind_any_entry,
    sessions_go_on_behind_any_entry,
    trackers_go_on_behind_any_entry,
    scans_find_what_lies_in_all_segments_and_on_which_shelf_anything_lies,
];

const END: Timestamp = Timestamp(9_000_000_000_000);

fn bookmarks(after: Option<&str>) -> Bookmarks {
    let after = after.map(|after| Position(after.to_owned()));
    let bookmark = Bookmark { after, began: Timestamp(1_700_000_000_001), since: Timestamp(1_700_000_000_000) };
    Bookmarks(BTreeMap::from([("7".to_owned(), bookmark)]))
}

async fn bookmarks_are_read_as_they_were_written_last(store: impl Fixture) {
    assert_eq!(store.bookmarks(&Shelf::Waiting).await.unwrap(), Bookmarks::default());
    for written in [bookmarks(Some("x")), bookmarks(None), Bookmarks::default(), bookmarks(Some("y"))] {
        store.keep_bookmarks(&Shelf::Waiting, &written, END).await.unwrap();
        assert_eq!(store.bookmarks(&Shelf::Waiting).await.unwrap(), written);
    }
}

async fn each_shelf_has_bookmarks_of_its_own(store: impl Fixture) {
    let shelves = [Shelf::Sessions, Shelf::Waiting, Shelf::Batches, Shelf::Trackers, Shelf::Lists, Shelf::Streams];
    let written = |n: usize| bookmarks(Some(&n.to_string()));
    for (n, shelf) in shelves.iter().enumerate() {
        store.keep_bookmarks(shelf, &written(n), END).await.unwrap();
    }
    for (n, shelf) in shelves.iter().enumerate() {
        assert_eq!(store.bookmarks(shelf).await.unwrap(), written(n), "{shelf:?}");
    }
}

/// Walks through an index in pages of three, and from each page takes only the first two entries before it goes on.
async fn walked<T>(
    look: impl AsyncFn(Option<&Position>) -> Result<Entries<T>>,
    id: impl Fn(&T) -> String,
) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let Entries { found: page, are_last } = look(after.as_ref()).await.unwrap();
        let ends = are_last && page.len() <= 2;
        for entry in page.into_iter().take(2) {
            found.push(id(&entry.what));
            after = Some(entry.at);
        }
        if ends {
            return found;
        }
    }
}

async fn unfinished_batches_go_on_behind_any_entry(store: impl Fixture) {
    // Two are due at the same time.
    let due = [("0a", 10), ("0b", 20), ("0c", 20), ("0d", 30), ("0e", 40), ("0f", 50), ("00", 60)];
    for (id, due) in due {
        let batch = batch(id, &target("a"), 1).due_at(Timestamp(due));
        assert_eq!(store.store(&batch, Assumes::Absent).await.unwrap(), Stored::Yes);
    }
    let (route, part) = (RouteName::new("parcels"), Part::of(&BatchId::new("0a")));
    let look = async |after: Option<&Position>| store.unfinished(&route, Look::at(part, END, 3).behind(after)).await;
    let mut walked = walked(look, ToString::to_string).await;
    // Of those that are due at the same time either may come first.
    walked[1..3].sort();
    assert_eq!(walked, due.map(|(id, _)| id));
}

async fn sessions_go_on_behind_any_entry(store: impl Fixture) {
    let pool = Pool::new("r");
    let ids: Vec<String> = (0..7).map(|n| format!("r/s{n}")).collect();
    for id in &ids {
        let (id, claims, worker) = (SessionId::new(id), Vec::new(), "w".to_owned());
        let session = Session { id, beat: Beat(1), expires_at: Timestamp(5_000), claims, worker };
        assert_eq!(store.open_session(&session).await.unwrap(), Stored::Yes);
    }
    let look = async |after: Option<&Position>| store.sessions(&pool, after, 3).await;
    assert_eq!(walked(look, |session: &Session| session.id.to_string()).await, ids);
}

async fn trackers_go_on_behind_any_entry(store: impl Fixture) {
    let part = Part::of_tracker(&TrackerId::new("t0"));
    let ids = (0..).map(|n| format!("t{n}")).filter(|id| Part::of_tracker(&TrackerId::new(id)) == part);
    let ids: Vec<String> = ids.take(7).collect();
    for (n, id) in ids.iter().enumerate() {
        let options = Options { deadline: None, notify: NotificationQueue::None };
        let tracker = Tracker::open(TrackerId::new(id), options, Timestamp(1_000));
        let tracker = Tracker { due: Timestamp(2_000 + n as u64), ..tracker };
        assert_eq!(store.open_tracker(&tracker).await.unwrap(), Opened::New);
    }
    let look = async |after: Option<&Position>| store.due_trackers(Look::at(part, END, 3).behind(after)).await;
    assert_eq!(walked(look, ToString::to_string).await, ids);
}

async fn scans_find_what_lies_in_all_segments_and_on_which_shelf_anything_lies(store: impl Fixture) {
    let all =
        [Shelf::Sessions, Shelf::Waiting, Shelf::Due, Shelf::Batches, Shelf::Trackers, Shelf::Lists, Shelf::Streams];
    for shelf in &all {
        assert!(store.is_empty(shelf).await.unwrap(), "{shelf:?}");
    }
    let (mut listed, mut opened) = (Vec::new(), Vec::new());
    for n in 0..9_u64 {
        let target = Target::of(&RouteName::new(format!("r{}", n % 3)), "t");
        let batch = batch(&format!("{n}b"), &target, 1).due_at(Timestamp(n));
        let members = batch.members.clone();
        let batch = if n < 5 { batch } else { batch.frozen(members).pulled_from(Timestamp(n)) };
        assert_eq!(store.store(&batch, Assumes::Absent).await.unwrap(), Stored::Yes);
        listed.extend(
            batch.unfinished().map(|due| (batch.id.to_string(), due, target.route().to_string(), batch.pulled)),
        );
        let id = SessionId::within(&Pool::new(format!("r{}", n % 3)), &format!("s{n}"));
        opened.push(id.to_string());
        let session = Session { id, beat: Beat(1), expires_at: END, claims: Vec::new(), worker: "w".to_owned() };
        assert_eq!(store.open_session(&session).await.unwrap(), Stored::Yes);
    }
    let (mut batches, mut sessions) = (Vec::new(), Vec::new());
    for index in 0..2 {
        let segment = Segment { index, of: 2 };
        let look = async |after: Option<&Position>| store.all_unfinished(segment, after, 3).await;
        batches.extend(walked(look, |found| format!("{found:?}")).await);
        let look = async |after: Option<&Position>| store.all_sessions(segment, after, 3).await;
        sessions.extend(walked(look, |session| session.id.to_string()).await);
    }
    batches.sort();
    sessions.sort();
    opened.sort();
    assert_eq!(sessions, opened);
    let listed = listed.into_iter().map(|(id, due, route, is_pulled)| {
        let (id, route) = (BatchId::new(id), RouteName::new(route));
        format!("{:?}", Unfinished { id, due, route, is_pulled })
    });
    assert_eq!(batches, listed.collect::<Vec<_>>());
    for shelf in &all {
        let is_empty = !matches!(shelf, Shelf::Sessions | Shelf::Batches);
        assert_eq!(store.is_empty(shelf).await.unwrap(), is_empty, "{shelf:?}");
    }
}
