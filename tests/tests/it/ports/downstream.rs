//! Calls over HTTP, against servers on this machine that behave and that do not.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::{BehaviorVersion, SdkConfig};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use futures::{StreamExt, stream};
use groupage_aws::Downstreams;
use groupage_core::domain::answer::is_oversized;
use groupage_core::domain::trace::{CallOf, CallTrace};
use groupage_core::ports::MAX_ANSWER_BYTES;
use groupage_core::routes::{self, Allowed};
use groupage_lab::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Serves `router` on a free port until the test ends; its address.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The downstream of a routes file with one route, whose `http` or `lambda` block is given.
pub fn downstream(block: &str) -> routes::Downstream {
    route(block).downstream
}

/// That route.
pub fn route(block: &str) -> routes::Route {
    let yaml = format!(
        "version: 1\nroutes:\n  - name: r\n    target: to\n    downstream:\n      {}\n",
        block.trim().replace('\n', "\n      ")
    );
    let routes = Routes::parse(&yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    routes.get(&RouteName::new("r")).expect("the route").clone()
}

pub fn nowhere() -> SdkConfig {
    SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build()
}

pub async fn call(downstreams: &Downstreams, downstream: &routes::Downstream) -> Result<Answer, NoAnswer> {
    call_traced(downstreams, downstream, None).await
}

/// A call for this Target.
pub async fn call_for(
    downstreams: &Downstreams,
    downstream: &routes::Downstream,
    target: &str,
) -> Result<Answer, NoAnswer> {
    made(downstreams, downstream, target, None).await
}

pub async fn call_traced(
    downstreams: &Downstreams,
    downstream: &routes::Downstream,
    trace: Option<CallTrace>,
) -> Result<Answer, NoAnswer> {
    made(downstreams, downstream, "tenant 7", trace).await
}

async fn made(
    downstreams: &Downstreams,
    downstream: &routes::Downstream,
    target: &str,
    trace: Option<CallTrace>,
) -> Result<Answer, NoAnswer> {
    let (batch, target) = (BatchId::new("b1"), Target::of(&RouteName::new("r"), target));
    let body = "{\"items\":[]}".to_owned();
    let (fence, secrets, look) = (Fence(17), Vec::new(), None);
    let call = Call { downstream, batch: &batch, target: &target, fence, attempt: 3, body, secrets, trace, look };
    downstreams.call(&call).await
}

/// The trace of a call, with one member's.
pub fn traced() -> CallTrace {
    let member = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let batch = BatchId::new("b1");
    CallTrace::of(CallOf { batch: &batch, key: &batch, attempt: 3 }, member, false).unwrap()
}

async fn post(url: &str) -> Result<Answer, NoAnswer> {
    call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream(&format!("http:\n  url: {url}"))).await
}

/// Calls a server that answers every request with `answer`.
async fn answered<R: IntoResponse + Send + 'static>(answer: fn() -> R) -> Result<Answer, NoAnswer> {
    post(&serve(Router::new().fallback(move || async move { answer() })).await).await
}

/// Calls a server that tells what it got.
async fn seen(block: &str) -> (Method, HeaderMap, Bytes) {
    seen_traced(block, None).await
}

async fn seen_traced(block: &str, trace: Option<CallTrace>) -> (Method, HeaderMap, Bytes) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let router = Router::new().fallback(move |method: Method, headers: HeaderMap, body: Bytes| async move {
        let _ = tell.send((method, headers, body));
    });
    let url = serve(router).await;
    let downstream = downstream(&block.replace("URL", &url));
    let downstreams = Downstreams::new(&nowhere(), Allowed::on_own_machine());
    assert_eq!(call_traced(&downstreams, &downstream, trace).await.unwrap().status, 200);
    told.recv().await.expect("the call arrived")
}

