//! How tasks end, and what every `Tasks` must show of those that have not.

use std::collections::BTreeSet;

use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, failure, member, now, target, task, waiting};
use super::tasks::joined;

conformance![
    a_task_is_settled_once,
    a_failed_task_keeps_its_reason,
    a_member_that_its_batch_is_called_without_ends_and_is_not_filed,
    the_tasks_of_a_tracker_that_are_not_settled_are_found_page_by_page,
    only_the_batch_a_task_names_settles_it,
    a_settle_in_an_old_round_changes_nothing,
    a_round_counts_even_in_the_same_batch,
    a_settled_task_neither_joins_nor_waits_again,
    a_waiting_task_ends_once_and_is_found_until_all_have_heard,
    a_task_in_a_batch_or_in_another_round_does_not_end,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

async fn a_task_is_settled_once(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let failed = Settlement::Failed(failure(&target("a"), "late"));
    for settlement in [&Settlement::Succeeded, &Settlement::Succeeded, &failed] {
        store.settle(&member(&candidate), &batch, settlement, AT).await.unwrap();
    }
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Succeeded { batch });
}

async fn a_failed_task_keeps_its_reason(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let reason = Reason::new("too_heavy");
    let settlement = Settlement::Failed(failure(&target("a"), reason.as_str()));
    store.settle(&member(&candidate), &batch, &settlement, AT).await.unwrap();
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Failed { batch: Some(batch), reason });
}

async fn a_member_that_its_batch_is_called_without_ends_and_is_not_filed(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let ended = groupage_core::domain::ended::Ended::Expired;
    for attempts in [2, 7] {
        store.settle(&member(&candidate), &batch, &Settlement::Ended { ended, attempts }, AT).await.unwrap();
    }
    let status = Status::Failed { batch: Some(batch), reason: ended.reason() };
    assert_eq!(now(&*store, &candidate.id).await.status, status);
    let kept = store.failure(&candidate.id).await.unwrap().unwrap();
    assert_eq!((kept.reason, kept.attempts, kept.filed.at), (ended.reason(), 2, AT));
    let (route, ever) = (target("a").route(), (Timestamp(0), Timestamp(u64::MAX / 2)));
    for part in Part::all() {
        assert_eq!(store.failed((&route, part), ever, None, 10).await.unwrap(), []);
    }
}

async fn the_tasks_of_a_tracker_that_are_not_settled_are_found_page_by_page(store: impl Fixture) {
    let (mine, batch) = (TrackerId::new("t-1"), BatchId::new("b1"));
    // The id of one tracker may begin as that of another.
    let items = ["t-1:0:0", "t-1:3:7167", "t-1:0:2", "t-10:0:0", "t:0:0"].map(|item| ItemId::parse(item).ok());
    for (n, item) in items.into_iter().enumerate() {
        store.register(&task(&format!("p{n}"), &target("a")).with_item(item)).await.unwrap();
    }
    waiting(&*store, "of-nobody", &target("a")).await;
    let [batched, settled] = ["p1", "p2"].map(|id| task(id, &target("a")).candidate());
    for candidate in [&batched, &settled] {
        store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    }
    store.settle(&member(&settled), &batch, &Settlement::Succeeded, AT).await.unwrap();
    let (mut found, mut after, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = store.unsettled_of(&mine, after.as_ref(), 2).await.unwrap();
        found.extend(page.found.iter().map(ToString::to_string));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, BTreeSet::from(["p0".to_owned(), "p1".to_owned()]));
    assert!(pages > 2, "six tasks, two at a time: {pages}");
}

async fn only_the_batch_a_task_names_settles_it(store: impl Fixture) {
    let (candidate, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    let member = member(&candidate);
    store.settle(&member, &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert!(now(&*store, &candidate.id).await.waits_in(Round(0)));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    store.settle(&member, &BatchId::new("b2"), &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
}

async fn a_settle_in_an_old_round_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    back(&*store, &candidate, &batch, 1, AT).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert!(now(&*store, &candidate.id).await.waits_in(Round(1)));
}

async fn a_round_counts_even_in_the_same_batch(store: impl Fixture) {
    let (candidate, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, Round(0), &batch).await.unwrap();
    back(&*store, &candidate, &batch, 1, AT).await;
    store.join(&candidate.id, Round(1), &batch).await.unwrap();
    let before = now(&*store, &candidate.id).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(store.join(&candidate.id, Round(0), &batch).await.unwrap(), Joined::Elsewhere);
    assert_eq!(now(&*store, &candidate.id).await, before);
}

async fn a_settled_task_neither_joins_nor_waits_again(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b2")).await.unwrap();
    assert_eq!(joined, Joined::Elsewhere);
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Succeeded { batch });
}

/// What the index shows as ended, whatever part of it.
pub async fn ended(store: &impl Tasks) -> Vec<Waiting> {
    let segment = Segment { index: 0, of: 1 };
    store.waiting_long(Look::at(segment, Timestamp(u64::MAX), 100)).await.unwrap().ended
}

async fn a_waiting_task_ends_once_and_is_found_until_all_have_heard(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let ending = failure(&target("a"), "cancelled");
    for later in [AT, Timestamp(AT.0 + 60_000)] {
        let ended = store.end(&candidate.id, Round(0), &ending, later).await.unwrap();
        assert_eq!(ended.map(|ended| ended.at), Some(AT), "by the first write");
    }
    let task = now(&*store, &candidate.id).await;
    assert_eq!(task.status, Status::Failed { batch: None, reason: Reason::new("cancelled") });
    store.index_settles().await;
    assert!(store.waiting(&target("a"), None, 10).await.unwrap().candidates.is_empty());
    let found = ended(&*store).await;
    assert_eq!(found.len(), 1);
    let Waiting { target: of, candidate: entry, since } = &found[0];
    assert_eq!((of, &entry.id, entry.round, *since), (&target("a"), &candidate.id, Round(0), AT));
    assert_eq!(store.join(&candidate.id, Round(0), &BatchId::new("b1")).await.unwrap(), Joined::Elsewhere);
    for _ in 0..2 {
        store.heard_of(&candidate.id, Round(0)).await.unwrap();
        assert_eq!(ended(&*store).await, []);
    }
    assert_eq!(now(&*store, &candidate.id).await, task);
}

async fn a_task_in_a_batch_or_in_another_round_does_not_end(store: impl Fixture) {
    let ending = failure(&target("a"), "cancelled");
    let (candidate, batch) = joined(&*store).await;
    assert_eq!(store.end(&candidate.id, Round(0), &ending, AT).await.unwrap(), None);
    back(&*store, &candidate, &batch, 1, AT).await;
    assert_eq!(store.end(&candidate.id, Round(0), &ending, AT).await.unwrap(), None);
    store.heard_of(&candidate.id, Round(1)).await.unwrap();
    store.index_settles().await;
    assert_eq!(store.waiting(&target("a"), None, 10).await.unwrap().candidates.len(), 1, "it waits on");
    assert_eq!(store.end(&TaskId::new("none"), Round(0), &ending, AT).await.unwrap(), None);
}
