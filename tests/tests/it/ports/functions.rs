//! Lambda functions as downstreams and secrets from Secrets Manager, against servers that speak AWS's protocols.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_types::base64;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use groupage_aws::Downstreams;
use groupage_core::routes::Allowed;
use groupage_lab::prelude::*;

use super::downstream::{call, call_traced, downstream, nowhere, serve, traced};

/// Configures every AWS client for one server.
pub fn at(url: &str) -> SdkConfig {
    let credentials = Credentials::new("id", "key", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(groupage_aws::http_client())
        // So that a test sees what one call does.
        .retry_config(RetryConfig::disabled())
        .endpoint_url(url)
        .build()
}

/// Calls function `load` of a Lambda that answers every request with `answer`.
async fn invoked<R: IntoResponse + 'static>(answer: fn() -> R) -> (Result<Answer, NoAnswer>, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let router = Router::new().fallback(move |uri: Uri, body: String| async move {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!((uri.path(), body.as_str()), ("/2015-03-31/functions/load/invocations", "{\"items\":[]}"));
        answer().into_response()
    });
    let url = serve(router).await;
    let downstream = downstream("lambda:\n  function: load\n  timeout_ms: 2000");
    let answer = call(&Downstreams::new(&at(&url), Allowed::on_own_machine()), &downstream).await;
    (answer, calls.load(Ordering::SeqCst))
}

#[tokio::test]
async fn what_a_function_returns_is_the_answer() {
    let (answer, _) = invoked(|| "{\"batchItemFailures\":[]}").await;
    let body = b"{\"batchItemFailures\":[]}".to_vec();
    assert_eq!(answer, Ok(Answer { status: 200, body, ..Answer::default() }));
    assert_eq!(invoked(|| "null").await.0, Ok(Answer { status: 200, ..Answer::default() }));
}

/// AWS hands the client's context on to the function as it is.
#[tokio::test]
async fn a_function_finds_the_trace_of_its_call_in_its_context() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let router = Router::new().fallback(move |headers: HeaderMap| async move {
        let _ = tell.send(headers.get("x-amz-client-context").map(|context| context.to_str().unwrap().to_owned()));
    });
    let downstreams = Downstreams::new(&at(&serve(router).await), Allowed::on_own_machine());
    let downstream = downstream("lambda:\n  function: load");
    call(&downstreams, &downstream).await.unwrap();
    assert_eq!(told.recv().await, Some(None));
    call_traced(&downstreams, &downstream, Some(traced())).await.unwrap();
    let context = base64::decode(told.recv().await.unwrap().unwrap()).unwrap();
    let context: serde_json::Value = serde_json::from_slice(&context).unwrap();
    assert_eq!(context["custom"]["traceparent"], traced().context.to_string());
}

#[tokio::test]
async fn a_function_that_throws_gives_no_answer_and_is_not_quoted() {
    let (answer, _) =
        invoked(|| ([("x-amz-function-error", "Unhandled")], "{\"errorMessage\":\"payload 4711\"}")).await;
    assert_eq!(answer, Err(NoAnswer::Other(Reason::new("function_error"))));
}

fn error(status: StatusCode, code: &'static str) -> Response {
    (status, [("x-amzn-errortype", code)], "{\"Message\":\"no\"}").into_response()
}

#[tokio::test]
async fn a_throttled_function_answers_429_and_says_when() {
    let (answer, calls) = invoked(|| {
        let mut response = error(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsException");
        response.headers_mut().insert("retry-after", 3.into());
        response
    })
    .await;
    assert_eq!(answer, Ok(Answer { status: 429, retry_after_ms: Some(3_000), ..Answer::default() }));
    assert_eq!(calls, 1, "the retry policy repeats calls, nobody else");
}

#[tokio::test]
async fn a_function_that_is_not_there_is_told_by_its_code() {
    let (answer, calls) = invoked(|| error(StatusCode::NOT_FOUND, "ResourceNotFoundException")).await;
    assert_eq!(answer, Err(NoAnswer::Misconfigured(Reason::new("ResourceNotFoundException"))));
    assert_eq!(calls, 1);
    let (broken, calls) = invoked(|| error(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException")).await;
    assert_eq!(broken, Err(NoAnswer::Other(Reason::new("ServiceException"))));
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_function_that_never_returns_is_a_timeout() {
    let url = serve(Router::new().fallback(std::future::pending::<Response>)).await;
    let downstream = downstream("lambda:\n  function: load\n  timeout_ms: 50");
    assert_eq!(
        call(&Downstreams::new(&at(&url), Allowed::on_own_machine()), &downstream).await,
        Err(NoAnswer::Timeout)
    );
}

const SECRET: &str = "Bearer 4711-0815";

fn managed(url: &str) -> String {
    let secret = "{ secret: { secrets_manager: carrier-api } }";
    format!("http:\n  url: {url}\n  headers:\n    Authorization: {secret}")
}

#[tokio::test]
async fn a_managed_secret_is_read_once_for_many_calls_and_never_shown() {
    let reads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reads);
    let manager = Router::new().fallback(move |headers: HeaderMap, body: String| async move {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!(headers["x-amz-target"], "secretsmanager.GetSecretValue");
        assert!(body.contains("carrier-api"));
        format!("{{\"Name\":\"carrier-api\",\"SecretString\":\"{SECRET}\"}}")
    });
    let api = Router::new().fallback(|headers: HeaderMap| async move {
        if headers["authorization"] == SECRET { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    });
    let downstreams = Downstreams::new(&at(&serve(manager).await), Allowed::on_own_machine());
    let downstream = downstream(&managed(&serve(api).await));
    for _ in 0..3 {
        assert_eq!(call(&downstreams, &downstream).await.unwrap().status, 200);
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    assert!(!format!("{downstreams:?}").contains("4711"));
}

#[tokio::test]
async fn a_managed_secret_that_is_not_there_makes_no_call() {
    let manager = Router::new().fallback(|| async { error(StatusCode::BAD_REQUEST, "ResourceNotFoundException") });
    let api = Router::new().fallback(|| async { panic!("no call may be made") as StatusCode });
    let downstream = downstream(&managed(&serve(api).await));
    let missing = call(&Downstreams::new(&at(&serve(manager).await), Allowed::on_own_machine()), &downstream).await;
    assert_eq!(missing, Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))));
    // Nor does one that cannot be read because nothing is configured.
    let unconfigured = call(&Downstreams::new(&nowhere(), Allowed::on_own_machine()), &downstream).await;
    assert_eq!(unconfigured, Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))));
}
