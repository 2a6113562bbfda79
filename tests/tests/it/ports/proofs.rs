//! Proofs of calls, against servers on this machine that judge them.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use futures::future::join_all;
use groupage_aws::Downstreams;
use groupage_core::routes::{Allowed, Body, Item, MAX_BODY_BYTES};
use groupage_lab::prelude::*;
use serde_json::json;
use tokio::sync::{Barrier, mpsc};

use super::downstream::{call, downstream, nowhere, route, serve};

/// The value of the variable GROUPAGE_SECRET_OF_TESTS.
const SECRET: &str = "Bearer of-the-tests";

fn anywhere() -> Downstreams {
    Downstreams::new(&nowhere(), Allowed::on_own_machine())
}

fn with_token(url: &str, more: &str) -> groupage_core::routes::Downstream {
    downstream(&format!(
        "http:\n  url: {url}/api\n  auth:\n    oauth2:\n      token_url: {url}/token\n      client_id: 'a client'\n      \
         client_secret: {{ env: GROUPAGE_SECRET_OF_TESTS }}\n{more}"
    ))
}

/// An API whose tokens come from beside it. The first token is good until `calls` calls with it wait, and then revoked.
async fn revoking(calls: usize) -> (String, Arc<AtomicU32>) {
    let (given, barrier) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(calls)));
    let count = Arc::clone(&given);
    let token = post(async move |headers: HeaderMap, body: String| {
        // "a client:Bearer of-the-tests", each encoded as in forms.
        assert_eq!(headers[header::AUTHORIZATION], "Basic YStjbGllbnQ6QmVhcmVyK29mLXRoZS10ZXN0cw==");
        assert_eq!(body, "grant_type=client_credentials&scope=write+read&audience=https%3A%2F%2Fapi.example");
        let number = given.fetch_add(1, Ordering::SeqCst) + 1;
        Json(json!({ "access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": 3600 }))
    });
    let api = post(async move |headers: HeaderMap| {
        if headers[header::AUTHORIZATION] == "Bearer token-1" {
            barrier.wait().await;
            return StatusCode::UNAUTHORIZED;
        }
        StatusCode::OK
    });
    (serve(Router::new().route("/token", token).route("/api", api)).await, count)
}

const SCOPE: &str = "      scope: write read\n      audience: https://api.example";

#[tokio::test]
async fn a_token_that_is_revoked_under_a_hundred_calls_is_refreshed_once_for_all() {
    let (url, given) = revoking(100).await;
    let (downstreams, downstream) = (anywhere(), with_token(&url, SCOPE));
    let answers = join_all((0..100).map(async |_| call(&downstreams, &downstream).await)).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().status == 200), "{answers:?}");
    assert_eq!(given.load(Ordering::SeqCst), 2);
}

/// Calls an API that refuses each token after `late`, with a timeout of a minute. Returns how often it was called.
async fn calls_refused(late: Duration) -> u32 {
    let (given, called) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&called);
    let token = post(async move || {
        let number = given.fetch_add(1, Ordering::SeqCst);
        Json(json!({ "access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": 3600 }))
    });
    let api = post(async move || {
        count.fetch_add(1, Ordering::SeqCst);
        tokio::time::pause();
        tokio::time::advance(late).await;
        tokio::time::resume();
        StatusCode::UNAUTHORIZED
    });
    let url = serve(Router::new().route("/token", token).route("/api", api)).await;
    let answer = call(&anywhere(), &with_token(&url, "  timeout_ms: 60000")).await.unwrap();
    assert_eq!(answer.status, 401);
    called.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_call_that_is_refused_late_is_not_made_once_more() {
    assert_eq!(calls_refused(Duration::from_secs(20)).await, 2);
    assert_eq!(calls_refused(Duration::from_secs(31)).await, 1, "its function has no time for a second long call");
}

