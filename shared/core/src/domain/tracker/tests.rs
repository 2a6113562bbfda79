use proptest::prelude::*;

use super::*;

fn tracker(items: u64) -> Tracker {
    let options = Options { deadline: None, notify: NotificationQueue::None };
    Tracker { items, ..Tracker::open(TrackerId::new("t"), options, Timestamp(0)) }
}

#[test]
fn a_tracker_takes_no_more_than_it_can_number() {
    assert!(tracker(MAX_ITEMS).grown("k", 1, Timestamp(1)).is_none());
    assert!(tracker(0).grown("k", u64::MAX, Timestamp(1)).is_none());
    let largest = tracker(MAX_ITEMS);
    let last = Place::of(MAX_ITEMS - 1).unwrap();
    assert!(largest.has(last) && !largest.has(Place::of(MAX_ITEMS).unwrap()));
    assert!(largest.is_below(NodeId { level: MAX_LEVEL, index: 0 }), "the highest level is high enough");
}

#[test]
fn a_tracker_that_is_used_is_not_abandoned() {
    let patience = Patience { open_ms: 1_000, sealed_ms: 5_000 };
    let opened = tracker(10);
    assert_eq!(opened.is_over(0, patience, Timestamp(999)), None);
    assert_eq!(opened.is_over(0, patience, Timestamp(1_000)), Some(Ending::Abandoned));
    assert_eq!(opened.is_over(1, patience, Timestamp(1_000)), None, "somebody acked");
    let seen = opened.looked_at(1, Timestamp(1_000));
    assert_eq!(seen.is_over(1, patience, Timestamp(1_999)), None);
    assert_eq!(seen.is_over(1, patience, Timestamp(2_000)), Some(Ending::Abandoned));
    let sealed = opened.sealed(Timestamp(900));
    assert_eq!(sealed.is_over(0, patience, Timestamp(5_899)), None, "sealed ones have their own time");
}

#[test]
fn sweep_looks_at_growing_intervals_and_never_later_than_the_deadline() {
    let mut tracker = Tracker { deadline: Some(Timestamp(10_000_000)), ..tracker(1) }.sealed(Timestamp(0));
    let mut looks = vec![tracker.due.0];
    while tracker.due.0 < 10_000_000 {
        tracker = tracker.looked_at(0, tracker.due);
        looks.push(tracker.due.0);
    }
    let minutes: Vec<u64> = looks.iter().map(|at| at / 60_000).collect();
    assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 64, 124, 166]);
    assert_eq!(looks.last(), Some(&10_000_000));
}

#[test]
fn a_deadline_ends_whatever_is_not_over_yet() {
    let patience = Patience { open_ms: 1_000, sealed_ms: 5_000 };
    let due = Tracker { deadline: Some(Timestamp(100)), ..tracker(10) };
    assert_eq!(due.is_over(10, patience, Timestamp(99)), None);
    assert_eq!(due.is_over(10, patience, Timestamp(100)), Some(Ending::Overdue));
    assert_eq!(due.completed(0, Timestamp(50)).is_over(10, patience, Timestamp(100)), None, "it is over already");
}

#[test]
fn a_look_that_finds_nothing_new_keeps_nobody_from_counting_as_gone() {
    let patience = Patience { open_ms: 1_000, sealed_ms: 5_000 };
    let seen = tracker(10).looked_at(1, Timestamp(500)).looked_at(1, Timestamp(900));
    assert_eq!(seen.is_over(1, patience, Timestamp(1_499)), None);
    assert_eq!(seen.is_over(1, patience, Timestamp(1_500)), Some(Ending::Abandoned));
}

#[test]
fn what_is_added_comes_behind_all_that_is_there() {
    let before = tracker(5);
    let (after, addition) = before.grown("k", 3, Timestamp(9)).unwrap();
    assert_eq!(addition, Addition { key: "k".to_owned(), start: 5, count: 3 });
    assert_eq!((after.items, after.active_at, after.revision), (8, Timestamp(9), before.revision.next()));
}

#[test]
fn the_largest_addition_is_a_thousand_full_groups() {
    let largest = Addition { key: String::new(), start: 0, count: MAX_ADDED };
    assert!(largest.groups().all(|group| group.size == GROUP_SIZE));
    assert_eq!(largest.groups().count(), 1_000);
    assert_eq!(Addition { start: 5, count: 0, ..largest }.groups().count(), 0, "no items, no groups");
}

