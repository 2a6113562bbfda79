//! What the index of waiting tasks must show, and what it shows of their traits.

use std::collections::BTreeSet;

use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, failure, now, target, task, waiting};

conformance![
    the_index_shows_a_waiting_task_with_its_round_and_size,
    the_pages_of_the_index_hold_every_task_of_one_target_once,
    the_index_keeps_the_shards_of_a_target_apart,
    a_join_takes_a_task_out_of_the_index,
    traits_are_shown_by_the_index_and_outlast_every_way_back,
    urgent_tasks_are_found_apart_the_most_urgent_first,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

async fn the_index_shows_a_waiting_task_with_its_round_and_size(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    store.index_settles().await;
    let page = store.waiting(&target("a"), None, 10).await.unwrap();
    assert_eq!(page.candidates, [candidate]);
    assert!(page.candidates[0].bytes > 0);
}

/// Every page's candidates, in the order of the pages.
pub async fn walk(store: &impl Tasks, value: &str, limit: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.waiting(&target(value), cursor.as_ref(), limit).await.unwrap();
        assert!(page.candidates.len() <= limit);
        found.extend(page.candidates);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn the_pages_of_the_index_hold_every_task_of_one_target_once(store: impl Fixture) {
    let mut wanted = BTreeSet::new();
    for n in 0..23 {
        wanted.insert(waiting(&*store, &format!("a{n}"), &target("a")).await.id);
        waiting(&*store, &format!("b{n}"), &target("b")).await;
    }
    store.index_settles().await;
    for limit in [1, 10, 23, 100] {
        let found = walk(&*store, "a", limit).await;
        assert_eq!(found.len(), 23, "in pages of {limit}");
        assert_eq!(found.into_iter().map(|candidate| candidate.id).collect::<BTreeSet<_>>(), wanted);
    }
    assert!(walk(&*store, "c", 10).await.is_empty());
}

async fn the_index_keeps_the_shards_of_a_target_apart(store: impl Fixture) {
    let home = target("a");
    let shards: Vec<Target> = home.shards(3).collect();
    for (n, shard) in shards.iter().enumerate() {
        waiting(&*store, &format!("t{n}"), shard).await;
    }
    store.index_settles().await;
    for (n, shard) in shards.iter().enumerate() {
        let page = store.waiting(shard, None, 10).await.unwrap();
        let ids: Vec<String> = page.candidates.iter().map(|candidate| candidate.id.to_string()).collect();
        assert_eq!(ids, [format!("t{n}")], "{shard}");
        let task = now(&*store, &TaskId::new(&ids[0])).await;
        assert_eq!(task.status, Status::Created { target: shard.clone() });
    }
    // A look through everything that waits tells the shard.
    let look = Look::at(Segment { index: 0, of: 1 }, Timestamp(u64::MAX), 10);
    let page = store.waiting_long(look).await.unwrap();
    let found: BTreeSet<Target> = page.tasks.into_iter().map(|waiting| waiting.target).collect();
    assert_eq!(found, BTreeSet::from_iter(shards));
}

async fn a_join_takes_a_task_out_of_the_index(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let batch = BatchId::new("b1");
    assert_eq!(store.join(&candidate.id, candidate.round, &batch).await.unwrap(), Joined::Yes);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
    store.index_settles().await;
    assert!(walk(&*store, "a", 10).await.is_empty());
}

fn some_traits() -> Traits {
    Traits { priority: 2, collapse: Some(traits::Collapse::of("7")), weight: 40, closes: true }
}

async fn traits_are_shown_by_the_index_and_outlast_every_way_back(store: impl Fixture) {
    let (a, batch) = (target("a"), BatchId::new("b1"));
    let with = task("t", &a).with_traits(some_traits());
    store.register(&with).await.unwrap();
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [with.candidate()]);
    assert_eq!(store.join(&with.id, Round(0), &batch).await.unwrap(), Joined::Yes);
    assert_eq!(store.join(&with.id, Round(0), &batch).await.unwrap(), Joined::Yes);
    assert_eq!(now(&*store, &with.id).await.traits, some_traits());
    assert_eq!(back(&*store, &with.candidate(), &batch, 1, AT).await, PutBack::Waits);
    assert_eq!(back(&*store, &with.candidate(), &batch, 1, AT).await, PutBack::Waits);
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [Candidate { round: Round(1), ..with.candidate() }]);
    let ending = failure(&a, "cancelled");
    assert!(store.end(&with.id, Round(1), &ending, AT).await.unwrap().is_some(), "it waits");
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, []);
    let later = task("s", &a).with_traits(some_traits()).scheduled(AT);
    store.register(&later).await.unwrap();
    let fell = store.fall_due((&later.id, some_traits()), &a, AT).await.unwrap().unwrap();
    assert_eq!(fell.candidate.traits, some_traits());
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [fell.candidate]);
}

async fn urgent_tasks_are_found_apart_the_most_urgent_first(store: impl Fixture) {
    let a = target("a");
    for (id, priority) in [("p0", 0), ("p1", 1), ("p9", 9), ("p5", 5), ("x5", 5)] {
        let weight = if id == "x5" { 7 } else { 1 };
        let task = task(id, &a).with_traits(Traits { priority, weight, ..Traits::default() });
        store.register(&task).await.unwrap();
    }
    let heavy = task("w", &a).with_traits(Traits { weight: 7, ..Traits::default() });
    store.register(&heavy).await.unwrap();
    store.register(&task("other", &target("b")).with_traits(some_traits())).await.unwrap();
    store.index_settles().await;
    let of = async |above, limit| store.urgent(&a, above, None, limit).await.unwrap();
    let priorities = |urgent: &[Candidate]| urgent.iter().map(|one| one.traits.priority).collect::<Vec<_>>();
    assert_eq!(priorities(&of(0, 10).await.candidates), [9, 5, 5, 1]);
    for (above, found) in [(1, &[9, 5, 5][..]), (4, &[9, 5, 5]), (5, &[9]), (8, &[9])] {
        assert_eq!(priorities(&of(above, 10).await.candidates), found, "above {above}");
    }
    let first = of(0, 2).await;
    assert_eq!(priorities(&first.candidates), [9, 5]);
    for (above, found) in [(0, &[5, 1][..]), (4, &[5])] {
        let behind = store.urgent(&a, above, first.next.as_ref(), 10).await.unwrap();
        assert_eq!(priorities(&behind.candidates), found, "behind the first two, above {above}");
    }
    assert_eq!(priorities(&walk(&*store, "a", 2).await), [0, 0, 1, 5, 5, 9], "the walk shows all, the usual first");
}
