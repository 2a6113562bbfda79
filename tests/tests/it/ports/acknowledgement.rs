//! The acknowledgement as part of a worker's own transaction: its results and the outcome, both or neither.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsOutput};
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnConsumedCapacity, TransactWriteItem};
use groupage_aws::{Dynamo, Sqs, System};
use groupage_core::domain::batch::{Assumes, Claim, FollowUp, Status};
use groupage_core::steps::process::{Counts, follow_up};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, LosingAnswers, OnDynamo};
use super::samples::{batch, now, target, waiting};

const AT: Timestamp = Timestamp(9_000);

/// A batch of two tasks that a worker has claimed.
async fn claimed(store: &Dynamo) -> Batch {
    let mut candidates = Vec::new();
    for id in ["t1", "t2"] {
        candidates.push(waiting(store, id, &target("a")).await);
    }
    let open = Batch::open(BatchId::new("b1"), target("a"), Fence(7), &candidates, AT, 1);
    put(store, &open, Assumes::Absent).await;
    for task in &candidates {
        assert_eq!(store.join(&task.id, task.round, &open.id).await.unwrap(), Joined::Yes);
    }
    let frozen = open.frozen(open.members.clone());
    put(store, &frozen, Assumes::At(open.revision)).await;
    take(store, &frozen, "parcels/s1").await
}

async fn put(store: &Dynamo, batch: &Batch, assumes: Assumes) {
    assert_eq!(store.store(batch, assumes).await.unwrap(), Stored::Yes);
}

/// Claims a batch, whichever worker may have it.
async fn take(store: &Dynamo, batch: &Batch, session: &str) -> Batch {
    let taken = batch.claimed(Claim { session: SessionId::new(session) });
    put(store, &taken, Assumes::At(batch.revision)).await;
    taken
}

/// The second task failed.
fn settled(claimed: &Batch) -> Batch {
    let failed = Exception::Failed { reason: Reason::new("no_city"), attempts: claimed.attempts };
    claimed.settled(Results::from([(claimed.members[1].id.clone(), failed)]), AT)
}

/// A worker's own writes, beside the tables of the stack: any table will do.
struct Own {
    client: Client,
    table: String,
}

impl Own {
    fn of(store: &OnDynamo) -> Self {
        let stack = store.stack();
        Self { client: store.client(), table: stack.tables().routes.clone() }
    }

    /// Commits a result together with the acknowledgement; the reasons if the transaction is cancelled.
    async fn commit(&self, acknowledgement: TransactWriteItem) -> Result<TransactWriteItemsOutput, Vec<String>> {
        let put = Put::builder().table_name(&self.table).item("Name", AttributeValue::S("result".to_owned()));
        let result = TransactWriteItem::builder().put(put.build().unwrap()).build();
        let transaction = self.client.transact_write_items().transact_items(acknowledgement).transact_items(result);
        let sent = transaction.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await;
        sent.map_err(|error| match error.into_service_error() {
            TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                cancelled.cancellation_reasons().iter().map(|why| why.code().unwrap_or_default().to_owned()).collect()
            }
            other => panic!("{other:?}"),
        })
    }

    async fn result_is_there(&self) -> bool {
        let name = AttributeValue::S("result".to_owned());
        let read = self.client.get_item().table_name(&self.table).key("Name", name).consistent_read(true);
        read.send().await.unwrap().item.is_some()
    }
}

/// A worker that has claimed a batch, and its own table.
async fn at_work() -> (OnDynamo, Own, Batch) {
    let store = OnDynamo::start().await;
    let (own, claimed) = (Own::of(&store), claimed(&store).await);
    (store, own, claimed)
}

const LOST: [&str; 2] = ["ConditionalCheckFailed", "None"];

#[tokio::test]
async fn outcome_and_result_are_committed_together() {
    let (store, own, claimed) = at_work().await;
    let settled = settled(&claimed);
    own.commit(store.acknowledgement(&claimed, &settled).unwrap()).await.unwrap();
    assert_eq!(store.batch(&claimed.id).await.unwrap(), Some(settled));
    assert!(own.result_is_there().await);
}

#[tokio::test]
async fn after_a_takeover_neither_outcome_nor_result_is_written() {
    let (store, own, claimed) = at_work().await;
    let taken = take(&store, &claimed, "parcels/s2").await;
    let late = own.commit(store.acknowledgement(&claimed, &settled(&claimed)).unwrap()).await;
    assert_eq!(late.unwrap_err(), LOST);
    assert_eq!(store.batch(&claimed.id).await.unwrap().as_ref(), Some(&taken));
    assert!(!own.result_is_there().await);
    // Nor is the worker that took it over hindered.
    own.commit(store.acknowledgement(&taken, &settled(&taken)).unwrap()).await.unwrap();
    assert!(own.result_is_there().await);
}