#[test]
fn whoever_changes_a_trackers_state_gives_sweep_its_first_interval_back() {
    let looked = (1..5).fold(tracker(9), |tracker, look| tracker.looked_at(0, Timestamp(look)));
    assert!(looked.due > Timestamp(4 + 4 * GRACE_MS));
    let now = Timestamp(1_000);
    for next in [looked.sealed(now), looked.completed(0, now)] {
        assert_eq!((next.due, next.looks), (now.plus_ms(GRACE_MS), 0));
        assert!(next.revision > looked.revision);
    }
    assert_eq!(looked.sealed(now).active_at, now);
}

#[test]
fn a_notice_is_sent_once_and_only_if_somebody_wants_it() {
    let told = |tracker: &Tracker| match &tracker.state {
        State::Ended(end) => end.told,
        State::Open | State::Sealed => panic!("it has not ended"),
    };
    let quiet = tracker(3).completed(0, Timestamp(5));
    assert!(told(&quiet));
    let ended = Tracker { notify: NotificationQueue::Default, ..tracker(3) }.completed(0, Timestamp(5));
    assert!(!told(&ended) && told(&ended.told()));
    let postponed = ended.postponed(Timestamp(100));
    assert_eq!((postponed.due, postponed.looks), (Timestamp(100 + GRACE_MS), 1));
    assert_eq!(ended.kept_until(Timestamp(7)).due, Timestamp(7));
}

#[test]
fn every_state_has_a_word_of_its_own() {
    let ended = |how| tracker(1).ended(how, Survey::default(), Timestamp(1)).state;
    let all = [State::Open, State::Sealed, ended(Ending::Completed), ended(Ending::Overdue), ended(Ending::Abandoned)];
    assert_eq!(all.each_ref().map(State::word), ["open", "sealed", "completed", "overdue", "abandoned"]);
}

proptest! {
    #[test]
    fn the_items_of_an_end_add_up(items in 0..100_u64, done in 0..120_u64, counted in 0..120_u64) {
        // Both were counted while others wrote: each may be of another moment.
        let survey = Survey { done, failed: counted, ..Survey::default() };
        let State::Ended(end) = tracker(items).ended(Ending::Overdue, survey, Timestamp(1)).state else {
            panic!("it has not ended")
        };
        prop_assert_eq!(end.missing, items - done.min(items));
        prop_assert_eq!(end.failed, counted.min(done).min(items));
        let State::Ended(end) = tracker(items).completed(counted, Timestamp(1)).state else {
            panic!("it has not ended")
        };
        prop_assert_eq!((end.missing, end.failed), (0, counted.min(items)));
    }

    #[test]
    fn every_added_item_lies_in_one_group(start in 0..50_000_u64, count in 0..50_000_u64) {
        let addition = Addition { key: "k".to_owned(), start, count };
        let mut next = start;
        for group in addition.groups() {
            let place = Place { group: group.group, index: group.first };
            prop_assert_eq!(place.number(), next);
            prop_assert!(group.size > 0 && group.first + group.size <= GROUP_SIZE);
            next += u64::from(group.size);
        }
        prop_assert_eq!(next, start + count);
    }

    #[test]
    fn a_nodes_size_is_how_many_children_have_items(items in 0..MAX_ITEMS) {
        let tracker = tracker(items);
        let size_of = |group| tracker.size_of(NodeId::group(group));
        prop_assert_eq!(size_of(tracker.groups()), 0);
        prop_assert!(items == 0 || size_of(tracker.groups() - 1) > 0);
        for level in 0..=MAX_LEVEL {
            let below = |index: u32| u64::from(tracker.size_of(NodeId { level, index }));
            let children = items.div_ceil(u64::from(GROUP_SIZE).pow(u32::from(level)));
            let last = u32::try_from(children / u64::from(GROUP_SIZE)).unwrap();
            prop_assert_eq!(u64::from(last) * u64::from(GROUP_SIZE) + below(last), children);
            prop_assert_eq!(below(last + 1), 0);
            let second = NodeId { level, index: 1 };
            prop_assert!(!tracker.is_below(second));
            prop_assert_eq!(tracker.is_below(NodeId { level, index: 0 }), children <= u64::from(GROUP_SIZE));
        }
    }
}
