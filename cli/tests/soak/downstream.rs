//! A downstream with faults: it says no for now, is slow, hangs up before or after its work, and talks nonsense.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::stream;
use serde_json::Value;

use super::dice::roll;
use super::ledger::Ledger;

/// Longer than any caller waits.
const TOO_LONG: Duration = Duration::from_secs(3);

pub async fn start(seed: u64, ledger: Arc<Mutex<Ledger>>) -> String {
    let seed: Arc<str> = seed.to_string().into();
    let load =
        move |headers: HeaderMap, Json(body): Json<Value>| load(Arc::clone(&seed), Arc::clone(&ledger), headers, body);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/load", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/load", post(load))).await });
    url
}

async fn load(seed: Arc<str>, ledger: Arc<Mutex<Ledger>>, headers: HeaderMap, body: Value) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let members: Vec<String> =
        body["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
    let number = ledger.lock().unwrap().call(&key, &members).to_string();
    let dice = roll(&["call", &seed, &key, &number]);
    tokio::time::sleep(Duration::from_millis(20 + dice / 100 % 200)).await;
    let count = |ending| ledger.lock().unwrap().count(ending);
    let answer = || ledger.lock().unwrap().answer(&seed, &key);
    match dice % 100 {
        0..5 => {
            count("unavailable (503)");
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response()
        }
        5..8 => {
            count("throttled (429)");
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")]).into_response()
        }
        8..11 => {
            count("hung up before its work");
            hang_up()
        }
        11..14 => {
            count("hung up after its work");
            answer();
            hang_up()
        }
        14..16 => {
            count("too slow, work done");
            let answer = answer();
            tokio::time::sleep(TOO_LONG).await;
            Json(answer).into_response()
        }
        16..18 => {
            count("nonsense, work done");
            answer();
            "all is well".into_response()
        }
        _ => {
            count("answered");
            Json(answer()).into_response()
        }
    }
}

/// An answer that begins and breaks off.
fn hang_up() -> Response {
    let broken = stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("gone")) });
    Body::from_stream(broken).into_response()
}
