use proptest::prelude::*;

use super::*;
use crate::domain::id::{Round, TaskId};
use crate::domain::traits::{Collapse, Traits};

fn candidate(n: u32, bytes: u32) -> Candidate {
    Candidate { id: TaskId::new(format!("t{n:03}")), round: Round(0), bytes, traits: Traits::default() }
}

fn load(members: u32) -> Load {
    let mut load = Load::default();
    (0..members).for_each(|n| load.add(&candidate(n, 1)));
    load
}

#[test]
fn a_batch_waits_for_its_window_until_it_is_large_enough_or_nothing_comes() {
    let (last, until) = (Timestamp(3_000), Timestamp(9_000));
    let waits = |min_items, quiet_ms, joined| {
        Limits { min_items, quiet_ms, ..Limits::default() }.waits_until(&load(joined), last, until)
    };
    assert_eq!(waits(None, None, 99), until);
    assert_eq!((waits(Some(10), None, 9), waits(Some(10), None, 10)), (until, last));
    assert_eq!(waits(None, Some(500), 1), Timestamp(3_500));
    assert_eq!(waits(None, Some(60_000), 1), until, "the window is the longest wait");
    assert_eq!((waits(Some(10), Some(500), 9), waits(Some(10), Some(500), 10)), (until, Timestamp(3_500)));
}

#[test]
fn a_rest_that_is_large_enough_is_a_batch_unless_others_may_come_soon() {
    let sizes = |limits: Limits, count| {
        limits.carve((0..count).map(|n| candidate(n, 1)).collect()).iter().map(Vec::len).collect::<Vec<_>>()
    };
    let limits = Limits { max_items: 10, min_items: Some(4), ..Limits::default() };
    assert_eq!((sizes(limits, 23), sizes(limits, 24)), (vec![10, 10], vec![10, 10, 4]));
    assert_eq!(sizes(Limits { quiet_ms: Some(500), ..limits }, 24), [10, 10]);
}

#[test]
fn a_task_that_closes_its_batch_ends_the_wait_whatever_else_is_asked_for() {
    let closing = Candidate { traits: Traits { closes: true, ..Traits::default() }, ..candidate(1, 1) };
    let mut load = load(1);
    load.add(&closing);
    for (min_items, quiet_ms) in [(None, None), (Some(9), None), (None, Some(500)), (Some(9), Some(500))] {
        let limits = Limits { min_items, quiet_ms, closes: true, ..Limits::default() };
        assert_eq!(limits.waits_until(&load, Timestamp(3_000), Timestamp(9_000)), Timestamp(3_000));
    }
}

#[test]
fn what_concerns_those_that_wait_is_left_to_a_leader_at_once() {
    let usual = Limits { max_items: 1, ..Limits::default() };
    let of = |traits| Candidate { traits, ..candidate(2, 1) };
    let closing = of(Traits { closes: true, ..Traits::default() });
    let keyed = of(Traits { collapse: Some(Collapse::of("7")), ..Traits::default() });
    assert_eq!(usual.carve(vec![candidate(1, 1)]).len(), 1);
    let closes = Limits { closes: true, ..usual };
    assert_eq!((closes.carve(vec![candidate(1, 1)]).len(), closes.carve(vec![candidate(1, 1), closing]).len()), (1, 0));
    let collapses = Limits { collapses: true, ..usual };
    assert_eq!(collapses.carve(vec![keyed]).len(), 0);
    assert_eq!([usual, closes, collapses].map(|limits| limits.patience_ms()), [1_000, 0, 0]);
}

proptest! {
    #[test]
    fn carved_batches_are_full_and_in_order_and_the_rest_is_not(
        sizes in proptest::collection::vec(0_u32..100, 0..60), max_items in 1_usize..20, max_bytes in 1_u64..500,
    ) {
        let limits = Limits { max_items, max_bytes, ..Limits::default() };
        let all: Vec<_> = sizes.iter().zip(0..).map(|(size, n)| candidate(n, *size)).collect();
        let batches = limits.carve(all.clone());
        let carved: Vec<_> = batches.iter().flatten().cloned().collect();
        prop_assert_eq!(&all[..carved.len()], &carved[..]);
        let bytes = |batch: &[Candidate]| batch.iter().map(|c| u64::from(c.bytes)).sum::<u64>();
        let mut behind = 0;
        for batch in &batches {
            behind += batch.len();
            prop_assert!(batch.len() <= max_items && (batch.len() == 1 || bytes(batch) <= max_bytes));
            let next = all.get(behind).map_or(0, |next| u64::from(next.bytes));
            prop_assert!(batch.len() == max_items || bytes(batch) + next > max_bytes);
        }
        let rest = &all[carved.len()..];
        prop_assert!(rest.len() < max_items && (rest.len() <= 1 || bytes(rest) <= max_bytes));
    }
}

fn weighing(n: u32, weight: u32) -> Candidate {
    Candidate { traits: Traits { weight, ..Traits::default() }, ..candidate(n, 1) }
}

/// The `n`th task to come, with this collapse key.
fn keyed(n: u32, key: u128, bytes: u32) -> Candidate {
    let collapse = Some(Collapse { key, came: n.into() });
    Candidate { traits: Traits { collapse, ..Traits::default() }, ..candidate(n, bytes) }
}

fn taken(room: &Room, queue: &mut VecDeque<Candidate>) -> (Vec<String>, bool) {
    let (taken, full) = room.take(queue);
    (taken.into_iter().map(|candidate| candidate.id.to_string()).collect(), full)
}

