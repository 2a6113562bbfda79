//! What every `Trackers` must do with a tracker's nodes.

use std::collections::BTreeSet;

use groupage_core::domain::tracker::{Change, GROUP_SIZE, MAX_LEVEL, Mark, Node, NodeId, WORD_BITS};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, InMemory, OnDynamo, WithLag, conformance};
use super::samples::{opened, tracked};

conformance![
    a_node_is_made_by_its_first_mark,
    a_node_is_read_as_it_was_marked,
    a_mark_changes_its_own_words_only,
    a_change_that_assumes_another_word_changes_nothing_and_shows_the_node,
    a_refused_mark_makes_no_node,
    writers_of_two_words_never_meet,
    failures_are_added_once,
    a_look_returns_what_is_there_and_its_tracker,
    a_look_takes_ninety_nine_nodes,
    nodes_are_paged_in_order_and_by_level,
    clearing_until_all_is_gone_leaves_the_tracker,
    clearing_one_tracker_leaves_the_others,
    what_belongs_to_the_next_tracker_of_an_id_is_not_cleared,
    a_removed_tracker_leaves_what_was_not_cleared,
];

fn id() -> TrackerId {
    TrackerId::new("t")
}

fn group(number: u32) -> NodeId {
    NodeId::group(number)
}

fn bits(bits: impl IntoIterator<Item = u16>) -> Vec<Mark> {
    bits.into_iter().map(|bit| Mark { bit, failures: 0 }).collect()
}

fn failed(bits: impl IntoIterator<Item = u16>) -> Vec<Mark> {
    bits.into_iter().map(|bit| Mark { bit, failures: 1 }).collect()
}

/// The node as it is now; `None` if it was never written.
async fn current(store: &impl Trackers, node: NodeId) -> Option<Node> {
    let mut nodes = store.look(&id(), &[node], Freshness::Latest).await.unwrap().nodes;
    assert!(nodes.len() <= 1);
    nodes.pop()
}

/// Makes a change that must succeed. A repeat, as when the answer was lost, finds a word changed, by itself.
async fn made(store: &impl Trackers, node: &Node, change: &Change) -> Node {
    let after = node.clone().changed(change);
    match store.mark(&id(), change).await.unwrap() {
        Marked::Yes(now) | Marked::Changed(now) => assert_eq!(now, after),
    }
    assert_eq!(current(store, change.id).await.as_ref(), Some(&after));
    after
}

async fn marked(store: &impl Trackers, node: Node, marks: &[Mark]) -> Node {
    let change = node.marking(marks).unwrap();
    made(store, &node, &change).await
}

/// A node that nobody has written yet, with these bits set.
async fn fresh(store: &impl Trackers, node: NodeId, marks: &[Mark]) -> Node {
    marked(store, Node::empty(node), marks).await
}

async fn a_node_is_made_by_its_first_mark(store: impl Fixture) {
    let levels = (0..=MAX_LEVEL).map(|level| NodeId { level, index: 3 });
    for node in levels.chain([group(u32::MAX)]) {
        assert_eq!(current(&*store, node).await, None);
        fresh(&*store, node, &bits([0, 7_167])).await;
    }
    assert_eq!(tracked(&*store, &id()).await, None, "a node makes no tracker");
}

/// Where no answer is lost, a mark says that it was made.
async fn a_mark_is_answered_with_yes(store: impl Fixture) {
    let empty = Node::empty(group(1));
    let change = empty.marking(&failed([1, 300])).unwrap();
    assert_eq!(store.mark(&id(), &change).await.unwrap(), Marked::Yes(empty.changed(&change)));
}

#[tokio::test]
async fn a_mark_is_answered_with_yes_where_no_answer_is_lost() {
    a_mark_is_answered_with_yes(InMemory::start().await).await;
    a_mark_is_answered_with_yes(WithLag::start().await).await;
    a_mark_is_answered_with_yes(OnDynamo::start().await).await;
}

async fn a_node_is_read_as_it_was_marked(store: impl Fixture) {
    let mut node = fresh(&*store, group(0), &bits([5])).await;
    for marks in [failed([6]), bits([4]), failed((0..GROUP_SIZE).step_by(3)), bits(0..GROUP_SIZE)] {
        node = marked(&*store, node, &marks).await;
    }
    assert_eq!((node.count(), node.leading()), (GROUP_SIZE, Some(GROUP_SIZE)));
    assert!(node.has_failed(6) && node.has_failed(3) && !node.has_failed(4) && !node.has_failed(7));
    let above = NodeId { level: 1, index: 0 };
    let counted = fresh(&*store, above, &[Mark { bit: 2, failures: 41 }, Mark { bit: 9, failures: 0 }]).await;
    assert_eq!(counted.failures, 41);
}

