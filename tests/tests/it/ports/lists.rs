//! What every `Lists` must do with a list's ends and its tasks, and with the index of those due.

use groupage_core::domain::list::{
    Addition, Head, Life, MAX_PUT, Move, Options, Purpose, Put, Record, Reservation, Reserve, Slot, Tail,
};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};

conformance![
    a_list_is_read_as_it_was_opened,
    a_repeated_opening_of_a_list_recognises_itself,
    a_list_that_is_there_is_not_opened_anew,
    tasks_are_read_in_the_order_of_their_tokens,
    the_largest_put_of_all_is_put_at_once,
    a_put_to_a_tail_that_moved_leaves_nothing,
    a_key_that_was_used_shows_what_was_put_and_leaves_the_list,
    several_callers_tasks_are_put_together_or_not_at_all,
    neither_lists_nor_lives_meet,
    tasks_that_are_removed_stay_so_and_their_neighbours_stay,
    lists_that_are_due_are_listed_by_part_in_order,
    a_list_is_listed_once_whichever_end_is_due,
    a_list_is_cleared_and_then_removed_at_its_revision,
];

pub const NOW: Timestamp = Timestamp(5_000);

pub fn life(id: &str) -> Life {
    Life { id: ListId::new(id), opened_at: Timestamp(1_000) }
}

fn opening(life: &Life) -> Put {
    let tail = Tail::open(life.clone(), Options { ttl_ms: Some(86_400_000) });
    Put { tail, additions: Vec::new(), slots: Vec::new() }
}

pub async fn opened(store: &impl Lists, id: &str) -> Tail {
    let put = opening(&life(id));
    assert_eq!(store.put_on_list(&put).await.unwrap(), PutOn::Yes);
    put.tail
}

/// A release that takes this many tokens.
pub fn taking(key: &str, count: u64, most_taken: u64, seen: u64) -> Move {
    Move::Reserve(Reserve {
        key: key.to_owned(),
        purpose: Purpose::Release { asked: count + 1 },
        count,
        at: NOW,
        most_taken: Token(most_taken),
        seen: Token(seen),
    })
}

fn addition(key: &str, start: u64, count: u64) -> Addition {
    let item = ItemId::parse("t:0:3").ok();
    Addition { key: key.to_owned(), start: Token(start), count, digest: format!("digest of {key}"), item }
}

fn slots(start: u64, count: u64) -> Vec<Slot> {
    (start..start + count).map(|n| Slot { token: Token(n), body: format!("{{\"id\":\"t-{n}\"}}") }).collect()
}

/// A put of this many tasks after a tail.
fn putting(tail: &Tail, key: &str, count: u64) -> Put {
    let start = tail.given.0;
    Put {
        tail: tail.grown(count, false, NOW),
        additions: vec![addition(key, start, count)],
        slots: slots(start, count),
    }
}

/// Puts tasks; the tail afterwards. An answer that was lost shows as what was put before.
async fn put(store: &impl Lists, tail: &Tail, key: &str, count: u64) -> Tail {
    let put = putting(tail, key, count);
    let answer = store.put_on_list(&put).await.unwrap();
    assert!(answer == PutOn::Yes || answer == PutOn::Before(put.additions.clone()), "{answer:?}");
    put.tail
}

pub async fn listed(store: &impl Lists, id: &str) -> Option<List> {
    store.list(&ListId::new(id)).await.unwrap()
}

async fn all_slots(store: &impl Lists, life: &Life) -> Vec<Slot> {
    store.slots(life, Token(0), Token(10_000), 10_000).await.unwrap()
}

async fn a_list_is_read_as_it_was_opened(store: impl Fixture) {
    assert_eq!(listed(&*store, "l").await, None);
    let tail = opened(&*store, "l").await;
    let head = Head::open(life("l"));
    assert_eq!(listed(&*store, "l").await, Some(List { tail, head }));
    let plain = Put { tail: Tail::open(life("p"), Options::default()), ..opening(&life("p")) };
    store.put_on_list(&plain).await.unwrap();
    assert_eq!(listed(&*store, "p").await.unwrap().tail, plain.tail);
}

async fn a_repeated_opening_of_a_list_recognises_itself(store: impl Fixture) {
    opened(&*store, "l").await;
    let again = store.put_on_list(&opening(&life("l"))).await.unwrap();
    assert!(again == PutOn::Yes || again == PutOn::Conflict);
}

async fn a_list_that_is_there_is_not_opened_anew(store: impl Fixture) {
    let tail = put(&*store, &opened(&*store, "l").await, "k", 3).await;
    let later = Life { opened_at: NOW, ..life("l") };
    for other in [opening(&life("l")), opening(&later)] {
        assert_eq!(store.put_on_list(&other).await.unwrap(), PutOn::Conflict);
        assert_eq!(listed(&*store, "l").await.unwrap().tail, tail);
    }
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, 3));
}

