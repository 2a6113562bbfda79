//! The sample downstream: an API that loads parcels on trucks, one truck per call.
//!
//! It is as tiresome as real ones are. It is slow, takes few calls at once (HTTP 429 for the rest), fails some calls
//! for now (503), and never takes a parcel that is too heavy. Which calls are slow or fail follows from the
//! `Idempotency-Key` and a seed, so that a run can be repeated.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use groupage_core::domain::id::digest;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time;

use super::ledger::{Ledger, Outcome, Parcel};

/// No truck takes a parcel that weighs more.
pub const MAX_KG: u64 = 1_000;

/// How tiresome the API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temper {
    /// Chooses which calls are slow and which fail.
    pub seed: u64,
    /// The shortest a call takes.
    pub min_latency: Duration,
    /// The longest a call takes.
    pub max_latency: Duration,
    /// Calls at once; more are turned away.
    pub calls_at_once: usize,
    /// One call in this many fails for now; 0 lets none fail.
    pub fails_one_in: u64,
}

impl Default for Temper {
    fn default() -> Self {
        Self {
            seed: 7,
            min_latency: Duration::from_millis(150),
            max_latency: Duration::from_millis(400),
            calls_at_once: 16,
            fails_one_in: 20,
        }
    }
}

impl Temper {
    /// How long a call takes, `number` being its number under its key.
    fn latency(&self, key: &str, number: u32) -> Duration {
        let spread = self.max_latency.saturating_sub(self.min_latency);
        self.min_latency + spread.mul_f64((self.roll("latency", key, number) % 1_000) as f64 / 1_000.0)
    }

    fn fails(&self, key: &str, number: u32) -> bool {
        self.fails_one_in > 0 && self.roll("failure", key, number).is_multiple_of(self.fails_one_in)
    }

    /// A number that looks random and follows from its arguments.
    fn roll(&self, what: &str, key: &str, number: u32) -> u64 {
        let hex = digest(&[what, &self.seed.to_string(), key, &number.to_string()]);
        hex.bytes().take(15).fold(0, |sum, digit| sum * 16 + u64::from((digit as char).to_digit(16).unwrap_or(0)))
    }
}

/// The running API. Dropping it stops it.
#[derive(Debug)]
pub struct Trucks {
    address: SocketAddr,
    api: Arc<Api>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

impl Trucks {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// The operating system has no port to give.
    pub async fn start(temper: Temper) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let api = Arc::new(Api::new(temper));
        let app = Router::new().route("/load", post(load)).with_state(Arc::clone(&api));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = axum::serve(listener, app).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(async move { serving.await });
        Ok(Self { address, api, stop, server })
    }

    /// Where batches of parcels go.
    pub fn load_url(&self) -> String {
        format!("http://{}/load", self.address)
    }

    /// The account of the run. Calls wait while it is held.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.api.ledger()
    }

    /// Finishes the calls under way and stops.
    ///
    /// # Errors
    /// The server had failed before.
    pub async fn shutdown(self) -> io::Result<()> {
        drop(self.stop);
        self.server.await.map_err(io::Error::other)?
    }
}

#[derive(Debug)]
struct Api {
    temper: Temper,
    places: Semaphore,
    ledger: Mutex<Ledger>,
}