async fn a_mark_changes_its_own_words_only(store: impl Fixture) {
    let first = fresh(&*store, group(0), &failed([0, 600])).await;
    let neighbour = fresh(&*store, group(1), &bits([0])).await;
    let second = marked(&*store, first.clone(), &failed([300])).await;
    for bit in [0, 300, 600] {
        assert!(second.is_done(bit) && second.has_failed(bit));
    }
    assert_eq!((second.count(), second.failures), (3, 3));
    assert_eq!(current(&*store, group(1)).await, Some(neighbour));
}

async fn a_change_that_assumes_another_word_changes_nothing_and_shows_the_node(store: impl Fixture) {
    let empty = Node::empty(group(0));
    let first = fresh(&*store, group(0), &bits([1])).await;
    let now = marked(&*store, first.clone(), &failed([2])).await;
    let stale = [
        // It saw no word, or an older one; in a further word it saw rightly.
        empty.marking(&bits([3])).unwrap(),
        empty.marking(&failed([3, 400])).unwrap(),
        first.marking(&failed([3])).unwrap(),
        first.marking(&bits([3, 400])).unwrap(),
        // It saw a word where none is.
        now.clone().changed(&now.marking(&bits([400])).unwrap()).marking(&bits([3, 401])).unwrap(),
    ];
    for change in stale {
        assert_eq!(store.mark(&id(), &change).await.unwrap(), Marked::Changed(now.clone()), "{change:?}");
        assert_eq!(current(&*store, group(0)).await.as_ref(), Some(&now));
    }
}

async fn a_refused_mark_makes_no_node(store: impl Fixture) {
    let empty = Node::empty(group(0));
    let imagined = empty.clone().changed(&empty.marking(&bits([1])).unwrap());
    let change = imagined.marking(&bits([2])).unwrap();
    assert_eq!(store.mark(&id(), &change).await.unwrap(), Marked::Changed(empty));
    assert_eq!(current(&*store, group(0)).await, None);
    assert_eq!(store.nodes(&id(), group(0), 10, Freshness::Latest).await.unwrap(), []);
}

/// All words of a node, each written by somebody who saw the node empty.
async fn writers_of_two_words_never_meet(store: impl Fixture) {
    let empty = Node::empty(group(0));
    let mut node = empty.clone();
    for first in (0..GROUP_SIZE).step_by(usize::from(WORD_BITS)) {
        let change = empty.marking(&failed(first..first + WORD_BITS)).unwrap();
        node = made(&*store, &node, &change).await;
    }
    assert_eq!((node.leading(), node.failures), (Some(GROUP_SIZE), u64::from(GROUP_SIZE)));
}

async fn failures_are_added_once(store: impl Fixture) {
    let empty = Node::empty(group(0));
    let change = empty.marking(&failed([1, 2, 300])).unwrap();
    for _ in 0..3 {
        assert_eq!(made(&*store, &empty, &change).await.failures, 3);
    }
}

async fn a_look_returns_what_is_there_and_its_tracker(store: impl Fixture) {
    let all = [group(0), group(7), NodeId { level: 1, index: 0 }];
    assert_eq!(store.look(&id(), &all, Freshness::Latest).await.unwrap(), Looked::default());
    let group = fresh(&*store, all[1], &bits([1])).await;
    let looked = Looked { tracker: None, nodes: vec![group.clone()] };
    assert_eq!(store.look(&id(), &all, Freshness::Latest).await.unwrap(), looked);
    let tracker = opened(&*store, "t").await;
    opened(&*store, "t-2").await;
    fresh(&*store, NodeId { level: 1, index: 1 }, &bits([1])).await;
    let looked = Looked { tracker: Some(tracker), nodes: vec![group] };
    for freshness in [Freshness::Latest, Freshness::Eventual] {
        assert_eq!(store.look(&id(), &all, freshness).await.unwrap(), looked);
    }
    let other = Looked { tracker: tracked(&*store, &TrackerId::new("t-2")).await, nodes: Vec::new() };
    assert_eq!(store.look(&TrackerId::new("t-2"), &all, Freshness::Latest).await.unwrap(), other);
}

async fn a_look_takes_ninety_nine_nodes(store: impl Fixture) {
    let tracker = opened(&*store, "t").await;
    let ids: Vec<NodeId> = (0..99).map(group).collect();
    for node in &ids {
        fresh(&*store, *node, &bits([1])).await;
    }
    let looked = store.look(&tracker.id, &ids, Freshness::Latest).await.unwrap();
    let found: BTreeSet<NodeId> = looked.nodes.iter().map(|node| node.id).collect();
    assert_eq!((looked.tracker, found), (Some(tracker), ids.into_iter().collect()));
}

/// The nodes from one on, in pages of `limit`.
async fn walk(store: &impl Trackers, mut from: NodeId, limit: usize) -> Vec<Node> {
    let mut found: Vec<Node> = Vec::new();
    loop {
        let page = store.nodes(&id(), from, limit, Freshness::Latest).await.unwrap();
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return found };
        let Some(next) = last.id.index.checked_add(1) else { return [found, page].concat() };
        from = NodeId { index: next, ..last.id };
        found.extend(page);
    }
}

