//! A served API, and how the tests call it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use groupage_aws::System;
use groupage_aws::entry::{RouteSource, Stack};
use groupage_core::domain::{LaneId, Timestamp};
use groupage_core::memory::{MemoryQueues, MemoryStore};
use groupage_core::ports::{Destination, Env, Outbox, Outgoing};
use groupage_core::routes::Routes;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::net::TcpListener;

/// A queue that the routes name.
pub const NAMED_QUEUE: &str = "https://sqs.example/1/failures";

const ROUTES: &str = "
version: 1
routes:
  - name: parcels
    when: type == 'parcel'
    target: truck
    downstream: pull
    notify: { failure: https://sqs.example/1/failures }
  - name: payments
    when: type == 'payment'
    target: bank
    ordered_by: account
    downstream: pull
";

/// A machine whose clock goes on by a millisecond whenever somebody looks at it. Two calls in the same one that open
/// the same tracker would be one call to the store, repeated.
#[derive(Debug, Default)]
pub struct Ticking(AtomicU64);

impl Ticking {
    /// Goes on by this many milliseconds.
    pub fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Env for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn random(&self) -> f64 {
        System.random()
    }

    fn fresh_id(&self) -> String {
        System.fresh_id()
    }

    async fn sleep(&self, ms: u64) {
        System.sleep(ms).await;
    }
}

/// An API of its own for one test.
pub struct Desk<Q = MemoryQueues> {
    pub stack: Arc<Stack<MemoryStore, Q, Ticking>>,
    client: Client,
    url: String,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub media_type: String,
    pub allow: String,
    pub location: String,
    pub retry_after: String,
    pub body: Value,
}

impl Desk {
    pub async fn open() -> Self {
        Self::with(MemoryQueues::new()).await
    }

    /// Messages sent to the task queue.
    pub fn intake(&self) -> Vec<Outgoing> {
        self.stack.queues.messages(&Destination::Tasks)
    }

    /// Messages sent to the task queue that keeps order, of one order key.
    pub fn in_order(&self, lane: &str) -> Vec<Outgoing> {
        self.stack.queues.messages(&Destination::InOrder(LaneId::new(lane)))
    }
}

impl<Q: Outbox + Send + 'static> Desk<Q> {
    pub async fn with(queues: Q) -> Self {
        let routes = RouteSource::Fixed(Arc::new(Routes::parse(ROUTES).unwrap()));
        let stack = Arc::new(Stack::new(MemoryStore::new(), queues, Ticking::default(), routes));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // The client makes no connection without one, not even in plain text; every test but the first finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let router = api::router(Arc::clone(&stack));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { stack, client: Client::builder().no_proxy().build().unwrap(), url }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    /// A POST of JSON as it is written.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = self.request(Method::POST, path).header("Content-Type", "application/json");
        answer(request.body(body.into())).await
    }

    /// Opens a tracker with this many items.
    pub async fn tracker(&self, id: &str, items: u64) {
        assert_eq!(self.post("/trackers", format!(r#"{{"id":"{id}"}}"#)).await.status, 201);
        if items > 0 {
            let body = format!(r#"{{"key":"all","count":{items}}}"#);
            assert_eq!(self.post(&format!("/trackers/{id}/items"), body).await.status, 200);
        }
    }

    /// The tracker, as it is shown.
    pub async fn shown(&self, id: &str) -> Value {
        self.get(&format!("/trackers/{id}")).await.body
    }
}

pub async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let header =
        |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let (status, media_type) = (response.status().as_u16(), header("content-type"));
    let (allow, location, retry_after) = (header("allow"), header("location"), header("retry-after"));
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, media_type, allow, location, retry_after, body }
}

impl Answer {
    /// The problem's field; fails unless this is problem details with this status.
    #[track_caller]
    pub fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.media_type, "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        for name in ["type", "title", "detail"] {
            assert!(self.body[name].is_string(), "{name}: {self:?}");
        }
        self.body["field"].as_str().unwrap_or_default()
    }
}
