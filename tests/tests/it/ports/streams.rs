//! What every `Streams` must do.

use groupage_core::domain::stream::{Ending, Life, Options, Page, Trace, Watermark, path};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};

conformance![
    a_stream_is_read_as_it_was_written_in_every_state,
    a_name_that_another_stream_has_is_refused_and_shows_it,
    feeding_writes_how_far_it_is_and_what_was_fed,
    only_what_comes_next_is_fed,
    an_ended_stream_is_not_fed,
    a_commit_leaves_what_was_fed_meanwhile,
    a_commit_over_another_revision_changes_nothing,
    a_stream_that_was_fed_meanwhile_stays_in_sight_of_sweep,
    a_stream_and_its_bits_are_seen_together,
    a_word_that_changed_is_not_overwritten,
    a_dropped_node_is_made_anew_by_who_comes_late,
    nodes_of_a_level_come_in_order,
    pages_come_in_order_and_are_dropped_by_their_beginnings,
    lives_of_one_name_do_not_meet,
    streams_that_are_due_are_listed_by_part_in_order,
    a_stream_is_removed_at_the_revision_at_which_it_was_seen,
];

const NOW: Timestamp = Timestamp(2_000);

fn options() -> Options {
    Options { commit_events: Some(7), notify: NotificationQueue::Default, ..Options::default() }
}

async fn opened(store: &impl Streams, id: &str) -> Stream {
    let stream = Stream::open(StreamId::new(id), options(), Timestamp(1_000));
    assert_eq!(store.open_stream(&stream).await.unwrap(), StreamOpened::New);
    stream
}

fn page(start: u64, count: u64) -> Page {
    let trace = |number: u64| Trace::of(Offset::parse(&format!("at {number}")).unwrap(), "{}");
    Page { start, traces: (start..start + count).map(trace).collect() }
}

async fn fed(store: &impl Streams, stream: &Stream, count: u64) -> Stream {
    let page = page(stream.next, count);
    let fed = stream.fed(&page, NOW);
    assert_eq!(store.feed(&fed, &page).await.unwrap(), Stored::Yes);
    fed
}

fn reached(stream: &Stream, number: u64) -> Stream {
    let offset = Offset::parse(&format!("at {}", number - 1)).ok();
    stream.reached(Watermark { number, offset, settled: number, failed: 1, at: NOW }).unwrap()
}

async fn now(store: &impl Streams, stream: &Stream) -> Option<Stream> {
    store.stream(&stream.life.id).await.unwrap()
}

async fn marked(store: &impl Streams, life: &Life, node: &Node, bits: &[u16]) -> Node {
    let marks: Vec<Mark> = bits.iter().map(|bit| Mark { bit: *bit, failures: u64::from(bit % 2) }).collect();
    match store.mark_events(life, &node.marking(&marks).unwrap()).await.unwrap() {
        Marked::Yes(now) => now,
        // Our own write, whose answer was lost.
        Marked::Changed(now) => {
            assert_eq!(now.marking(&marks), None, "it was as assumed");
            now
        }
    }
}

async fn a_stream_is_read_as_it_was_written_in_every_state(store: impl Fixture) {
    for (id, how) in [("s1", Ending::Ended), ("s2", Ending::Failed)] {
        let open = opened(&*store, id).await;
        assert_eq!(now(&*store, &open).await.as_ref(), Some(&open));
        let fed = fed(&*store, &open, 5).await;
        let committed = reached(&fed, 3);
        let told = committed.told();
        let ended = told.ended(how, NOW);
        let last = reached(&ended, 5);
        let looked_at = last.looked_at(99, NOW);
        for stream in [committed, told, ended, last, looked_at] {
            assert_eq!(store.commit(&stream).await.unwrap(), Stored::Yes);
            assert_eq!(now(&*store, &stream).await, Some(stream));
        }
    }
}

async fn a_name_that_another_stream_has_is_refused_and_shows_it(store: impl Fixture) {
    let stream = opened(&*store, "s").await;
    assert_eq!(store.open_stream(&stream).await.unwrap(), StreamOpened::New, "it is our own");
    let other = Stream { options: Options::default(), ..stream.clone() };
    assert_eq!(store.open_stream(&other).await.unwrap(), StreamOpened::Existing(Box::new(stream)));
}

async fn feeding_writes_how_far_it_is_and_what_was_fed(store: impl Fixture) {
    let open = opened(&*store, "s").await;
    let fed = fed(&*store, &open, 5).await;
    assert_eq!((fed.next, fed.last.as_ref().map(Offset::as_str)), (5, Some("at 4")));
    assert_eq!(now(&*store, &open).await, Some(fed));
    assert_eq!(store.pages(&open.life, 0, 5, 9).await.unwrap(), [page(0, 5)]);
}

