//! What every store must do with a task that is erased.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::ended::Ended;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{failure, member, now, target, task, waiting};

conformance![
    a_task_that_failed_keeps_its_id_its_status_and_its_reason_alone,
    a_task_that_succeeded_keeps_whom_it_is_tied_to,
    only_a_settled_task_is_erased_and_only_in_its_round,
    a_task_of_whose_end_somebody_has_not_heard_is_not_erased,
    a_repeat_erases_nothing_more,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

/// A task that a batch settled.
async fn settled(store: &impl Store, id: &str, settlement: Settlement) -> Task {
    let (candidate, batch) = (waiting(store, id, &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    store.settle(&member(&candidate), &batch, &settlement, AT).await.unwrap();
    now(store, &candidate.id).await
}

async fn a_task_that_failed_keeps_its_id_its_status_and_its_reason_alone(store: impl Fixture) {
    let answer = Some(Excerpt { status: 422, text: "no such street: 1 Main Street".to_owned() });
    let failure = Failure { answer, ..failure(&target("1 Main Street"), "http_422") };
    let before = settled(&*store, "t", Settlement::Failed(failure)).await;
    assert_eq!(store.erase(&before.id, before.round).await.unwrap(), Stored::Yes);
    let after = now(&*store, &before.id).await;
    assert!(after.is_erased());
    assert_eq!(after, Task { payload: String::new(), digest: String::new(), ..before.clone() });
    let failed = store.failure(&before.id).await.unwrap().unwrap();
    assert_eq!((failed.reason.as_str(), failed.target.as_str(), failed.answer), ("http_422", "", None));
    let route = RouteName::new("parcels");
    for part in Part::all() {
        let listed = store.failed((&route, part), (Timestamp(0), Timestamp(u64::MAX / 2)), None, 10).await.unwrap();
        assert_eq!(listed, [], "it is on the list of failed tasks no more");
    }
}

async fn a_task_that_succeeded_keeps_whom_it_is_tied_to(store: impl Fixture) {
    let item = ItemId::parse("t:0:1").ok();
    let new = task("t", &target("a")).with_item(item.clone());
    store.register(&new).await.unwrap();
    let batch = BatchId::new("b1");
    store.join(&new.id, new.round, &batch).await.unwrap();
    store.settle(&member(&new.candidate()), &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(store.erase(&new.id, new.round).await.unwrap(), Stored::Yes);
    let after = now(&*store, &new.id).await;
    assert_eq!((after.item, after.status.batch()), (item, Some(&batch)));
}

async fn only_a_settled_task_is_erased_and_only_in_its_round(store: impl Fixture) {
    let waits = waiting(&*store, "waits", &target("a")).await;
    assert_eq!(store.erase(&waits.id, waits.round).await.unwrap(), Stored::Conflict);
    let done = settled(&*store, "done", Settlement::Succeeded).await;
    assert_eq!(store.erase(&done.id, done.round.next()).await.unwrap(), Stored::Conflict);
    assert_eq!(store.erase(&TaskId::new("nobody"), Round(0)).await.unwrap(), Stored::Conflict);
    for task in [now(&*store, &waits.id).await, now(&*store, &done.id).await] {
        assert!(!task.is_erased(), "{task:?}");
    }
}

async fn a_task_of_whose_end_somebody_has_not_heard_is_not_erased(store: impl Fixture) {
    let waits = waiting(&*store, "t", &target("a")).await;
    let ending = Failure { reason: Ended::Cancelled.reason(), ..failure(&target("a"), "") };
    store.end(&waits.id, waits.round, &ending, AT).await.unwrap().unwrap();
    assert_eq!(store.erase(&waits.id, waits.round).await.unwrap(), Stored::Conflict);
    store.heard_of(&waits.id, waits.round).await.unwrap();
    assert_eq!(store.erase(&waits.id, waits.round).await.unwrap(), Stored::Yes);
}

async fn a_repeat_erases_nothing_more(store: impl Fixture) {
    let done = settled(&*store, "done", Settlement::Succeeded).await;
    for _ in 0..2 {
        assert_eq!(store.erase(&done.id, done.round).await.unwrap(), Stored::Yes);
    }
    assert_eq!(now(&*store, &done.id).await.status, done.status);
}
