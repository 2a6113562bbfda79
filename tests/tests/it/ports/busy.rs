//! Writes that DynamoDB refuses for now: they meet somebody's transaction, or a partition that has no units left. They
//! are made a moment later, unless their caller would rather go elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use groupage_core::ports::Error;
use groupage_lab::prelude::*;

use super::fixture::OnDynamo;
use super::samples::{target, task};

const MEETS_A_TRANSACTION: &str = "TransactionConflictException";
const THROTTLED: &str = "ProvisionedThroughputExceededException";

/// Refuses the first puts as DynamoDB does, with this error.
#[derive(Debug)]
struct Busy {
    inner: SharedHttpConnector,
    error: &'static str,
    left: Arc<AtomicUsize>,
}

impl HttpConnector for Busy {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let is_put = request.headers().get("x-amz-target").is_some_and(|target| target.ends_with(".PutItem"));
        let take = |left: usize| left.checked_sub(1);
        if is_put && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            let refusal = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{}","message":"busy"}}"#, self.error);
            let status = 400.try_into().expect("a status");
            return HttpConnectorFuture::ready(Ok(HttpResponse::new(status, refusal.into())));
        }
        self.inner.call(request)
    }
}

/// A database that refuses as many puts as are left.
async fn busy(error: &'static str) -> (OnDynamo, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(0));
    let refusals = Arc::clone(&left);
    let store = OnDynamo::through(move |inner| Busy { inner, error, left: Arc::clone(&left) }).await;
    (store, refusals)
}

#[tokio::test]
async fn a_throttled_put_is_repeated_unless_the_task_has_another_place() {
    let (store, refusals) = busy(THROTTLED).await;
    refusals.store(2, Ordering::SeqCst);
    let told = store.try_register(&task("t0", &target("a"))).await;
    assert!(matches!(told, Err(Error::Throttled { .. })), "{told:?}");
    assert_eq!(refusals.load(Ordering::SeqCst), 1, "asked once");
    assert_eq!(store.register(&task("t1", &target("a"))).await.unwrap(), Registered::New);
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    assert_eq!(store.try_register(&task("t0", &target("b"))).await.unwrap(), Registered::New);
}

#[tokio::test]
async fn a_write_that_meets_a_transaction_is_made_when_that_is_over() {
    let (store, refusals) = busy(MEETS_A_TRANSACTION).await;
    let (id, now) = (LaneId::of(&RouteName::new("parcels"), "k"), Timestamp(7));
    let (task, other) = (task("t0", &target("a")), task("t1", &target("a")));
    let (lane, _) = Lane::open(id.clone(), Numbering::ByArrival, now).lined_up(&[(task.id.clone(), None)], now);
    let lane = lane.expect("somebody came");
    let newcomer = Newcomer { task, queued: None };
    assert_eq!(store.line_up(&lane, true, &[newcomer]).await.unwrap(), LinedUp::Yes);
    refusals.store(2, Ordering::SeqCst);
    let settled = lane.settled((&TaskId::new("t0"), Round(0)), Outcome::Succeeded, OnFailure::Hold, None, now).unwrap();
    assert_eq!(store.store_lane(&settled).await.unwrap(), Stored::Yes);
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    refusals.store(2, Ordering::SeqCst);
    assert_eq!(store.try_register(&other).await.unwrap(), Registered::New, "that says nothing of its place");
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    assert_eq!(store.lane(&id).await.unwrap(), Some(settled));
}
