//! What the index of waiting tasks must show to a look for those that have waited too long.

use std::collections::BTreeSet;

use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, member, target, task};

conformance![without_lag:
    a_task_is_listed_with_its_target_round_and_size,
    only_those_that_have_waited_since_before_are_listed,
    the_segments_together_list_every_task_once,
    pages_go_on_where_the_last_one_ended_though_nothing_on_it_has_waited_for_long,
    a_task_that_joined_a_batch_waits_no_longer,
    a_settled_task_waits_no_longer,
    a_task_that_was_put_back_waits_since_its_return,
];

const WHOLE: Segment = Segment { index: 0, of: 1 };
const NOW: Timestamp = Timestamp(1_700_000_600_000);

/// Registers a task that begins to wait at `since`.
async fn waits_since(store: &impl Tasks, id: &str, value: &str, since: Timestamp) -> Task {
    let task = Task { created_at: since, waits_since: since, ..task(id, &target(value)) };
    assert_eq!(store.register(&task).await.unwrap(), Registered::New);
    task
}

/// Everything that a segment lists, in pages of `limit`.
async fn walk(store: &impl Tasks, since: Timestamp, segment: Segment, limit: usize) -> Vec<Waiting> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.waiting_long(Look::at(segment, since, limit).behind(cursor.as_ref())).await.unwrap();
        assert!(page.tasks.len() <= limit);
        found.extend(page.tasks);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn ids(store: &impl Tasks, since: Timestamp) -> Vec<String> {
    let mut ids: Vec<String> =
        walk(store, since, WHOLE, 100).await.into_iter().map(|task| task.candidate.id.to_string()).collect();
    ids.sort();
    ids
}

async fn a_task_is_listed_with_its_target_round_and_size(store: impl Fixture) {
    let task = waits_since(&*store, "t", "a", Timestamp(1)).await;
    assert_eq!(
        walk(&*store, NOW, WHOLE, 10).await,
        [Waiting { target: target("a"), candidate: task.candidate(), since: Timestamp(1) }]
    );
}

async fn only_those_that_have_waited_since_before_are_listed(store: impl Fixture) {
    // Of different lengths: the times are compared as numbers, not as text.
    for (id, since) in [("first", 9), ("second", 1_000), ("third", 20_000)] {
        waits_since(&*store, id, "a", Timestamp(since)).await;
    }
    for (since, found) in [
        (9, &[][..]),
        (10, &["first"]),
        (1_000, &["first"]),
        (1_001, &["first", "second"]),
        (99_999, &["first", "second", "third"]),
    ] {
        assert_eq!(ids(&*store, Timestamp(since)).await, found, "before {since}");
    }
}

async fn the_segments_together_list_every_task_once(store: impl Fixture) {
    let mut wanted = BTreeSet::new();
    for n in 0..60 {
        wanted.insert(waits_since(&*store, &format!("t{n}"), &format!("target-{}", n % 7), Timestamp(n)).await.id);
    }
    for of in [1, 2, 5, 16] {
        for limit in [1, 7, 1_000] {
            let mut found: Vec<TaskId> = Vec::new();
            for index in 0..of {
                let listed = walk(&*store, NOW, Segment { index, of }, limit).await;
                found.extend(listed.into_iter().map(|task| task.candidate.id));
            }
            assert_eq!(found.len(), wanted.len(), "in {of} segments and pages of {limit}");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
        }
    }
}

async fn pages_go_on_where_the_last_one_ended_though_nothing_on_it_has_waited_for_long(store: impl Fixture) {
    for n in 0..30 {
        waits_since(&*store, &format!("new{n}"), "a", NOW).await;
    }
    for n in 0..3 {
        waits_since(&*store, &format!("old{n}"), "a", Timestamp(1)).await;
    }
    // A limit says how much is looked at, not how much is found: most of these pages are empty.
    let found = walk(&*store, NOW, WHOLE, 2).await;
    let found: BTreeSet<String> = found.into_iter().map(|task| task.candidate.id.to_string()).collect();
    assert_eq!(found, BTreeSet::from(["old0", "old1", "old2"].map(str::to_owned)));
}

async fn a_task_that_joined_a_batch_waits_no_longer(store: impl Fixture) {
    for id in ["joins", "stays"] {
        waits_since(&*store, id, "a", Timestamp(1)).await;
    }
    store.join(&TaskId::new("joins"), Round(0), &BatchId::new("b1")).await.unwrap();
    assert_eq!(ids(&*store, NOW).await, ["stays"]);
}

async fn a_settled_task_waits_no_longer(store: impl Fixture) {
    let (candidate, batch) = (waits_since(&*store, "t", "a", Timestamp(1)).await.candidate(), BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, NOW).await.unwrap();
    assert!(ids(&*store, NOW).await.is_empty());
}

async fn a_task_that_was_put_back_waits_since_its_return(store: impl Fixture) {
    let (candidate, batch) = (waits_since(&*store, "t", "a", Timestamp(1)).await.candidate(), BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    let returned = Timestamp(50_000);
    // A repeat of the return does not begin the wait anew.
    for at in [returned, returned.plus_ms(700)] {
        back(&*store, &candidate, &batch, 1, at).await;
    }
    assert!(ids(&*store, returned).await.is_empty(), "what it waited before does not count");
    let found = walk(&*store, returned.plus_ms(1), WHOLE, 10).await;
    let found: Vec<_> = found.into_iter().map(|task| (task.target, task.candidate)).collect();
    assert_eq!(found, [(target("a"), Candidate { round: Round(1), ..candidate })]);
}
