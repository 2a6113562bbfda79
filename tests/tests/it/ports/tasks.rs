//! What every `Tasks` must do with a task's own record: register, read, join a batch and put back.

use std::collections::BTreeSet;

use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, now, target, task, waiting};
use super::task_index::walk;

conformance![
    an_id_is_registered_once,
    a_repeated_registration_finds_the_task,
    a_read_leaves_out_what_is_not_there,
    a_read_of_an_id_named_twice_finds_the_task,
    a_read_of_more_tasks_than_one_request_takes_finds_all,
    a_repeated_join_recognises_itself,
    a_join_in_an_old_round_changes_nothing,
    a_task_that_is_in_a_batch_cannot_join_another,
    nothing_joins_where_there_is_no_task,
    a_member_that_is_put_back_waits_in_its_next_round,
    a_repeated_put_back_recognises_itself,
    a_put_back_by_another_batch_changes_nothing,
    a_put_back_of_a_task_that_moved_on_changes_nothing,
    nothing_is_put_back_where_there_is_no_task,
    a_task_keeps_until_when_it_is_wanted,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

async fn an_id_is_registered_once(store: impl Fixture) {
    let first = task("t", &target("a"));
    let second = task("t", &target("b"));
    assert_eq!(store.register(&first).await.unwrap(), Registered::New);
    assert_eq!(store.register(&second).await.unwrap(), Registered::Existing(Box::new(first.clone())));
    assert_eq!(now(&*store, &first.id).await, first);
}

async fn a_repeated_registration_finds_the_task(store: impl Fixture) {
    let task = task("t", &target("a"));
    store.register(&task).await.unwrap();
    // The very same write may also take itself for its own repeat: either way the task is driven on.
    let again = store.register(&task).await.unwrap();
    assert!(again == Registered::New || again == Registered::Existing(Box::new(task)), "{again:?}");
}

async fn a_read_leaves_out_what_is_not_there(store: impl Fixture) {
    let there = waiting(&*store, "there", &target("a")).await.id;
    for freshness in [Freshness::Eventual, Freshness::Latest] {
        let found = store.read(&[TaskId::new("gone"), there.clone()], freshness).await.unwrap();
        assert_eq!(found.iter().map(|task| &task.id).collect::<Vec<_>>(), [&there]);
    }
    assert!(store.read(&[], Freshness::Latest).await.unwrap().is_empty());
}

async fn a_read_of_an_id_named_twice_finds_the_task(store: impl Fixture) {
    let id = waiting(&*store, "t", &target("a")).await.id;
    let found = store.read(&[id.clone(), id.clone()], Freshness::Latest).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|task| task.id == id));
}

async fn a_read_of_more_tasks_than_one_request_takes_finds_all(store: impl Fixture) {
    let mut ids = BTreeSet::new();
    for n in 0..230 {
        ids.insert(waiting(&*store, &format!("t{n}"), &target("a")).await.id);
    }
    let asked: Vec<TaskId> = ids.iter().cloned().collect();
    let found = store.read(&asked, Freshness::Latest).await.unwrap();
    assert_eq!(found.into_iter().map(|task| task.id).collect::<BTreeSet<_>>(), ids);
}

async fn a_repeated_join_recognises_itself(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    for _ in 0..2 {
        let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b1")).await.unwrap();
        assert_eq!(joined, Joined::Yes);
    }
}

async fn a_join_in_an_old_round_changes_nothing(store: impl Fixture) {
    let (old, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&old.id, old.round, &batch).await.unwrap();
    back(&*store, &old, &batch, 1, AT).await;
    let before = now(&*store, &old.id).await;
    for late in [&batch, &BatchId::new("b2")] {
        assert_eq!(store.join(&old.id, old.round, late).await.unwrap(), Joined::Elsewhere);
    }
    assert_eq!(now(&*store, &old.id).await, before);
    assert!(before.waits_in(Round(1)));
}

async fn a_task_that_is_in_a_batch_cannot_join_another(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let first = BatchId::new("b1");
    store.join(&candidate.id, candidate.round, &first).await.unwrap();
    let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b2")).await.unwrap();
    assert_eq!(joined, Joined::Elsewhere);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch: first });
}

async fn nothing_joins_where_there_is_no_task(store: impl Fixture) {
    let gone = TaskId::new("gone");
    assert_eq!(store.join(&gone, Round(0), &BatchId::new("b1")).await.unwrap(), Joined::Elsewhere);
    assert!(store.read(&[gone], Freshness::Latest).await.unwrap().is_empty());
}

/// A task that waited for `a` and has joined the batch `b1`.
pub async fn joined(store: &impl Tasks) -> (Candidate, BatchId) {
    let (candidate, batch) = (waiting(store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    (candidate, batch)
}

async fn a_member_that_is_put_back_waits_in_its_next_round(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    assert_eq!(back(&*store, &candidate, &batch, 3, AT).await, PutBack::Waits);
    let task = now(&*store, &candidate.id).await;
    assert!(task.waits_in(Round(1)));
    assert_eq!((task.attempts, task.waits_since), (3, AT));
    assert_eq!(task.status, Status::Created { target: target("a") });
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [Candidate { round: Round(1), ..candidate }]);
}

async fn a_repeated_put_back_recognises_itself(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    for at in [AT, AT.plus_ms(9)] {
        assert_eq!(back(&*store, &candidate, &batch, 1, at).await, PutBack::Waits);
    }
    let task = now(&*store, &candidate.id).await;
    assert_eq!((task.round, task.waits_since), (Round(1), AT));
}

async fn a_put_back_by_another_batch_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let put_back = back(&*store, &candidate, &BatchId::new("b2"), 1, AT).await;
    assert_eq!(put_back, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
}

async fn a_put_back_of_a_task_that_moved_on_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    back(&*store, &candidate, &batch, 1, AT).await;
    store.join(&candidate.id, Round(1), &BatchId::new("b2")).await.unwrap();
    let before = now(&*store, &candidate.id).await;
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await, before);
}

async fn nothing_is_put_back_where_there_is_no_task(store: impl Fixture) {
    let gone = Candidate { id: TaskId::new("gone"), round: Round(0), bytes: 1, traits: Traits::default() };
    let put_back = back(&*store, &gone, &BatchId::new("b1"), 1, AT).await;
    assert_eq!(put_back, PutBack::MovedOn);
    assert!(store.read(&[gone.id], Freshness::Latest).await.unwrap().is_empty());
}

async fn a_task_keeps_until_when_it_is_wanted(store: impl Fixture) {
    for (id, expires_at) in [("ends", Some(Timestamp(1_700_000_600_123))), ("never", None)] {
        let task = task(id, &target("a")).expiring(expires_at);
        store.register(&task).await.unwrap();
        assert_eq!(now(&*store, &task.id).await, task);
    }
}