#[test]
fn an_empty_batch_takes_one_task_that_is_larger_than_the_limit() {
    let limits = Limits { max_items: 9, max_bytes: 500, max_weight: Some(5), ..Limits::default() };
    for large in [candidate(1, 600), weighing(1, 6)] {
        let mut queue = VecDeque::from([large, candidate(2, 1)]);
        let (taken, full) = limits.room().take(&mut queue);
        assert_eq!((taken.len(), full), (1, true));
    }
}

#[test]
fn only_a_batch_without_a_member_takes_one_that_is_too_large() {
    let limits = Limits { max_items: 5, max_bytes: 100, ..Limits::default() };
    let beside_one = limits.room().beside(&[candidate(1, 10)]);
    assert_eq!((limits.room().items(), beside_one.items()), (5, 4));
    assert_eq!(taken(&beside_one, &mut VecDeque::from([candidate(2, 91)])), (vec![], true));
    assert_eq!(taken(&beside_one, &mut VecDeque::from([candidate(2, 90)])), (vec!["t002".to_owned()], false));
    assert_eq!(limits.room().beside(&[]), limits.room());
}

#[test]
fn a_batch_is_full_once_it_has_its_weight() {
    let limits = Limits { max_weight: Some(10), ..Limits::default() };
    let mut queue = VecDeque::from([weighing(1, 4), weighing(2, 0), weighing(3, 6), weighing(4, 0)]);
    let (some, full) = taken(&limits.room(), &mut queue);
    assert_eq!((some.len(), full, queue.len()), (4, true, 0), "what weighs nothing always fits");
    let mut queue = VecDeque::from([weighing(1, 4), weighing(2, 7)]);
    assert_eq!(taken(&limits.room(), &mut queue), (vec!["t001".to_owned()], true));
    assert!(limits.room().beside(&[weighing(1, 10)]).is_full() && !limits.room().beside(&[weighing(1, 9)]).is_full());
    assert_eq!(limits.room().beside(&[weighing(1, 2), weighing(2, 2)]).full_in(), 3);
    assert_eq!(limits.room().full_in(), 100, "nothing is known of its tasks");
}

#[test]
fn tasks_with_one_collapse_key_take_one_place() {
    let limits = Limits { max_items: 2, collapses: true, ..Limits::default() };
    let thousand: VecDeque<_> = (0..1_000).map(|n| keyed(n, 7, 500)).collect();
    assert_eq!(limits.room().take(&mut thousand.clone()).0.len(), 1_000, "they come to 500 bytes");
    assert_eq!(limits.room().take(&mut thousand.iter().cloned().chain([keyed(1_000, 7, 1)]).collect()).0.len(), 1_000);
    let mut queue = VecDeque::from([keyed(1, 7, 1), keyed(2, 8, 1), keyed(3, 9, 1), keyed(4, 7, 1), candidate(5, 1)]);
    let (some, full) = taken(&limits.room(), &mut queue);
    assert_eq!((some, full), (vec!["t001".to_owned(), "t002".to_owned(), "t004".to_owned()], true));
    assert_eq!(queue.iter().map(|left| left.id.as_str()).collect::<Vec<_>>(), ["t003", "t005"]);
}

#[test]
fn of_one_key_the_newest_counts_with_its_size() {
    let limits = Limits { max_items: 9, max_bytes: 100, collapses: true, ..Limits::default() };
    let room = limits.room().beside(&[keyed(2, 7, 90), keyed(1, 7, 1_000)]);
    assert_eq!((room.load.bytes(), room.load.called()), (90, 1), "the one that is not called counts nothing");
    assert_eq!(room.beside(&[keyed(3, 7, 5)]).load.bytes(), 5);
    assert_eq!(taken(&room, &mut VecDeque::from([keyed(3, 7, 101)])), (vec![], true));
}

proptest! {
    #[test]
    fn what_is_taken_fits_and_nothing_that_fits_is_left_in_front(
        tasks in proptest::collection::vec((0_u32..100, 0_u32..5, 0_u128..4), 0..50), max_items in 1_usize..20,
        max_bytes in 100_u64..500, max_weight in proptest::option::of(5_u64..20), collapses: bool,
    ) {
        let limits = Limits { max_items, max_bytes, max_weight, collapses, ..Limits::default() };
        let mut queue: VecDeque<_> = tasks.iter().zip(0..).map(|((bytes, weight, key), n)| {
            let collapse = collapses.then_some(Collapse { key: *key, came: u64::from(n * 7 % 50) });
            Candidate { traits: Traits { weight: *weight, collapse, ..Traits::default() }, ..candidate(n, *bytes) }
        }).collect();
        let before = queue.len();
        let (taken, full) = limits.room().take(&mut queue);
        let called: Vec<&Candidate> = taken.iter().filter(|one| {
            let replaced = |other: &&Candidate| other.traits.collapse.zip(one.traits.collapse)
                .is_some_and(|(other_key, key)| other_key.replaces(&other.id, (&key, &one.id)));
            !taken.iter().any(|other| replaced(&other))
        }).collect();
        prop_assert!(called.len() <= max_items);
        prop_assert!(called.iter().map(|c| u64::from(c.bytes)).sum::<u64>() <= max_bytes);
        let weight = called.iter().map(|c| u64::from(c.traits.weight)).sum::<u64>();
        prop_assert!(max_weight.is_none_or(|most| weight <= most));
        prop_assert_eq!(taken.len() + queue.len(), before);
        let beside = limits.room().beside(&taken);
        prop_assert_eq!(beside.load.called(), called.len());
        if let Some(next) = queue.front() {
            prop_assert!(full && !beside.fits(next));
        }
    }
}
