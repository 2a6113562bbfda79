//! Looks at jobs over HTTP: reads with all that proves who calls, and with nothing of a call.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use groupage_aws::Downstreams;
use groupage_core::routes::{self, Allowed};
use groupage_lab::prelude::*;
use tokio::sync::mpsc;

use super::downstream::{downstream, nowhere, serve};

/// The value of the variable GROUPAGE_SECRET_OF_TESTS.
const SECRET: &str = "Bearer of-the-tests";

async fn look(downstream: &routes::Downstream, url: &str) -> Result<Answer, NoAnswer> {
    let (batch, target) = (BatchId::new("b1"), Target::of(&RouteName::new("r"), "tenant 7"));
    let (fence, body, secrets, look) = (Fence(17), String::new(), Vec::new(), Some(url));
    let (attempt, trace) = (3, None);
    let call = Call { downstream, batch: &batch, target: &target, fence, attempt, body, secrets, trace, look };
    Downstreams::new(&nowhere(), Allowed::on_own_machine()).call(&call).await
}

/// A downstream with jobs at this URL, with a secret.
fn with_jobs(url: &str) -> routes::Downstream {
    downstream(&format!(
        "http:\n  url: {url}/batches/{{target}}\n  compress: gzip\n  headers:\n    X-Tenant: '{{target}}'\n    \
         Content-Type: text/csv\n    Authorization: {{ secret: {{ env: GROUPAGE_SECRET_OF_TESTS }} }}\n  \
         job: {{ url: headers.location, ended: body.done }}"
    ))
}

#[tokio::test]
async fn a_look_is_a_read_with_the_routes_headers_and_nothing_of_a_call() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let router = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let _ = tell.send((method, uri, headers, body));
        ([("retry-after", "7"), ("x-state", "here")], "{\"done\": false}")
    });
    let url = serve(router).await;
    let answer = look(&with_jobs(&url), &format!("{url}/jobs/1?full=yes")).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{\"done\": false}"[..]));
    assert_eq!(answer.headers.get("x-state").map(String::as_str), Some("here"), "its expressions see headers");
    let (method, uri, headers, body) = told.recv().await.expect("it arrived");
    assert_eq!((method, uri.to_string(), body.len()), (Method::GET, "/jobs/1?full=yes".to_owned(), 0));
    assert_eq!(headers["x-tenant"], "tenant%207");
    assert_eq!(headers[header::AUTHORIZATION], SECRET);
    for name in [
        "idempotency-key",
        "groupage-fence",
        "groupage-attempt",
        "content-type",
        "content-encoding",
        "content-length",
        "transfer-encoding",
    ] {
        assert!(!headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn a_look_goes_nowhere_but_where_its_route_calls() {
    let (tell, mut told) = mpsc::unbounded_channel::<Uri>();
    let other = serve(Router::new().fallback(move |uri: Uri| async move {
        let _ = tell.send(uri);
    }))
    .await;
    let own = serve(Router::new().fallback(|| async { StatusCode::NOT_FOUND })).await;
    let downstream = with_jobs(&own);
    let refused = NoAnswer::Misconfigured(Reason::new("job_url_refused"));
    let port = own.rsplit(':').next().unwrap();
    let elsewhere = [
        format!("{other}/jobs/1"),
        format!("https://127.0.0.1:{port}/jobs/1"),
        format!("http://localhost:{port}/jobs/1"),
    ];
    for url in elsewhere {
        assert_eq!(look(&downstream, &url).await, Err(refused.clone()), "{url}");
    }
    assert!(told.try_recv().is_err(), "nothing was sent there");
    assert_eq!(look(&downstream, &format!("{own}/jobs/1")).await.map(|answer| answer.status), Ok(404));
}

#[tokio::test]
async fn a_look_follows_no_redirect_and_shows_no_secret() {
    let own = serve(Router::new().fallback(|headers: HeaderMap| async move {
        let location = [(header::LOCATION, "/elsewhere")];
        let said = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
        let answer: Response = (StatusCode::SEE_OTHER, location, said).into_response();
        answer
    }))
    .await;
    let answer = look(&with_jobs(&own), &format!("{own}/jobs/1")).await.unwrap();
    assert_eq!((answer.status, answer.headers.get("location").map(String::as_str)), (303, Some("/elsewhere")));
    assert!(answer.body.iter().all(|byte| *byte == b'*'), "{}", String::from_utf8_lossy(&answer.body));
}