async fn nodes_are_paged_in_order_and_by_level(store: impl Fixture) {
    let (tracker, addition) = opened(&*store, "t").await.grown("k", 1, Timestamp(2)).unwrap();
    store.add(&tracker, &addition).await.unwrap();
    let mut nodes = Vec::new();
    for (level, index) in [(1, 3), (0, 256), (2, 0), (0, 9), (1, 0), (0, u32::MAX), (0, 10), (0, 65_536)] {
        nodes.push(fresh(&*store, NodeId { level, index }, &failed([1, 300])).await);
    }
    nodes.sort_by_key(|node| node.id);
    for from in
        [group(0), group(9), group(10), group(257), NodeId { level: 1, index: 0 }, NodeId { level: 2, index: 1 }]
    {
        let expected: Vec<Node> =
            nodes.iter().filter(|node| node.id.level == from.level && node.id >= from).cloned().collect();
        for limit in [1, 2, 3, 100] {
            assert_eq!(walk(&*store, from, limit).await, expected, "from {from:?} in pages of {limit}");
        }
    }
}

/// Clears a tracker to the end.
async fn clear(store: &impl Trackers, tracker: &Tracker) {
    for _ in 0..100 {
        match store.clear(tracker).await.unwrap() {
            Cleared::All => return,
            Cleared::Some => {}
            Cleared::Conflict => panic!("nobody else is at it"),
        }
    }
    panic!("there is more and more of it");
}

async fn clearing_until_all_is_gone_leaves_the_tracker(store: impl Fixture) {
    let (tracker, addition) = opened(&*store, "t").await.grown("k", 1, Timestamp(2)).unwrap();
    store.add(&tracker, &addition).await.unwrap();
    let nodes = [(0, 40), (1, 12), (2, 1)].into_iter().flat_map(|(level, count)| (0..count).map(move |n| (level, n)));
    let nodes: Vec<NodeId> = nodes.map(|(level, index)| NodeId { level, index }).collect();
    for node in &nodes {
        fresh(&*store, *node, &failed([1])).await;
    }
    clear(&*store, &tracker).await;
    let looked = Looked { tracker: Some(tracker.clone()), nodes: Vec::new() };
    assert_eq!(store.look(&tracker.id, &nodes, Freshness::Latest).await.unwrap(), looked);
    assert_eq!(store.addition(&tracker.id, "k").await.unwrap(), None);
    clear(&*store, &tracker).await;
    assert_eq!(tracked(&*store, &tracker.id).await, Some(tracker));
}

async fn what_belongs_to_the_next_tracker_of_an_id_is_not_cleared(store: impl Fixture) {
    let old = opened(&*store, "t").await;
    fresh(&*store, group(0), &bits([1])).await;
    let now = old.sealed(Timestamp(2));
    store.store_tracker(&now).await.unwrap();
    assert_eq!(store.clear(&old).await.unwrap(), Cleared::Conflict);
    clear(&*store, &now).await;
    store.remove_tracker(&now).await.unwrap();
    let node = fresh(&*store, group(0), &bits([2])).await;
    assert_eq!(store.clear(&now).await.unwrap(), Cleared::Conflict, "nobody has the id");
    // As many writes as the first had.
    let next = Tracker::open(TrackerId::new("t"), now.options(), Timestamp(700_000)).sealed(Timestamp(700_001));
    store.open_tracker(&next).await.unwrap();
    assert_eq!(store.clear(&now).await.unwrap(), Cleared::Conflict, "another has it");
    assert_eq!(store.remove_tracker(&now).await.unwrap(), Stored::Conflict);
    assert_eq!(current(&*store, group(0)).await, Some(node));
}

async fn clearing_one_tracker_leaves_the_others(store: impl Fixture) {
    fresh(&*store, group(0), &bits([1])).await;
    let (tracker, other) = (opened(&*store, "t").await, TrackerId::new("t-2"));
    let change = Node::empty(group(0)).marking(&bits([2])).unwrap();
    store.mark(&other, &change).await.unwrap();
    clear(&*store, &tracker).await;
    assert_eq!(current(&*store, group(0)).await, None);
    assert_eq!(store.look(&other, &[group(0)], Freshness::Latest).await.unwrap().nodes.len(), 1);
}

/// So a process that removes a tracker must have cleared it before.
async fn a_removed_tracker_leaves_what_was_not_cleared(store: impl Fixture) {
    let tracker = opened(&*store, "t").await;
    let node = fresh(&*store, group(0), &bits([1])).await;
    assert_eq!(store.remove_tracker(&tracker).await.unwrap(), Stored::Yes);
    let left = Looked { tracker: None, nodes: vec![node] };
    assert_eq!(store.look(&tracker.id, &[group(0)], Freshness::Latest).await.unwrap(), left);
}
