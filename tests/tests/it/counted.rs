//! Counts of what the functions did, as their metrics have it.

use std::sync::atomic::{AtomicBool, Ordering};

use groupage_aws::entry::{self, Metric, RouteSource};
use groupage_core::domain::batch::Member;
use groupage_core::domain::task::Ties;
use groupage_core::ports::{Error, Result, Settlement};
use groupage_lab::prelude::*;

/// Tables that do not answer the first write of a member's own status.
struct Silent(MemoryStore, AtomicBool);

around_tables! { Silent, |it| &it.0;
    Failures, Lanes, Locks, Batches, Sessions, Gates, Trackers, Lists, Streams, Shelves
}

impl layer::Tasks for Silent {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        if self.1.swap(false, Ordering::Relaxed) {
            return Err(Error::Unavailable { what: "settling a task", why: "no answer".to_owned() });
        }
        self.0.settle(member, batch, settlement, now).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_status_is_not_written_at_first_counts_once() {
    let routes = Routes::parse(parcels_route!["batch: { max_items: 1, express: true }"]).unwrap();
    let store = Silent(MemoryStore::new(), AtomicBool::new(true));
    let (env, routes) = (TestEnv::new(1), RouteSource::Fixed(routes.into()));
    let stack = entry::Stack::new(store, MemoryQueues::new(), env, routes);
    let downstream = Scripted::accepting();
    let task = r#"{"id":"t1","payload":{"truck":"x"}}"#;
    entry::register_task(&stack, entry::event([("m".to_owned(), task.to_owned(), 1)])).await;
    let batch = stack.queues.messages(&Destination::Handle).pop().unwrap();
    let mut counts = entry::Counts::default();
    let mut kept = Vec::new();
    for received in 1..=2 {
        let event = entry::event([("h".to_owned(), batch.body.clone(), received)]);
        let handled = entry::batch_handler(&stack, &Destination::Handle, &downstream, event).await;
        counts.merge(&handled.counts);
        kept.push(handled.response.batch_item_failures.len());
    }
    assert_eq!(kept, [1, 0], "the message comes again, and is done with then");
    assert_eq!(downstream.ledger().len(), 1);
    assert!(stack.store.0.tasks().iter().all(|task| task.status.is_settled()));
    let counted = [Metric::CallsSettled, Metric::TasksSucceeded, Metric::RecordsFailed].map(|of| counts.get(of));
    assert_eq!(counted, [1, 1, 1]);
}
