//! What every `Trackers` must do with a tracker itself: its item, what was added to it, and the index of those due.

use groupage_core::domain::tracker::{Addition, Ending, ItemRange, Survey};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{opened, tracked, tracker};

conformance![
    a_tracker_is_read_as_it_was_written_in_every_state,
    a_repeated_opening_of_a_tracker_recognises_itself,
    an_id_that_another_tracker_has_is_refused_and_shows_it,
    a_repeated_write_of_a_tracker_recognises_itself,
    a_tracker_is_written_over_the_revision_before_and_no_other,
    nothing_is_written_where_no_tracker_was_opened,
    an_addition_moves_the_tracker_on_and_is_found_by_its_key,
    a_key_that_was_used_shows_what_was_added_and_leaves_the_tracker,
    an_addition_to_another_revision_leaves_neither_half,
    nothing_is_added_where_no_tracker_was_opened,
    keys_of_other_trackers_do_not_meet,
    trackers_that_are_due_are_listed_by_part_in_order,
    no_more_trackers_are_listed_than_asked_for,
    a_tracker_that_was_looked_at_is_listed_by_its_next_look,
    a_tracker_is_removed_at_the_revision_at_which_it_was_seen,
    a_tracker_that_is_gone_may_be_removed_again,
];

const NOW: Timestamp = Timestamp(2_000);

fn grown(tracker: &Tracker, key: &str, count: u64) -> (Tracker, Addition) {
    tracker.grown(key, count, NOW).unwrap()
}

async fn a_tracker_is_read_as_it_was_written_in_every_state(store: impl Fixture) {
    let survey = || {
        let missing_items = vec![ItemRange::parse("t:0:0-3").unwrap(), ItemRange::parse("t:1:9").unwrap()];
        let failed_items = vec![ItemRange::parse("t:0:4-6").unwrap()];
        Survey { done: 7_164, failed: 3, missing_items, failed_items }
    };
    for (id, ending) in [("t1", Ending::Completed), ("t2", Ending::Overdue), ("t3", Ending::Abandoned)] {
        let open = opened(&*store, id).await;
        let looked = open.looked_at(4, NOW);
        let sealed = looked.sealed(NOW);
        let ended = match ending {
            Ending::Completed => sealed.completed(5, NOW),
            Ending::Overdue | Ending::Abandoned => {
                Tracker { items: 7_169, ..sealed.clone() }.ended(ending, survey(), NOW)
            }
        };
        let told = ended.told();
        let kept = told.kept_until(Timestamp(99_000_000));
        for tracker in [looked, sealed, ended, told, kept] {
            assert_eq!(store.store_tracker(&tracker).await.unwrap(), Stored::Yes);
            assert_eq!(tracked(&*store, &tracker.id).await, Some(tracker));
        }
    }
    let url = NotificationQueue::Url("https://sqs.eu-central-1.amazonaws.com/1/ended".to_owned());
    let plain = Tracker { deadline: None, notify: url, ..tracker("plain") };
    store.open_tracker(&plain).await.unwrap();
    assert_eq!(tracked(&*store, &plain.id).await, Some(plain));
}

async fn a_repeated_opening_of_a_tracker_recognises_itself(store: impl Fixture) {
    assert_eq!(tracked(&*store, &TrackerId::new("t")).await, None);
    for _ in 0..2 {
        opened(&*store, "t").await;
    }
    assert_eq!(tracked(&*store, &TrackerId::new("t")).await, Some(tracker("t")));
}

async fn an_id_that_another_tracker_has_is_refused_and_shows_it(store: impl Fixture) {
    let first = opened(&*store, "t").await;
    let later = Tracker { opened_at: NOW, ..first.clone() };
    let silent = Tracker { notify: NotificationQueue::None, ..first.clone() };
    for other in [later, silent] {
        assert_eq!(store.open_tracker(&other).await.unwrap(), Opened::Existing(first.clone()));
    }
    let (grown, addition) = grown(&first, "k", 1);
    store.add(&grown, &addition).await.unwrap();
    assert_eq!(store.open_tracker(&first).await.unwrap(), Opened::Existing(grown.clone()));
    assert_eq!(tracked(&*store, &first.id).await, Some(grown));
}

