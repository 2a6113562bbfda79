//! What every `Census` must find.

use std::collections::BTreeSet;

use groupage_core::domain::gate::{BreakerPolicy, Scope};
use groupage_core::domain::outcome::{Failure, Fault};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, OnDynamo};
use super::samples::{lead, lock_of, member, target, waiting};

#[tokio::test]
async fn everything_not_at_rest_is_found_in_memory() {
    everything_not_at_rest_is_found(&MemoryStore::new()).await;
}

#[tokio::test]
async fn everything_not_at_rest_is_found_on_dynamodb() {
    everything_not_at_rest_is_found(&*OnDynamo::start().await).await;
}

async fn everything_not_at_rest_is_found(store: &(impl Store + Census)) {
    let held = lead(store, &target("held"), "w1", 10).await;
    let released = lead(store, &target("released"), "w2", 10).await;
    store.release(&released, Seq(0), 0, Timestamp(1)).await.unwrap();
    let gate = Gate::default().paused(Timestamp(9)).unwrap();
    store.store_gate(&Scope::Route(RouteName::new("r")), &gate, Timestamp(0)).await.unwrap();
    assert_eq!(store.held_locks().await.unwrap(), [(target("held"), lock_of(&held))]);
    assert_eq!(store.gates_to_tell_of().await.unwrap(), [], "a pause ends by itself");
    let (id, policy) = (BatchId::new("b"), BreakerPolicy { longest_pause_ms: 0, notifies: false });
    let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream };
    let (told, _) = Gate::default().failed((&id, &id), &failure, policy, Timestamp(3));
    let (scope, told) = (Scope::Target(target("held")), told.unwrap());
    store.store_gate(&scope, &told, Timestamp(3)).await.unwrap();
    assert_eq!(store.gates_to_tell_of().await.unwrap(), [(scope, told)]);

    let batch = BatchId::new("b");
    for id in ["waits", "batched", "settled"] {
        waiting(store, id, &target("held")).await;
    }
    for id in ["batched", "settled"] {
        let candidate = super::samples::task(id, &target("held")).candidate();
        store.join(&candidate.id, candidate.round, &batch).await.unwrap();
        if id == "settled" {
            store.settle(&member(&candidate), &batch, &Settlement::Succeeded, Timestamp(2)).await.unwrap();
        }
    }
    let found: BTreeSet<String> =
        store.unsettled_tasks().await.unwrap().into_iter().map(|task| task.id.to_string()).collect();
    assert_eq!(found, BTreeSet::from(["waits".to_owned(), "batched".to_owned()]));
}

#[tokio::test]
async fn tasks_are_found_by_what_they_say_whatever_became_of_them() {
    for_what_they_say(&MemoryStore::new()).await;
    for_what_they_say(&*OnDynamo::start().await).await;
}

async fn for_what_they_say(store: &(impl Store + Census)) {
    for id in ["waits", "done", "other"] {
        waiting(store, id, &target("a")).await;
    }
    let (candidate, batch) = (super::samples::task("done", &target("a")).candidate(), BatchId::new("b"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, Timestamp(2)).await.unwrap();
    let found = store.tasks_that(&|task| !task.payload.contains("other")).await.unwrap();
    assert_eq!(BTreeSet::from_iter(found.iter().map(TaskId::as_str)), BTreeSet::from(["waits", "done"]));
}

#[tokio::test]
async fn a_census_reads_beyond_the_first_page() {
    let store = OnDynamo::start().await;
    // A page ends at 1 MB: these tasks fill more than one.
    for n in 0..30 {
        let mut task = super::samples::task(&format!("t{n}"), &target("a"));
        task.payload = format!("\"{}\"", "x".repeat(60_000));
        store.register(&task).await.unwrap();
    }
    assert_eq!(store.unsettled_tasks().await.unwrap().len(), 30);
}