async fn tasks_are_read_in_the_order_of_their_tokens(store: impl Fixture) {
    let mut tail = opened(&*store, "l").await;
    for n in 0..3 {
        tail = put(&*store, &tail, &format!("k{n}"), 9).await;
    }
    assert_eq!(listed(&*store, "l").await.unwrap().tail, tail);
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, 27));
    let life = life("l");
    assert_eq!(store.slots(&life, Token(9), Token(17), 5).await.unwrap(), slots(9, 5));
    assert_eq!(store.slots(&life, Token(9), Token(12), 5).await.unwrap(), slots(9, 3));
    assert_eq!(store.slots(&life, Token(27), Token(99), 5).await.unwrap(), []);
    assert_eq!(store.slots(&life, Token(5), Token(5), 5).await.unwrap(), []);
}

/// A new list with as many tasks as one transaction takes.
async fn the_largest_put_of_all_is_put_at_once(store: impl Fixture) {
    let count = MAX_PUT as u64;
    let tail = Tail::open(life("l"), Options::default()).grown(count, true, NOW);
    let put = Put { tail, additions: vec![addition("k", 0, count)], slots: slots(0, count) };
    let answer = store.put_on_list(&put).await.unwrap();
    assert!(answer == PutOn::Yes || answer == PutOn::Before(put.additions.clone()), "{answer:?}");
    assert_eq!(listed(&*store, "l").await, Some(List { tail: put.tail, head: Head::open(life("l")) }));
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, count));
}

async fn a_put_to_a_tail_that_moved_leaves_nothing(store: impl Fixture) {
    let first = opened(&*store, "l").await;
    let second = put(&*store, &first, "a", 2).await;
    let other_life = Tail { life: Life { opened_at: NOW, ..life("l") }, ..second.clone() };
    for stale in [&first, &Tail { revision: Revision(9), ..second.clone() }, &other_life] {
        assert_eq!(store.put_on_list(&putting(stale, "b", 3)).await.unwrap(), PutOn::Conflict);
    }
    let nowhere = putting(&Tail::open(life("none"), Options::default()), "b", 3);
    assert_eq!(store.put_on_list(&nowhere).await.unwrap(), PutOn::Conflict);
    assert_eq!(listed(&*store, "none").await, None);
    assert_eq!(listed(&*store, "l").await.unwrap().tail, second);
    assert_eq!(store.additions(&life("l"), &["b".to_owned()]).await.unwrap(), []);
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, 2));
}

/// Whether the tail is at the revision before or not: the key decides.
async fn a_key_that_was_used_shows_what_was_put_and_leaves_the_list(store: impl Fixture) {
    let first = opened(&*store, "l").await;
    let key = "k#~!".repeat(32);
    let second = put(&*store, &first, &key, 2).await;
    for before in [&first, &second] {
        let answer = store.put_on_list(&putting(before, &key, 5)).await.unwrap();
        assert_eq!(answer, PutOn::Before(vec![addition(&key, 0, 2)]));
    }
    assert_eq!(listed(&*store, "l").await.unwrap().tail, second);
    let found = store.additions(&life("l"), &["other".to_owned(), key.clone()]).await.unwrap();
    assert_eq!(found, [addition(&key, 0, 2)]);
}

async fn several_callers_tasks_are_put_together_or_not_at_all(store: impl Fixture) {
    let tail = put(&*store, &opened(&*store, "l").await, "b", 1).await;
    let each = |keys: [&str; 3]| {
        let additions = keys.iter().zip(1..).map(|(key, start)| addition(key, start, 1)).collect();
        Put { tail: tail.grown(3, false, NOW), additions, slots: slots(1, 3) }
    };
    let repeated = store.put_on_list(&each(["a", "b", "c"])).await.unwrap();
    assert_eq!(repeated, PutOn::Before(vec![addition("b", 0, 1)]));
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, 1));
    store.put_on_list(&each(["a", "c", "d"])).await.unwrap();
    let keys = ["a", "b", "c", "d"].map(str::to_owned);
    assert_eq!(store.additions(&life("l"), &keys).await.unwrap().len(), 4);
    assert_eq!(all_slots(&*store, &life("l")).await, slots(0, 4));
}

async fn neither_lists_nor_lives_meet(store: impl Fixture) {
    for id in ["a", "b"] {
        put(&*store, &opened(&*store, id).await, "k", 2).await;
    }
    store.remove_slots(&life("a"), &[Token(0)]).await.unwrap();
    assert_eq!(all_slots(&*store, &life("b")).await, slots(0, 2));
    let later = Life { opened_at: NOW, ..life("b") };
    assert_eq!(all_slots(&*store, &later).await, []);
    assert_eq!(store.additions(&later, &["k".to_owned()]).await.unwrap(), []);
    store.remove_slots(&later, &[Token(0), Token(1)]).await.unwrap();
    assert_eq!(all_slots(&*store, &life("b")).await, slots(0, 2));
    assert_eq!(store.move_head(&later, &taking("k", 1, 9, 0)).await.unwrap(), Moved::No(None));
}