#[tokio::test]
async fn a_token_endpoint_that_is_away_is_an_outage_and_one_that_refuses_stops_the_route() {
    for (status, expected) in [
        (StatusCode::SERVICE_UNAVAILABLE, NoAnswer::Other(Reason::new("token_unavailable"))),
        (StatusCode::BAD_REQUEST, NoAnswer::Misconfigured(Reason::new("token_refused"))),
    ] {
        let token = move || async move { (status, Json(json!({ "error": "invalid_client" }))) };
        let url = serve(Router::new().route("/token", post(token)).fallback(|| async { StatusCode::OK })).await;
        assert_eq!(call(&anywhere(), &with_token(&url, "")).await, Err(expected));
    }
}

#[tokio::test]
async fn a_client_may_send_its_secret_in_the_form() {
    let token = post(async |headers: HeaderMap, body: String| {
        assert!(!headers.contains_key(header::AUTHORIZATION));
        assert!(body.ends_with("&client_id=a+client&client_secret=Bearer+of-the-tests"), "{body}");
        Json(json!({ "access_token": "t-0" }))
    });
    let api = post(
        async |headers: HeaderMap| {
            if headers[header::AUTHORIZATION] == "Bearer t-0" { StatusCode::OK } else { StatusCode::FORBIDDEN }
        },
    );
    let url = serve(Router::new().route("/token", token).route("/api", api)).await;
    let answer = call(&anywhere(), &with_token(&url, "      send_client_in: body")).await.unwrap();
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_secret_stands_in_the_url_and_within_a_header_and_no_answer_repeats_it() {
    let echo = async |uri: Uri, headers: HeaderMap| {
        let key = headers["x-key"].to_str().unwrap().to_owned();
        ([("x-said", key.clone())], format!("{uri} {key}"))
    };
    let url = serve(Router::new().fallback(echo)).await;
    let block = format!(
        "http:\n  url: '{url}/{{secrets.key}}?k={{secrets.key}}'\n  headers: {{ X-Key: 'Key {{secrets.key}}' }}\n  \
         secrets: {{ key: {{ env: GROUPAGE_SECRET_OF_TESTS }} }}\n  response: {{ error: headers.\"x-said\" }}"
    );
    let answer = call(&anywhere(), &downstream(&block)).await.unwrap();
    let said = String::from_utf8_lossy(&answer.body);
    let encoded = "*".repeat("Bearer%20of-the-tests".len());
    assert_eq!(said, format!("/{encoded}?k={encoded} Key {}", "*".repeat(SECRET.len())));
    assert_eq!(answer.headers["x-said"], format!("Key {}", "*".repeat(SECRET.len())));
}

/// Calls with the body that the route's template makes of a member with this payload.
async fn call_of(url: &str, template: &str, payload: &str) -> Result<Answer, NoAnswer> {
    let secrets = "{ key: { env: GROUPAGE_SECRET_OF_TESTS } }";
    let block = format!("http:\n  url: {url}\n  compress: gzip\n  body: '{template}'\n  secrets: {secrets}");
    let (route, batch, target) = (route(&block), BatchId::new("b1"), Target::of(&RouteName::new("r"), "t"));
    let items = [Item { id: "a", payload: serde_json::from_str(payload).unwrap() }];
    let Body { text: body, secrets } = route.body(&batch, &target, &items).unwrap();
    let (downstream, fence, trace) = (&route.downstream, Fence(17), None);
    let look = None;
    let call = Call { downstream, batch: &batch, target: &target, fence, attempt: 1, body, secrets, trace, look };
    assert!(!format!("{call:?}").contains(SECRET));
    anywhere().call(&call).await
}

#[tokio::test]
async fn a_secret_stands_in_the_body_as_its_filter_says_and_no_answer_repeats_it() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let echo = async move |body: Bytes| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        let _ = tell.send(text.clone());
        text
    };
    let url = serve(Router::new().fallback(echo)).await;
    for (template, sent) in [
        (r#"{"key":{{ secrets.key | tojson }}}"#, r#"{"key":"Bearer of-the-tests"}"#),
        ("key={{ secrets.key | urlencode }}&to={{ target }}", "key=Bearer%20of-the-tests&to=t"),
        ("<key>{{ secrets.key | xmlescape }}</key>", "<key>Bearer of-the-tests</key>"),
        ("{{ secrets.key | base64 }}", "QmVhcmVyIG9mLXRoZS10ZXN0cw=="),
    ] {
        let answer = call_of(&url, template, "1").await.unwrap();
        assert_eq!(told.recv().await.unwrap(), sent);
        let said = String::from_utf8(answer.body).unwrap();
        assert!(said.len() == sent.len() && said.contains("*****") && !said.contains("of-the"), "{said}");
    }
    let imitated = call_of(&url, "{{ items[0].payload }}", r#""{{ secrets.key }}{secrets.key}""#).await.unwrap();
    assert_eq!(String::from_utf8(imitated.body).unwrap(), "{{ secrets.key }}{secrets.key}");
}

#[tokio::test]
async fn a_body_that_its_secrets_make_too_large_is_not_sent() {
    let url = serve(Router::new().fallback(async || StatusCode::OK)).await;
    let template = "{% for c in items[0].payload %}{{ secrets.key }}{% endfor %}";
    let many = vec!["1"; MAX_BODY_BYTES / SECRET.len() + 1].join(",");
    let answer = call_of(&url, template, &format!("[{many}]")).await;
    assert_eq!(answer, Err(NoAnswer::Oversized(Reason::new("body_too_large"))));
}

#[tokio::test]
async fn a_target_in_a_header_beside_a_secret_is_left_in_the_answer() {
    let echo = async |headers: HeaderMap| headers["x-tenant"].to_str().unwrap().to_owned();
    let url = serve(Router::new().fallback(echo)).await;
    let block = format!(
        "http:\n  url: '{url}'\n  headers: {{ X-Key: '{{secrets.key}} {{target}}', X-Tenant: '{{target}}' }}\n  \
         secrets: {{ key: {{ env: GROUPAGE_SECRET_OF_TESTS }} }}"
    );
    let answer = call(&anywhere(), &downstream(&block)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.body), "tenant%207");
}

