//! Writes that meet somebody's transaction: DynamoDB refuses them, and they are made a moment later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use shared::domain::id::{LaneId, RouteName, TaskId};
use shared::domain::lane::{Lane, Numbering, OnFailure};
use shared::domain::time::Timestamp;
use shared::domain::tracker::Outcome;
use shared::ports::{Lanes, LinedUp, Newcomer, Stored};

use crate::fixture::{Fixture, OnDynamo};
use crate::samples::{target, task};

/// Answers the first puts as DynamoDB does while a transaction has the item.
#[derive(Debug)]
struct Busy {
    inner: SharedHttpConnector,
    left: Arc<AtomicUsize>,
}

impl HttpConnector for Busy {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        const REFUSAL: &str =
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"ongoing"}"#;
        let is_put = request.headers().get("x-amz-target").is_some_and(|target| target.ends_with(".PutItem"));
        let take = |left: usize| left.checked_sub(1);
        if is_put && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            let status = 400.try_into().expect("a status");
            return HttpConnectorFuture::ready(Ok(HttpResponse::new(status, REFUSAL.into())));
        }
        self.inner.call(request)
    }
}

#[tokio::test]
async fn a_write_that_meets_a_transaction_is_made_when_that_is_over() {
    let left = Arc::new(AtomicUsize::new(0));
    let refusals = Arc::clone(&left);
    let fixture = OnDynamo::with(move |config: &SdkConfig| {
        let inner = config.http_client().expect("the stack has an HTTP client");
        let client = http_client_fn(move |settings, components| {
            let inner = inner.http_connector(settings, components);
            SharedHttpConnector::new(Busy { inner, left: Arc::clone(&left) })
        });
        config.to_builder().http_client(client).build()
    })
    .await;
    let store = fixture.store();
    let (id, now) = (LaneId::of(&RouteName::new("parcels"), "k"), Timestamp(7));
    let task = task("t0", &target("a"));
    let (lane, _) = Lane::open(id.clone(), Numbering::ByArrival, now).lined_up(&[(task.id.clone(), None)], now);
    let lane = lane.expect("somebody came");
    let newcomer = Newcomer { task, queued: None };
    assert_eq!(store.line_up(&lane, true, &[newcomer]).await.unwrap(), LinedUp::Yes);
    refusals.store(2, Ordering::SeqCst);
    let settled = lane.settled(&TaskId::new("t0"), Outcome::Succeeded, OnFailure::Hold, None, now).unwrap();
    assert_eq!(store.store_lane(&settled).await.unwrap(), Stored::Yes);
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    assert_eq!(store.lane(&id).await.unwrap(), Some(settled));
}
