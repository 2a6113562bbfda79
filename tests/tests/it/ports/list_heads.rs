//! What every `Lists` must do with a list's head: who takes tokens, who owes what, and how far that is.

use groupage_core::domain::list::{Move, Options, Purpose, Record, Reservation, Reserve, State, Strand, Tail};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::lists::{NOW, life, listed, opened, taking};

conformance![
    a_move_of_the_head_is_what_the_domain_says,
    nothing_is_taken_where_there_is_no_list,
    a_tail_is_written_with_its_head_or_not_at_all,
    a_record_only_goes_forward,
];

fn discarding(key: &str, count: u64, at: u64) -> Move {
    let (purpose, most_taken, seen) = (Purpose::Discard, Token(99), Token(99));
    Move::Reserve(Reserve { key: key.to_owned(), purpose, count, at: Timestamp(at), most_taken, seen })
}

/// A key that begins like this and lies in the strand of `a`, or in another.
fn key(name: &str, same_strand: bool) -> String {
    let keys = (0..).map(|n| format!("{name}{n}"));
    keys.into_iter().find(|key| (Strand::of(key) == Strand::of("a")) == same_strand).unwrap()
}

/// Each of many moves, good ones and bad, against the domain's decision.
async fn a_move_of_the_head_is_what_the_domain_says(store: impl Fixture) {
    let tail = opened(&*store, "l").await;
    let forget = |key: &str, end, below| Move::Forget { key: key.to_owned(), end: Token(end), below };
    let look = |was: Option<u64>, reservations, due: Option<u64>| Move::Look {
        was: was.map(Timestamp),
        reservations,
        due: due.map(Timestamp),
    };
    let [odd, b, c, d, e] = &["k-#: é", "b", "c", "d", "e"].map(|name| key(name, true));
    let elsewhere = &key("elsewhere", false);
    let moves = [
        taking("a", 3, 10, 0),
        taking("a", 3, 10, 3),
        taking(b, 4, 2, 0),
        taking(b, 4, 3, 0),
        taking(odd, 1, 99, 7),
        forget("none", 1, false),
        forget(b, 7, true),
        forget(b, 7, false),
        forget(b, 7, true),
        taking(b, 1, 99, 6),
        taking(elsewhere, 1, 99, 6),
        forget(elsewhere, 9, true),
        forget(elsewhere, 9, false),
        taking(c, 1, 99, 7),
        forget("a", 3, false),
        forget("a", 3, true),
        look(Some(1), 2, None),
        look(Some(15_015), 9, None),
        look(Some(15_015), 2, Some(77)),
        look(Some(77), 2, None),
        discarding(d, 5, 6_000),
        forget(d, 15, false),
        taking(e, 1, 99, 99),
        forget(odd, 8, true),
        forget(c, 10, true),
        look(Some(16_025), 1, None),
    ];
    let mut made = 0;
    for next in moves.iter().chain([&taking("closed", 1, 99, 99), &discarding("closed", 2, 6_001)]) {
        if matches!(next, Move::Reserve(reserve) if reserve.key == "closed")
            && !listed(&*store, "l").await.unwrap().head.is_closed
        {
            store.store_tail(&tail.in_state(State::Closed, NOW)).await.unwrap();
        }
        let before = listed(&*store, "l").await.unwrap().head;
        let expected = match before.after(next) {
            Some(after) => Moved::Yes(after),
            None if before.shows(next) => Moved::Yes(before.clone()),
            None => Moved::No(Some(before.clone())),
        };
        made += usize::from(matches!(&expected, Moved::Yes(after) if *after != before));
        assert_eq!(store.move_head(&life("l"), next).await.unwrap(), expected, "{next:?}");
        let now = listed(&*store, "l").await.unwrap().head;
        assert_eq!(now, before.after(next).unwrap_or(before), "{next:?}");
    }
    assert_eq!(made, 17, "good ones and bad");
}

async fn nothing_is_taken_where_there_is_no_list(store: impl Fixture) {
    let look = Move::Look { was: None, reservations: 0, due: Some(NOW) };
    for next in [taking("k", 1, 9, 0), discarding("k", 1, 1), look] {
        assert_eq!(store.move_head(&life("l"), &next).await.unwrap(), Moved::No(None));
    }
    assert_eq!(listed(&*store, "l").await, None);
}

async fn a_tail_is_written_with_its_head_or_not_at_all(store: impl Fixture) {
    let open = opened(&*store, "l").await;
    let closed = open.in_state(State::Closed, NOW);
    for (tail, is_closed) in [
        (closed.clone(), true),
        (closed.clone(), true),
        (closed.in_state(State::Open, NOW), false),
        (closed.in_state(State::Open, NOW).in_state(State::Removing, NOW), true),
    ] {
        assert_eq!(store.store_tail(&tail).await.unwrap(), Stored::Yes);
        let list = listed(&*store, "l").await.unwrap();
        assert_eq!((list.tail, list.head.is_closed), (tail, is_closed));
    }
    for stale in [open.in_state(State::Open, NOW), open.due_at(NOW)] {
        assert_eq!(store.store_tail(&stale).await.unwrap(), Stored::Conflict);
        assert!(listed(&*store, "l").await.unwrap().head.is_closed);
    }
    let none = Tail::open(life("none"), Options::default()).in_state(State::Closed, NOW);
    assert_eq!(store.store_tail(&none).await.unwrap(), Stored::Conflict);
    assert_eq!(listed(&*store, "none").await, None);
}

async fn a_record_only_goes_forward(store: impl Fixture) {
    let life = life("l");
    opened(&*store, "l").await;
    for (key, purpose) in [("k#1", Purpose::Release { asked: 9 }), ("k", Purpose::Discard)] {
        let reservation = Reservation { start: Token(4), count: 5, purpose, at: NOW };
        let at = |done| Record { done: Token(done), ..Record::of(key, reservation) };
        assert_eq!(store.record(&life, key).await.unwrap(), None);
        for done in [5, 5, 9] {
            assert_eq!(store.store_record(&life, &at(done), NOW).await.unwrap(), Stored::Yes);
            assert_eq!(store.record(&life, key).await.unwrap(), Some(at(done)));
        }
        assert_eq!(store.store_record(&life, &at(8), NOW).await.unwrap(), Stored::Conflict);
        assert_eq!(store.record(&life, key).await.unwrap(), Some(at(9)));
    }
}