/// AWS with these credentials, as far as a configuration says it.
fn some_aws() -> SdkConfig {
    let provider = aws_sdk_dynamodb::config::Credentials::new("AKIDEXAMPLE", "of-the-tests", None, None, "test");
    let provider = aws_sdk_dynamodb::config::SharedCredentialsProvider::new(provider);
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(provider)
        .build()
}

#[tokio::test]
async fn a_signature_that_is_refused_for_its_time_is_made_again_for_the_servers_time() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let api = move |headers: HeaderMap, _: Bytes| async move {
        let at = |name: &str| headers[name].to_str().unwrap().to_owned();
        let signed = at("x-amz-date");
        let _ = tell.send((signed.clone(), at("authorization")));
        if signed.starts_with("2033") {
            return StatusCode::OK.into_response();
        }
        let said =
            json!({ "__type": "InvalidSignatureException", "message": "Signature expired: 2026 is now earlier" });
        (StatusCode::BAD_REQUEST, [(header::DATE, "Wed, 18 May 2033 03:33:20 GMT")], Json(said)).into_response()
    };
    let url = serve(Router::new().fallback(api)).await;
    let block = downstream(&format!("http:\n  url: {url}\n  auth: {{ sigv4: {{ service: kinesis }} }}"));
    let downstreams = Downstreams::new(&some_aws(), Allowed::on_own_machine());
    assert_eq!(call(&downstreams, &block).await.unwrap().status, 200);
    assert_eq!(call(&downstreams, &block).await.unwrap().status, 200);
    let mut dates = Vec::new();
    while let Ok((date, authorization)) = told.try_recv() {
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20"), "{authorization}");
        assert!(authorization.contains("/eu-west-1/kinesis/aws4_request"), "{authorization}");
        dates.push(date.starts_with("2033"));
    }
    assert_eq!(dates, [false, true, true], "the first call learns the time, the second knows it");
}

#[tokio::test]
async fn without_credentials_a_call_that_is_signed_is_not_made() {
    let block = downstream("http:\n  url: http://127.0.0.1:9/\n  auth: { sigv4: { service: s, region: r } }");
    let expected = NoAnswer::Misconfigured(Reason::new("credentials_unavailable"));
    assert_eq!(call(&anywhere(), &block).await, Err(expected));
}