#[tokio::test]
async fn neither_is_written_where_the_own_write_is_refused() {
    let (store, own, claimed) = at_work().await;
    let nowhere = Put::builder()
        .table_name(&own.table)
        .item("Name", AttributeValue::S("result".to_owned()))
        .condition_expression("attribute_exists(Nothing)");
    let cancelled = own
        .client
        .transact_write_items()
        .transact_items(store.acknowledgement(&claimed, &settled(&claimed)).unwrap())
        .transact_items(TransactWriteItem::builder().put(nowhere.build().unwrap()).build());
    cancelled.send().await.unwrap_err();
    assert_eq!(store.batch(&claimed.id).await.unwrap(), Some(claimed));
}

#[tokio::test]
async fn a_batch_is_acknowledged_once() {
    let (store, own, claimed) = at_work().await;
    let (first, second) = (settled(&claimed), claimed.settled(Results::new(), AT));
    own.commit(store.acknowledgement(&claimed, &first).unwrap()).await.unwrap();
    for again in [&first, &second] {
        let repeated = own.commit(store.acknowledgement(&claimed, again).unwrap()).await;
        assert_eq!(repeated.unwrap_err(), LOST);
    }
    assert_eq!(store.batch(&claimed.id).await.unwrap(), Some(first));
}

#[tokio::test]
async fn a_batch_that_is_gone_cannot_be_acknowledged() {
    let store = OnDynamo::start().await;
    let own = Own::of(&store);
    let never = batch("b9", &target("a"), 1);
    let settled = never.settled(Results::new(), AT);
    let acknowledged = own.commit(store.acknowledgement(&never, &settled).unwrap()).await;
    assert_eq!(acknowledged.unwrap_err(), LOST);
    assert_eq!(store.batch(&never.id).await.unwrap(), None);
}

/// The SDK gives every transaction a token, by which DynamoDB knows a request that it has carried out already.
#[tokio::test]
async fn a_transaction_whose_answer_was_lost_succeeds_when_the_sdk_repeats_it() {
    let store = LosingAnswers::start().await;
    let own = Own::of(&store.0);
    let claimed = claimed(&store).await;
    let settled = settled(&claimed);
    own.commit(store.acknowledgement(&claimed, &settled).unwrap()).await.unwrap();
    assert_eq!(store.batch(&claimed.id).await.unwrap(), Some(settled));
}

#[tokio::test]
async fn what_follows_is_derived_from_the_outcome_as_from_any_other() {
    let (store, own, claimed) = at_work().await;
    let settled = settled(&claimed);
    own.commit(store.acknowledgement(&claimed, &settled).unwrap()).await.unwrap();
    let stack = store.stack();
    let outbox = Sqs::new(stack.sdk_config(), stack.queues().clone(), Arc::clone(store.meter()));
    let routes = Routes::parse("version: 1\nroutes: [{ name: parcels, target: t, downstream: pull }]").unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    // From what the table holds, as sweep would.
    let found = store.batch(&claimed.id).await.unwrap().expect("it is there");
    let counts = follow_up(&*store, &outbox, &System, route, &found, None).await.unwrap();
    assert_eq!(Counts { followed: None, ..counts }, Counts { succeeded: 1, failed: 1, ..Counts::default() });
    let status = async |n: usize| now(&*store, &claimed.members[n].id).await.status;
    assert_eq!(status(0).await, task::Status::Succeeded { batch: claimed.id.clone() });
    let reason = Reason::new("no_city");
    assert_eq!(status(1).await, task::Status::Failed { batch: Some(claimed.id.clone()), reason });
    let done = store.batch(&claimed.id).await.unwrap().expect("it is there");
    assert!(matches!(done.status, Status::Settled { follow_up: FollowUp::Done, .. }));
}

#[tokio::test]
async fn in_a_transaction_every_write_costs_twice() {
    let (store, own, claimed) = at_work().await;
    let committed = own.commit(store.acknowledgement(&claimed, &settled(&claimed)).unwrap()).await.unwrap();
    let units: f64 = committed.consumed_capacity().iter().filter_map(|table| table.capacity_units()).sum();
    assert!((units - 4.0).abs() < 0.1, "{units} write units for two small items");
}