async fn only_what_comes_next_is_fed(store: impl Fixture) {
    let stream = fed(&*store, &opened(&*store, "s").await, 5).await;
    for start in [0, 4, 6] {
        let page = page(start, 2);
        assert_eq!(store.feed(&stream.fed(&page, NOW), &page).await.unwrap(), Stored::Conflict, "{start}");
    }
    let nobody = Stream::open(StreamId::new("nobody"), options(), NOW);
    assert_eq!(store.feed(&nobody.fed(&page(0, 1), NOW), &page(0, 1)).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &stream).await, Some(stream.clone()));
    assert_eq!(store.pages(&stream.life, 0, 99, 9).await.unwrap(), [page(0, 5)]);
}

async fn an_ended_stream_is_not_fed(store: impl Fixture) {
    let open = opened(&*store, "s").await;
    let ended = open.ended(Ending::Ended, NOW);
    assert_eq!(store.commit(&ended).await.unwrap(), Stored::Yes);
    let page = page(0, 2);
    assert_eq!(store.feed(&open.fed(&page, NOW), &page).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &open).await, Some(ended));
}

async fn a_commit_leaves_what_was_fed_meanwhile(store: impl Fixture) {
    let before = fed(&*store, &opened(&*store, "s").await, 5).await;
    let after = fed(&*store, &before, 4).await;
    let commit = reached(&before, 3);
    assert_eq!(store.commit(&commit).await.unwrap(), Stored::Yes);
    assert_eq!(now(&*store, &before).await, Some(Stream { next: 9, last: after.last, ..commit }));
}

async fn a_commit_over_another_revision_changes_nothing(store: impl Fixture) {
    let stream = fed(&*store, &opened(&*store, "s").await, 5).await;
    let committed = reached(&stream, 4);
    assert_eq!(store.commit(&committed).await.unwrap(), Stored::Yes);
    assert_eq!(store.commit(&reached(&stream, 3)).await.unwrap(), Stored::Conflict);
    let other_life = Stream { life: Life { opened_at: NOW, ..stream.life.clone() }, ..reached(&committed, 5) };
    assert_eq!(store.commit(&other_life).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &stream).await, Some(committed));
    let nobody = reached(&Stream::open(StreamId::new("nobody"), options(), NOW), 1);
    assert_eq!(store.commit(&nobody).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &nobody).await, None);
}

async fn a_stream_that_was_fed_meanwhile_stays_in_sight_of_sweep(store: impl Fixture) {
    let stream = fed(&*store, &opened(&*store, "s").await, 5).await;
    let idle = Stream { due: None, ..reached(&stream, 5) };
    let after = fed(&*store, &stream, 1).await;
    assert_eq!(store.commit(&idle).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &stream).await, Some(after));
}

async fn a_stream_and_its_bits_are_seen_together(store: impl Fixture) {
    let stream = fed(&*store, &opened(&*store, "s").await, 5).await;
    let path = path(0).unwrap();
    assert_eq!(store.see(&stream.life, &path).await.unwrap(), Seen { stream: Some(stream.clone()), ..Seen::default() });
    let node = marked(&*store, &stream.life, &Node::empty(path[0]), &[1, 2, 300]).await;
    let seen = store.see(&stream.life, &path).await.unwrap();
    assert_eq!(seen.bits.node(path[0]), node);
    assert!(seen.bits.is_settled(300) && !seen.bits.is_settled(0) && node.has_failed(1) && node.failures == 1);
    let nobody = Life { id: StreamId::new("nobody"), opened_at: NOW };
    assert_eq!(store.see(&nobody, &path).await.unwrap(), Seen::default());
}

async fn a_word_that_changed_is_not_overwritten(store: impl Fixture) {
    let life = opened(&*store, "s").await.life;
    let empty = Node::empty(NodeId::group(3));
    let node = marked(&*store, &life, &empty, &[7]).await;
    let late = empty.marking(&[Mark { bit: 8, failures: 0 }]).unwrap();
    assert_eq!(store.mark_events(&life, &late).await.unwrap(), Marked::Changed(node.clone()));
    let elsewhere = marked(&*store, &life, &empty, &[256]).await;
    assert!(elsewhere.is_done(7) && elsewhere.is_done(256), "another word is another's affair");
}

async fn a_dropped_node_is_made_anew_by_who_comes_late(store: impl Fixture) {
    let life = opened(&*store, "s").await.life;
    let ids = [NodeId::group(0), NodeId::group(1)];
    let node = marked(&*store, &life, &Node::empty(ids[0]), &[7]).await;
    let _ = marked(&*store, &life, &Node::empty(ids[1]), &[8]).await;
    store.drop_nodes(&life, &ids[..1]).await.unwrap();
    store.drop_nodes(&life, &ids[..1]).await.unwrap();
    let bits = store.see(&life, &ids).await.unwrap().bits;
    assert!(!bits.has(ids[0]) && bits.has(ids[1]));
    let late = node.marking(&[Mark { bit: 8, failures: 0 }]).unwrap();
    assert_eq!(
        store.mark_events(&life, &late).await.unwrap(),
        Marked::Changed(Node::empty(ids[0])),
        "the word is gone"
    );
    let anew = marked(&*store, &life, &Node::empty(ids[0]), &[9]).await;
    assert_eq!(anew.count(), 1);
}