impl Api {
    fn new(temper: Temper) -> Self {
        Self { places: Semaphore::new(temper.calls_at_once), temper, ledger: Mutex::default() }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every change of the ledger is complete before anything that could panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The default body of a call.
#[derive(Deserialize)]
struct Request {
    target: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    truck: String,
    kg: u64,
}

#[derive(Serialize)]
struct Loaded {
    results: Vec<ItemResult>,
}

#[derive(Serialize)]
struct ItemResult {
    id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

async fn load(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(_place) = api.places.try_acquire() else {
        api.ledger().throttle();
        return (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")]).into_response();
    };
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok());
    let (Some(key), Ok(request)) = (key, serde_json::from_slice::<Request>(&body)) else {
        api.ledger().not_understood();
        return StatusCode::BAD_REQUEST.into_response();
    };
    let truck = request.target;
    let parcels: Vec<Parcel> = request.items.into_iter().map(parcel).collect();
    let number = api.ledger().call(key, &truck, &parcels, Instant::now());
    time::sleep(api.temper.latency(key, number)).await;
    if api.temper.fails(key, number) {
        api.ledger().fail();
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let outcomes = api.ledger().load(key, &parcels, MAX_KG);
    let results = parcels.into_iter().zip(outcomes).map(|(parcel, outcome)| result(parcel.id, outcome)).collect();
    Json(Loaded { results }).into_response()
}

fn parcel(item: Item) -> Parcel {
    Parcel { id: item.id, truck: item.payload.truck, kg: item.payload.kg }
}

fn result(id: String, outcome: Outcome) -> ItemResult {
    match outcome {
        Outcome::Loaded => ItemResult { id, status: "succeeded", reason: None },
        Outcome::TooHeavy => ItemResult { id, status: "failed", reason: Some("too_heavy") },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn api(temper: Temper) -> Arc<Api> {
        let quick = Temper { min_latency: Duration::ZERO, max_latency: Duration::ZERO, ..temper };
        Arc::new(Api::new(quick))
    }

    fn body() -> Value {
        json!({
            "batch": "k1",
            "target": "t1",
            "items": [
                { "id": "a", "payload": { "truck": "t1", "kg": 3 } },
                { "id": "b", "payload": { "truck": "t1", "kg": MAX_KG + 1 } },
            ],
        })
    }

    async fn post(api: &Arc<Api>, key: &str, body: &Value) -> (StatusCode, Value) {
        let headers = HeaderMap::from_iter([("idempotency-key".parse().unwrap(), key.parse().unwrap())]);
        let response = load(State(Arc::clone(api)), headers, body.to_string().into()).await;
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    #[tokio::test]
    async fn a_call_is_answered_for_every_parcel() {
        let api = api(Temper { fails_one_in: 0, ..Temper::default() });
        let (status, answer) = post(&api, "k1", &body()).await;
        assert_eq!(status, StatusCode::OK);
        let results = json!([
            { "id": "a", "status": "succeeded" },
            { "id": "b", "status": "failed", "reason": "too_heavy" },
        ]);
        assert_eq!(answer["results"], results);
        assert_eq!(api.ledger().answer("b").unwrap().outcome, Outcome::TooHeavy);
    }

    #[tokio::test]
    async fn a_failed_call_loads_nothing() {
        let api = api(Temper { fails_one_in: 1, ..Temper::default() });
        let (status, _) = post(&api, "k1", &body()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(api.ledger().answer("a"), None);
        assert_eq!(api.ledger().calls().unavailable, 1);
    }

    #[tokio::test]
    async fn a_call_too_many_is_turned_away() {
        let api = api(Temper { calls_at_once: 0, ..Temper::default() });
        let (status, _) = post(&api, "k1", &body()).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(api.ledger().calls().throttled, 1);
        assert_eq!(api.ledger().batches().count(), 0);
    }

    #[tokio::test]
    async fn a_call_without_its_parcels_or_its_key_is_refused() {
        let api = api(Temper::default());
        let (status, _) = post(&api, "k1", &json!({ "target": "t1" })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let response = load(State(Arc::clone(&api)), HeaderMap::new(), body().to_string().into()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(api.ledger().calls().malformed, 2);
    }

    #[test]
    fn about_one_call_in_twenty_fails_and_always_the_same_ones() {
        let temper = Temper::default();
        let failing = |number| (0..2_000).filter(|key| temper.fails(&format!("k{key}"), number)).collect::<Vec<_>>();
        let first = failing(1);
        assert!((60..=140).contains(&first.len()), "{}", first.len());
        assert_eq!(first, failing(1));
        assert_ne!(first, failing(2), "a call that failed once need not fail again");
    }

    #[test]
    fn latency_stays_in_its_range() {
        let temper = Temper::default();
        for key in 0..100 {
            let latency = temper.latency(&key.to_string(), 1);
            assert!((temper.min_latency..=temper.max_latency).contains(&latency));
        }
    }
}