#[tokio::test]
async fn a_call_names_its_batch_fence_and_attempt() {
    let (method, headers, body) = seen("http:\n  url: URL").await;
    assert_eq!(method, Method::POST);
    assert_eq!(&body[..], b"{\"items\":[]}");
    let wanted = [
        ("content-type", "application/json"),
        ("idempotency-key", "b1"),
        ("groupage-fence", "17"),
        ("groupage-attempt", "3"),
    ];
    for (name, value) in wanted {
        assert_eq!(headers[name], value, "{name}");
        assert_eq!(headers.get_all(name).iter().count(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_call_says_its_trace_if_there_is_one_whatever_the_route_says() {
    let own = "http:\n  url: URL\n  headers:\n    traceparent: mine";
    let (_, headers, _) = seen_traced(own, Some(traced())).await;
    assert_eq!(headers["traceparent"], traced().context.to_string());
    assert_eq!(headers.get_all("traceparent").iter().count(), 1);
    assert!(!seen("http:\n  url: URL").await.1.contains_key("traceparent"));
}

#[tokio::test]
async fn a_route_chooses_method_and_content_type() {
    let block = "http:\n  url: URL\n  method: PUT\n  headers:\n    Content-Type: application/x-ndjson\n    X-Own: mine";
    let (method, headers, _) = seen(block).await;
    assert_eq!((method, &headers["content-type"]), (Method::PUT, &"application/x-ndjson".parse().unwrap()));
    assert_eq!(headers.get_all("content-type").iter().count(), 1);
    assert_eq!(headers["x-own"], "mine");
}

#[tokio::test]
async fn an_answer_comes_with_its_status_and_body() {
    let answer = answered(|| Json(HashMap::from([("batchItemFailures", Vec::<u8>::new())]))).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{\"batchItemFailures\":[]}"[..]));
    let refused = answered(|| (StatusCode::UNPROCESSABLE_ENTITY, "no")).await.unwrap();
    assert_eq!(refused.status, 422);
}

#[tokio::test]
async fn the_largest_answer_is_read_and_one_byte_more_is_not() {
    let largest = answered(|| vec![b' '; MAX_ANSWER_BYTES]).await.unwrap();
    assert_eq!(largest.body.len(), MAX_ANSWER_BYTES);
    assert_eq!(answered(|| vec![b' '; MAX_ANSWER_BYTES + 1]).await, Err(NoAnswer::TooLarge));
}

const TEN_MB: usize = 10 * 1024 * 1024;

/// Ten megabytes whose length the server does not tell beforehand.
fn unannounced() -> Body {
    let chunk = Bytes::from(vec![b' '; 64 * 1024]);
    let chunks = (0..TEN_MB / chunk.len()).map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn an_answer_of_ten_megabytes_is_too_large_whether_announced_or_not() {
    assert_eq!(answered(|| vec![b' '; TEN_MB]).await, Err(NoAnswer::TooLarge));
    assert_eq!(answered(unannounced).await, Err(NoAnswer::TooLarge));
}

#[tokio::test]
async fn a_refusal_with_a_huge_body_is_still_a_refusal() {
    let answer = answered(|| (StatusCode::BAD_REQUEST, unannounced())).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (400, MAX_ANSWER_BYTES));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_a_timeout() {
    let silent = Router::new().fallback(std::future::pending::<Response>);
    let url = serve(silent).await;
    let downstream = downstream(&format!("http:\n  url: {url}\n  timeout_ms: 50"));
    assert_eq!(
        call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream).await,
        Err(NoAnswer::Timeout)
    );
}

#[tokio::test]
async fn an_answer_that_never_ends_is_a_timeout() {
    let endless =
        Router::new().fallback(|| async { Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()) });
    let url = serve(endless).await;
    let downstream = downstream(&format!("http:\n  url: {url}\n  timeout_ms: 50"));
    assert_eq!(
        call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream).await,
        Err(NoAnswer::Timeout)
    );
}

/// Calls a server that reads a request as far as `reads`, says this, and closes the connection.
async fn said(reads: usize, said: &str, more: &str) -> Result<Answer, NoAnswer> {
    let said = said.as_bytes().to_vec();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut vec![0; reads]).await;
            let _ = connection.write_all(&said).await;
            // What is left unread the kernel answers with a reset.
        }
    });
    let block = format!("http:\n  url: {url}{more}");
    call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream(&block)).await
}