async fn a_repeated_write_of_a_tracker_recognises_itself(store: impl Fixture) {
    let sealed = opened(&*store, "t").await.sealed(NOW);
    for _ in 0..2 {
        assert_eq!(store.store_tracker(&sealed).await.unwrap(), Stored::Yes);
    }
}

async fn a_tracker_is_written_over_the_revision_before_and_no_other(store: impl Fixture) {
    let open = opened(&*store, "t").await;
    let sealed = open.sealed(NOW);
    let ended = sealed.completed(0, NOW);
    assert_eq!(store.store_tracker(&ended).await.unwrap(), Stored::Conflict, "it is too far ahead");
    assert_eq!(store.store_tracker(&sealed).await.unwrap(), Stored::Yes);
    let late = [open.looked_at(0, NOW), open.sealed(Timestamp(3_000)), Tracker { items: 9, ..sealed.clone() }, open];
    for late in late {
        assert_eq!(store.store_tracker(&late).await.unwrap(), Stored::Conflict);
    }
    assert_eq!(tracked(&*store, &sealed.id).await, Some(sealed));
}

async fn nothing_is_written_where_no_tracker_was_opened(store: impl Fixture) {
    for tracker in [tracker("t"), tracker("t").sealed(NOW)] {
        assert_eq!(store.store_tracker(&tracker).await.unwrap(), Stored::Conflict);
    }
    assert_eq!(tracked(&*store, &TrackerId::new("t")).await, None);
}

async fn an_addition_moves_the_tracker_on_and_is_found_by_its_key(store: impl Fixture) {
    let mut tracker = opened(&*store, "t").await;
    let mut additions = Vec::new();
    // The largest key, and one that begins like another.
    for (key, count) in [("k".repeat(128), 5), ("k".to_owned(), 7_168), ("k#~!".to_owned(), 1)] {
        assert_eq!(store.addition(&tracker.id, &key).await.unwrap(), None);
        let (next, addition) = grown(&tracker, &key, count);
        let added = store.add(&next, &addition).await.unwrap();
        assert!(added == Added::Yes || added == Added::Before(addition.clone()), "{added:?}");
        assert_eq!(tracked(&*store, &tracker.id).await.as_ref(), Some(&next));
        (tracker, additions) = (next, [additions, vec![addition]].concat());
    }
    for addition in additions {
        assert_eq!(store.addition(&tracker.id, &addition.key).await.unwrap(), Some(addition));
    }
}

/// Whether the tracker is at the revision before or not: the key decides.
async fn a_key_that_was_used_shows_what_was_added_and_leaves_the_tracker(store: impl Fixture) {
    let open = opened(&*store, "t").await;
    let (first, addition) = grown(&open, "k", 5);
    store.add(&first, &addition).await.unwrap();
    for before in [&open, &first, &first.sealed(NOW)] {
        let (next, other) = grown(before, "k", 6);
        assert_eq!(store.add(&next, &other).await.unwrap(), Added::Before(addition.clone()));
    }
    assert_eq!(tracked(&*store, &open.id).await, Some(first));
    assert_eq!(store.addition(&open.id, "k").await.unwrap(), Some(addition));
}

async fn an_addition_to_another_revision_leaves_neither_half(store: impl Fixture) {
    let open = opened(&*store, "t").await;
    let sealed = open.sealed(NOW);
    store.store_tracker(&sealed).await.unwrap();
    for stale in [open, sealed.looked_at(0, NOW)] {
        let (next, addition) = grown(&stale, "k", 5);
        assert_eq!(store.add(&next, &addition).await.unwrap(), Added::Conflict);
    }
    assert_eq!(tracked(&*store, &sealed.id).await.as_ref(), Some(&sealed));
    assert_eq!(store.addition(&sealed.id, "k").await.unwrap(), None);
}

async fn nothing_is_added_where_no_tracker_was_opened(store: impl Fixture) {
    let (next, addition) = grown(&tracker("t"), "k", 5);
    assert_eq!(store.add(&next, &addition).await.unwrap(), Added::Conflict);
    assert_eq!(tracked(&*store, &next.id).await, None);
    assert_eq!(store.addition(&next.id, "k").await.unwrap(), None);
}