async fn tasks_that_are_removed_stay_so_and_their_neighbours_stay(store: impl Fixture) {
    let mut tail = opened(&*store, "l").await;
    for n in 0..2 {
        tail = put(&*store, &tail, &format!("k{n}"), 70).await;
    }
    let tokens: Vec<Token> = (10..130).map(Token).collect();
    for _ in 0..2 {
        store.remove_slots(&life("l"), &tokens).await.unwrap();
    }
    store.remove_slots(&life("l"), &[]).await.unwrap();
    assert_eq!(all_slots(&*store, &life("l")).await, [slots(0, 10), slots(130, 10)].concat());
}

/// Lists of one part that sweep looks at at these moments, in the order of their names; and one of another part.
async fn due_at(store: &impl Lists, moments: &[u64]) -> (Part, Vec<ListId>) {
    let part = Part::of_list(&ListId::new("l-0"));
    let ids = || (0..).map(|n| ListId::new(format!("l-{n}")));
    let mine: Vec<ListId> = ids().filter(|id| Part::of_list(id) == part).take(moments.len()).collect();
    let other = ids().find(|id| Part::of_list(id) != part).unwrap();
    for (id, due) in mine.iter().zip(moments).chain([(&other, &moments[0])]) {
        let put = opening(&life(id.as_str()));
        store.put_on_list(&Put { tail: Tail { due: Timestamp(*due), ..put.tail.clone() }, ..put }).await.unwrap();
    }
    (part, mine)
}

async fn lists_that_are_due_are_listed_by_part_in_order(store: impl Fixture) {
    let (part, ids) = due_at(&*store, &[500, 9_999, 300, 10_000, 400]).await;
    let tail = listed(&*store, ids[0].as_str()).await.unwrap().tail;
    put(&*store, &tail, "k", 2).await;
    store.index_settles().await;
    let due = store.due_lists(Look::at(part, Timestamp(10_000), 100)).await.unwrap().all();
    let expected: Vec<ListId> = [2, 4, 0, 1].map(|n| ids[n].clone()).into();
    assert_eq!(due, expected, "longest due first, whatever their number of digits, and a task is no list");
    assert_eq!(store.due_lists(Look::at(part, Timestamp(300), 100)).await.unwrap().all(), []);
    assert_eq!(store.due_lists(Look::at(part, Timestamp(10_000), 2)).await.unwrap().all(), expected[..2]);
}

async fn a_list_is_listed_once_whichever_end_is_due(store: impl Fixture) {
    let (part, ids) = due_at(&*store, &[20_000, 90_000]).await;
    store.move_head(&life(ids[1].as_str()), &taking("k", 1, 9, 0)).await.unwrap();
    store.index_settles().await;
    let due = async |before| store.due_lists(Look::at(part, Timestamp(before), 100)).await.unwrap().all();
    assert_eq!(due(20_000).await, ids[1..], "its head is due after ten seconds");
    assert_eq!(due(20_001).await, [ids[1].clone(), ids[0].clone()]);
    assert_eq!(due(90_001).await, [ids[1].clone(), ids[0].clone()]);
    let head = listed(&*store, ids[1].as_str()).await.unwrap().head;
    let freed = head.after(&head.forgetting("k").unwrap()).unwrap();
    for next in [head.forgetting("k").unwrap(), freed.looking()] {
        assert!(matches!(store.move_head(&life(ids[1].as_str()), &next).await.unwrap(), Moved::Yes(_)));
    }
    store.index_settles().await;
    assert_eq!(due(20_001).await, ids[..1], "nothing is under way any more");
}

async fn a_list_is_cleared_and_then_removed_at_its_revision(store: impl Fixture) {
    let mut tail = opened(&*store, "l").await;
    let neighbour = put(&*store, &opened(&*store, "m").await, "k", 1).await;
    for n in 0..2 {
        tail = put(&*store, &tail, &format!("k{n}"), 40).await;
    }
    let reservation = Reservation { start: Token(0), count: 1, purpose: Purpose::Discard, at: NOW };
    store.store_record(&life("l"), &Record::of("r", reservation), NOW).await.unwrap();
    let next = Life { opened_at: NOW, ..life("l") };
    while store.clear_list(&next).await.unwrap() == Cleared::Some {}
    assert_eq!(all_slots(&*store, &life("l")).await.len(), 80, "those of another list that had the name");
    while store.clear_list(&life("l")).await.unwrap() == Cleared::Some {}
    assert_eq!(listed(&*store, "l").await.unwrap().tail, tail, "neither end is cleared");
    assert_eq!(all_slots(&*store, &life("l")).await, []);
    assert_eq!(store.record(&life("l"), "r").await.unwrap(), None);
    assert_eq!(store.additions(&life("l"), &["k0".to_owned()]).await.unwrap(), []);
    for stale in [tail.due_at(NOW), Tail { life: Life { opened_at: NOW, ..life("l") }, ..tail.clone() }] {
        assert_eq!(store.remove_list(&stale).await.unwrap(), Stored::Conflict);
    }
    for _ in 0..2 {
        assert_eq!(store.remove_list(&tail).await.unwrap(), Stored::Yes);
        assert_eq!(listed(&*store, "l").await, None);
    }
    assert_eq!(listed(&*store, "m").await.unwrap().tail, neighbour);
    opened(&*store, "l").await;
}