fn other(reason: &str) -> Result<Answer, NoAnswer> {
    Err(NoAnswer::Other(Reason::new(reason)))
}

#[tokio::test]
async fn each_way_to_get_no_answer_has_its_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(post(&url).await, other("connection_refused"));
    assert_eq!(post("http://no-such-host.localhost.invalid/").await, refused("not_https").0);
    assert_eq!(post("https://no-such-host.invalid/").await, other("dns"));
    for cut in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
        assert_eq!(said(16, cut, "").await, other("connection_closed"), "{cut:?}, the request half read");
    }
    for line in include_str!("../../../corpus/answers.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (Some(raw), Some(reason)) = (case["raw"].as_str(), case["reason"].as_str()) else { continue };
        let no_answer = if reason == "answer_too_large" { Err(NoAnswer::TooLarge) } else { other(reason) };
        assert_eq!(said(4_096, raw, "").await, no_answer, "{line}");
    }
}

#[tokio::test]
async fn the_status_of_a_refusal_counts_though_its_request_is_half_read_or_its_body_stalls() {
    let too_large = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let answer = said(16, too_large, "").await.unwrap();
    assert!(answer.status == 413 && is_oversized(&Ok(answer)));
    for (status, retry_after) in [(429, Some("7")), (400, None)] {
        let stalls = Router::new().fallback(move || async move {
            let body = stream::once(async { Ok::<_, std::io::Error>(Bytes::from("wait")) }).chain(stream::pending());
            let retry_after = retry_after.map(|after| (header::RETRY_AFTER, after));
            (StatusCode::from_u16(status).unwrap(), AppendHeaders(retry_after), Body::from_stream(body))
        });
        let answer = post(&serve(stalls).await).await.unwrap();
        let asked_ms = retry_after.map(|_| 7_000);
        assert_eq!(
            answer,
            Answer { status, retry_after_ms: asked_ms, body: b"wait".to_vec(), is_cut: true, ..Answer::default() }
        );
    }
}

#[tokio::test]
async fn a_body_that_the_route_ignores_is_not_read() {
    let ignoring = "\n  response: { ignore_body: true }";
    let done = Answer { status: 200, ..Answer::default() };
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n{";
    assert_eq!(said(4_096, cut, ignoring).await.as_ref(), Ok(&done));
    for body in [|| Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()), unannounced] {
        let url = serve(Router::new().fallback(move || async move { body() })).await;
        let downstream = downstream(&format!("http:\n  url: {url}{ignoring}"));
        let answer = call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream).await;
        assert_eq!(answer.as_ref(), Ok(&done));
    }
}

#[tokio::test]
async fn an_answer_that_is_compressed_is_read() {
    let gzip = || {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, b"{}").unwrap();
        ([(header::CONTENT_ENCODING, "gzip")], encoder.finish().unwrap())
    };
    assert_eq!(answered(gzip).await.unwrap().body, b"{}");
    let encoded = Err(NoAnswer::Unreadable(Reason::new("answer_encoded")));
    assert_eq!(answered(|| ([(header::CONTENT_ENCODING, "br")], "?")).await, encoded);
}