async fn keys_of_other_trackers_do_not_meet(store: impl Fixture) {
    for (id, count) in [("a", 5), ("b", 6)] {
        let (next, addition) = grown(&opened(&*store, id).await, "k", count);
        store.add(&next, &addition).await.unwrap();
    }
    for (id, count) in [("a", 5), ("b", 6)] {
        let found = store.addition(&TrackerId::new(id), "k").await.unwrap();
        assert_eq!(found, Some(Addition { key: "k".to_owned(), start: 0, count }));
    }
}

/// Trackers of one part, which sweep looks at at these moments, in the order of their ids; and one of another part.
async fn due_at(store: &impl Trackers, moments: &[u64]) -> (Part, Vec<TrackerId>) {
    let part = Part::of_tracker(&TrackerId::new("t-0"));
    let ids = || (0..).map(|n| TrackerId::new(format!("t-{n}")));
    let mine: Vec<TrackerId> = ids().filter(|id| Part::of_tracker(id) == part).take(moments.len()).collect();
    let other = ids().find(|id| Part::of_tracker(id) != part).unwrap();
    for (id, due) in mine.iter().zip(moments).chain([(&other, &moments[0])]) {
        let tracker = Tracker { id: id.clone(), due: Timestamp(*due), ..tracker("") };
        store.open_tracker(&tracker).await.unwrap();
    }
    (part, mine)
}

async fn trackers_that_are_due_are_listed_by_part_in_order(store: impl Fixture) {
    let (part, ids) = due_at(&*store, &[500, 9_999, 300, 10_000, 400]).await;
    let (next, addition) = grown(&tracked(&*store, &ids[0]).await.unwrap(), "k", 1);
    store.add(&next, &addition).await.unwrap();
    store.index_settles().await;
    let due = store.due_trackers(Look::at(part, Timestamp(10_000), 100)).await.unwrap().all();
    let expected: Vec<TrackerId> = [2, 4, 0, 1].map(|n| ids[n].clone()).into();
    assert_eq!(due, expected, "longest due first, whatever their number of digits, and what was added is no tracker");
    assert_eq!(store.due_trackers(Look::at(part, Timestamp(300), 100)).await.unwrap().all(), []);
}

async fn no_more_trackers_are_listed_than_asked_for(store: impl Fixture) {
    let (part, ids) = due_at(&*store, &[100, 200, 300]).await;
    store.index_settles().await;
    for limit in 1..=4 {
        let due = store.due_trackers(Look::at(part, Timestamp(10_000), limit)).await.unwrap().all();
        assert_eq!(due, ids[..limit.min(3)]);
    }
}

async fn a_tracker_that_was_looked_at_is_listed_by_its_next_look(store: impl Fixture) {
    let (part, ids) = due_at(&*store, &[100, 200]).await;
    let next = tracked(&*store, &ids[0]).await.unwrap().looked_at(0, NOW);
    store.store_tracker(&next).await.unwrap();
    store.index_settles().await;
    assert_eq!(store.due_trackers(Look::at(part, next.due, 9)).await.unwrap().all(), ids[1..]);
    assert_eq!(
        store.due_trackers(Look::at(part, next.due.plus_ms(1), 9)).await.unwrap().all(),
        [ids[1].clone(), ids[0].clone()]
    );
}

async fn a_tracker_is_removed_at_the_revision_at_which_it_was_seen(store: impl Fixture) {
    let (open, neighbour) = (opened(&*store, "t").await, opened(&*store, "t-2").await);
    let ended = open.ended(Ending::Abandoned, Survey::default(), NOW);
    store.store_tracker(&ended).await.unwrap();
    for stale in [open, ended.told()] {
        assert_eq!(store.remove_tracker(&stale).await.unwrap(), Stored::Conflict);
        assert_eq!(tracked(&*store, &ended.id).await.as_ref(), Some(&ended));
    }
    assert_eq!(store.remove_tracker(&ended).await.unwrap(), Stored::Yes);
    assert_eq!(tracked(&*store, &ended.id).await, None);
    assert_eq!(tracked(&*store, &neighbour.id).await, Some(neighbour));
}

async fn a_tracker_that_is_gone_may_be_removed_again(store: impl Fixture) {
    let open = opened(&*store, "t").await;
    for gone in [&open, &open, &Tracker { revision: Revision(99), ..open.clone() }, &tracker("never")] {
        assert_eq!(store.remove_tracker(gone).await.unwrap(), Stored::Yes);
    }
    opened(&*store, "t").await;
}