async fn nodes_of_a_level_come_in_order(store: impl Fixture) {
    let life = opened(&*store, "s").await.life;
    for id in [(0, 9), (0, 10), (0, 300), (1, 0), (2, 0)].map(|(level, index)| NodeId { level, index }) {
        let _ = marked(&*store, &life, &Node::empty(id), &[GROUP_SIZE - 1]).await;
    }
    let level = async |from: NodeId, limit| -> Vec<u32> {
        let nodes = store.stream_nodes(&life, from, limit).await.unwrap();
        nodes.iter().map(|node| node.id.index).collect()
    };
    assert_eq!(level(NodeId::group(0), 9).await, [9, 10, 300]);
    assert_eq!(level(NodeId::group(10), 9).await, [10, 300]);
    assert_eq!(level(NodeId::group(0), 1).await, [9]);
    assert_eq!(level(NodeId::group(301), 9).await, [0_u32; 0]);
    assert_eq!(level(NodeId { level: 1, index: 0 }, 9).await, [0]);
}

async fn pages_come_in_order_and_are_dropped_by_their_beginnings(store: impl Fixture) {
    let mut stream = opened(&*store, "s").await;
    for count in [5, 1, 500, 20] {
        stream = fed(&*store, &stream, count).await;
    }
    let starts = async |from, to, limit| -> Vec<u64> {
        let pages = store.pages(&stream.life, from, to, limit).await.unwrap();
        pages.iter().map(|page| page.start).collect()
    };
    assert_eq!(starts(0, 999, 9).await, [0, 5, 6, 506]);
    assert_eq!(starts(1, 506, 9).await, [5, 6]);
    assert_eq!(starts(5, 999, 2).await, [5, 6]);
    assert_eq!(starts(9, 9, 9).await, [0_u64; 0]);
    store.drop_pages(&stream.life, &[5, 506, 7]).await.unwrap();
    assert_eq!(starts(0, 999, 9).await, [0, 6]);
    assert_eq!(store.pages(&stream.life, 6, 7, 9).await.unwrap(), [page(6, 500)]);
}

async fn lives_of_one_name_do_not_meet(store: impl Fixture) {
    let old = fed(&*store, &opened(&*store, "s").await, 5).await;
    let group = NodeId::group(0);
    let _ = marked(&*store, &old.life, &Node::empty(group), &[1]).await;
    assert_eq!(store.remove_stream(&old).await.unwrap(), Stored::Yes);
    let young = Stream::open(old.life.id.clone(), options(), NOW);
    assert_eq!(store.open_stream(&young).await.unwrap(), StreamOpened::New);
    assert_eq!(store.pages(&young.life, 0, 9, 9).await.unwrap(), []);
    assert!(!store.see(&young.life, &[group]).await.unwrap().bits.has(group));
    let page = page(5, 1);
    assert_eq!(store.feed(&old.fed(&page, NOW), &page).await.unwrap(), Stored::Conflict);
    assert_eq!(store.remove_stream(&old).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &young).await, Some(young));
}

async fn streams_that_are_due_are_listed_by_part_in_order(store: impl Fixture) {
    let mut wanted = Vec::new();
    for n in 0..40_u64 {
        let stream = opened(&*store, &format!("s{n}")).await;
        if n % 2 == 0 {
            let page = page(0, 1);
            let fed = stream.fed(&page, Timestamp(90_000 - n));
            assert_eq!(store.feed(&fed, &page).await.unwrap(), Stored::Yes);
            wanted.push((fed.due.unwrap(), stream.life.id));
        }
    }
    wanted.sort();
    store.index_settles().await;
    let mut found = 0;
    for part in Part::all() {
        let due = store.due_streams(Look::at(part, Timestamp(1_000_000), 99)).await.unwrap().all();
        let of_part = wanted.iter().map(|(_, id)| id).filter(|id| Part::of_stream(id) == part);
        assert!(due.iter().eq(of_part), "those without unsettled events are not due");
        found += due.len();
        assert_eq!(store.due_streams(Look::at(part, Timestamp(0), 99)).await.unwrap().all(), []);
        assert!(store.due_streams(Look::at(part, Timestamp(1_000_000), 1)).await.unwrap().all().len() <= 1);
    }
    assert_eq!(found, wanted.len());
}

async fn a_stream_is_removed_at_the_revision_at_which_it_was_seen(store: impl Fixture) {
    let stream = opened(&*store, "s").await;
    let ended = stream.ended(Ending::Ended, NOW);
    assert_eq!(store.commit(&ended).await.unwrap(), Stored::Yes);
    assert_eq!(store.remove_stream(&stream).await.unwrap(), Stored::Conflict);
    assert_eq!(store.remove_stream(&ended).await.unwrap(), Stored::Yes);
    assert_eq!(store.remove_stream(&ended).await.unwrap(), Stored::Yes, "it is gone");
    assert_eq!(now(&*store, &stream).await, None);
}