#[tokio::test]
async fn what_a_downstream_asks_for_comes_with_its_answer() {
    let twice =
        || (StatusCode::TOO_MANY_REQUESTS, AppendHeaders([(header::RETRY_AFTER, "7"), (header::RETRY_AFTER, "9.5")]));
    let answer = answered(twice).await.unwrap();
    assert_eq!((answer.status, answer.retry_after_ms), (429, Some(9_500)));
    let prose = answered(|| (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "soon")])).await.unwrap();
    assert_eq!(prose.retry_after_ms, None);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let followed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&followed);
    let router = Router::new()
        .route("/", any(|| async { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/elsewhere")]) }))
        .route("/elsewhere", any(move || async move { count.fetch_add(1, Ordering::SeqCst).to_string() }));
    let answer = post(&serve(router).await).await.unwrap();
    assert_eq!((answer.status, followed.load(Ordering::SeqCst)), (307, 0));
}

/// Set by cargo (`.cargo/config.toml`) for every test it runs, so that no test has to change its environment.
const VARIABLE: &str = "GROUPAGE_SECRET_OF_TESTS";
const SECRET: &str = "Bearer of-the-tests";

#[tokio::test]
async fn a_secret_reaches_the_downstream_and_nobody_else() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let router =
        Router::new().fallback(move |headers: HeaderMap| async move { tell.send(headers).expect("the test listens") });
    let url = serve(router).await;
    let block = format!("http:\n  url: {url}\n  headers:\n    Authorization: {{ secret: {{ env: {VARIABLE} }} }}");
    let (downstreams, downstream) = (Downstreams::new(&nowhere(), Allowed::on_own_machine()), downstream(&block));
    let answer = call(&downstreams, &downstream).await;
    assert!(answer.is_ok(), "{answer:?}: cargo sets {VARIABLE}");
    assert_eq!(told.recv().await.expect("the call arrived")["authorization"], SECRET);
    for shown in [format!("{downstreams:?}"), format!("{downstream:?}"), format!("{answer:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[tokio::test]
async fn without_its_secret_no_call_is_made() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let url = serve(Router::new().fallback(move || async move { tell.send(()).expect("the test listens") })).await;
    let block =
        format!("http:\n  url: {url}\n  headers:\n    Authorization: {{ secret: {{ env: GROUPAGE_SECRET_NOT_SET }} }}");
    let answer = call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream(&block)).await;
    assert_eq!(answer, Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))));
    assert!(told.try_recv().is_err());
}

/// Calls a server that counts its connections, by whatever URL leads to its port; the answer, and how many came.
async fn knocked(allowed: Allowed, url: &str, more: &str) -> (Result<Answer, NoAnswer>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let block = format!("http:\n  url: {}\n  timeout_ms: 500{more}", url.replace("PORT", &port.to_string()));
    let answer = call(&Downstreams::new(&nowhere(), allowed), &downstream(&block)).await;
    (answer, came.load(Ordering::SeqCst))
}

fn refused(reason: &str) -> (Result<Answer, NoAnswer>, usize) {
    (Err(NoAnswer::Misconfigured(Reason::new(reason))), 0)
}

#[tokio::test]
async fn a_stack_that_allows_no_private_host_does_not_even_connect_to_one() {
    for url in [
        "http://127.0.0.1:PORT/2018-06-01/runtime/invocation/x/response",
        "https://localhost:PORT/",
        "http://2130706433:PORT/",
        "http://0x7f.1:PORT/",
        "https://[::ffff:127.0.0.1]:PORT/",
        "https://[64:ff9b::127.0.0.1]:PORT/",
        "https://0.0.0.0:PORT/",
        "https://169.254.169.254/latest/api/token",
    ] {
        assert_eq!(knocked(Allowed::nothing(), url, "").await, refused("address_refused"), "{url}");
    }
    let allowed = Allowed::nothing().with_hosts("127.0.0.1,localhost");
    let (answer, came) = knocked(allowed, "http://localhost:PORT/", "").await;
    assert!(answer.is_err() && came > 0, "this server never answers, but it is called: {answer:?}");
}

#[tokio::test]
async fn a_secret_that_is_another_hosts_is_not_sent_and_nobody_is_connected_to() {
    let secret = |name: &str| format!("\n  headers: {{ A: {{ secret: {name} }} }}");
    let own = || Allowed::on_own_machine().with_secrets("api.example=env:GROUPAGE_SECRET_OF_TESTS").unwrap();
    for name in ["{ env: GROUPAGE_SECRET_OF_TESTS }", "{ secrets_manager: key }"] {
        let answer = knocked(own(), "http://127.0.0.1:PORT/", &secret(name)).await;
        assert_eq!(answer, refused("secret_not_allowed"), "{name}");
    }
    let other = knocked(Allowed::on_own_machine(), "http://127.0.0.1:PORT/", &secret("{ env: PATH }")).await;
    assert_eq!(other, refused("secret_not_allowed"), "PATH is no secret");
}
