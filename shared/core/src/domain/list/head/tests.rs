use proptest::prelude::*;

use super::*;
use crate::domain::id::ListId;

fn head() -> Head {
    Head::open(Life { id: ListId::new("l"), opened_at: Timestamp(1) })
}

fn reserve(key: &str, count: u64, most_taken: u64, seen: u64) -> Reserve {
    let purpose = Purpose::Release { asked: count };
    let (most_taken, seen) = (Token(most_taken), Token(seen));
    Reserve { key: key.to_owned(), purpose, count, at: Timestamp(2), most_taken, seen }
}

#[test]
fn a_taking_never_passes_the_tail_and_a_key_takes_once() {
    let first = head().after(&Move::Reserve(reserve("a", 3, 2, 0))).unwrap();
    assert_eq!((first.taken, first.reservations["a"].start), (Token(3), Token(0)));
    assert_eq!(first.after(&Move::Reserve(reserve("b", 3, 2, 0))), None, "only two are left");
    assert_eq!(first.after(&Move::Reserve(reserve("a", 1, 4, 3))), None, "the key was used");
    let second = first.after(&Move::Reserve(reserve("b", 2, 3, 0))).unwrap();
    assert_eq!((second.taken, second.reservations["b"].start), (Token(5), Token(3)));
}

#[test]
fn a_closed_list_is_discarded_but_not_released() {
    let closed = Head { is_closed: true, ..head() };
    let release = reserve("a", 1, 9, 0);
    assert_eq!(closed.after(&Move::Reserve(release.clone())), None);
    let discarded = closed.after(&Move::Reserve(Reserve { purpose: Purpose::Discard, ..release })).unwrap();
    assert_eq!((discarded.taken, discarded.discarded), (Token(1), 1));
    let more = Reserve { purpose: Purpose::Discard, ..reserve("b", 3, 9, 0) };
    assert_eq!(discarded.after(&Move::Reserve(more)).unwrap().discarded, 4);
}

/// A reservation of one token, made at a time.
fn taken_at(at: u64) -> Reservation {
    Reservation { start: Token(0), count: 1, purpose: Purpose::Discard, at: Timestamp(at) }
}

#[test]
fn of_more_than_a_few_that_linger_each_may_be_picked_and_no_other() {
    let lingering = ["a", "b", "c", "d", "e"].map(|key| (key.to_owned(), taken_at(0)));
    let [young, now] = [9_900, 10_000];
    let with = |reservations: &[(String, Reservation)]| Head {
        reservations: reservations.iter().cloned().chain([("young".to_owned(), taken_at(young))]).collect(),
        ..head()
    };
    let picked = |pick| with(&lingering).straggler(Timestamp(now), pick).map(str::to_owned);
    assert_eq!([0.0, 0.3, 0.5, 0.7, 0.99].map(|pick| picked(pick).unwrap()), ["a", "b", "c", "d", "e"]);
    assert_eq!(with(&lingering[1..]).straggler(Timestamp(now), 0.0), None, "four are a few");
}

#[test]
fn a_head_shows_a_write_that_was_made_and_none_that_was_not() {
    let reserve = |at| Move::Reserve(Reserve { at: Timestamp(at), ..reserve("a", 2, 9, 0) });
    let taken = head().after(&reserve(2)).unwrap();
    assert!(taken.shows(&reserve(2)) && !taken.shows(&reserve(3)), "another call may have used the key");
    assert!(!head().shows(&reserve(2)));
    let forget = taken.forgetting("a").unwrap();
    assert!(!taken.shows(&forget) && taken.after(&forget).unwrap().shows(&forget));
    let look = Move::Look { was: taken.due, reservations: 1, due: Some(Timestamp(99)) };
    let looked = taken.after(&look).unwrap();
    assert!(looked.shows(&look) && !taken.shows(&look), "it is to be looked at when it was to be before");
    assert!(!Head { reservations: BTreeMap::new(), ..looked }.shows(&look));
}

#[test]
fn a_write_that_assumes_another_head_is_refused() {
    let taken = head().after(&Move::Reserve(reserve("a", 2, 9, 0))).unwrap();
    let forget = |below| Move::Forget { key: "a".to_owned(), end: Token(2), below };
    assert!(taken.after(&forget(false)).is_some());
    assert_eq!(taken.after(&forget(true)), None, "no higher end was forgotten");
    let mut higher = taken.clone();
    higher.forgotten.raise("a", Token(2));
    assert_eq!(higher.forgetting("a"), Some(forget(true)));
    assert_eq!(higher.after(&forget(false)), None, "one was forgotten since");
    let look = |was, reservations| Move::Look { was, reservations, due: None };
    assert!(taken.after(&look(taken.due, 1)).is_some());
    assert_eq!(taken.after(&look(taken.due, 2)), None);
    assert_eq!(taken.after(&look(None, 1)), None);
}

#[test]
fn so_many_reservations_at_once_and_no_more() {
    let mut head = head();
    for n in 0..MAX_RESERVATIONS {
        head = head.after(&Move::Reserve(reserve(&format!("k{n}"), 1, 1_000, 0))).unwrap();
    }
    assert_eq!(head.after(&Move::Reserve(reserve("late", 1, 1_000, 0))), None);
    let freed = head.after(&head.forgetting("k0").unwrap()).unwrap();
    assert!(freed.after(&Move::Reserve(reserve("late", 1, 1_000, freed.taken.0))).is_some());
}

#[test]
fn sweep_is_called_for_the_first_reservation_and_passes_over_none() {
    let first = head().after(&Move::Reserve(reserve("a", 1, 9, 0))).unwrap();
    let look = first.looking();
    let second = first.after(&Move::Reserve(Reserve { at: Timestamp(99), ..reserve("b", 1, 9, 0) })).unwrap();
    assert_eq!((first.due, second.due), (Some(Timestamp(10_007)), Some(Timestamp(10_007))));
    assert_eq!(second.after(&look), None, "somebody took tokens since sweep looked");
    let none = first.after(&first.forgetting("a").unwrap()).unwrap();
    assert_eq!(none.after(&none.looking()).unwrap().due, None);
}

proptest! {
    /// Whatever others do in between, and whenever a copy of a taking arrives after the taking itself: it is refused.
    #[test]
    fn a_late_copy_of_a_taking_is_refused(
        counts in prop::collection::vec(1..5_u64, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 24),
    ) {
        let (mut head, mut made, mut waiting) = (head(), Vec::new(), counts.clone());
        for (step, pick) in order.iter().enumerate() {
            let open: Vec<String> = head.reservations.keys().cloned().collect();
            if !waiting.is_empty() && (open.is_empty() || step % 2 == 0) {
                let next = reserve(&format!("k{step}"), waiting.remove(0), 1_000, head.taken.0);
                head = head.after(&Move::Reserve(next.clone())).unwrap();
                made.push(next);
            } else if !open.is_empty() {
                head = head.after(&head.forgetting(&open[pick.index(open.len())]).unwrap()).unwrap();
            }
            for copy in &made {
                prop_assert_eq!(head.after(&Move::Reserve(copy.clone())), None);
            }
        }
        prop_assert_eq!(head.taken.0, made.iter().map(|reserve| reserve.count).sum::<u64>());
    }
}
