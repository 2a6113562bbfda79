//! What a call over HTTP carries of its batch: in its URL, in its headers, and how its body is made smaller.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use groupage_aws::Downstreams;
use groupage_core::routes::Allowed;
use groupage_lab::prelude::*;
use tokio::sync::mpsc;

use super::downstream::{call_for, downstream, nowhere, serve};

type Request = (Uri, HeaderMap, Bytes);

/// Calls a server, whose address stands for `URL`, for this Target: the answer, and what the server got.
async fn called(block: &str, target: &str) -> (Result<Answer, NoAnswer>, Option<Request>) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let router = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let _ = tell.send((uri, headers, body));
    });
    let url = serve(router).await;
    let downstreams = Downstreams::new(&nowhere(), Allowed::on_own_machine());
    let answer = call_for(&downstreams, &downstream(&block.replace("URL", &url)), target).await;
    (answer, told.try_recv().ok())
}

#[tokio::test]
async fn a_call_carries_its_target_and_batch_where_its_route_puts_them() {
    let block =
        "http:\n  url: URL/tenants/{target}/load?key={batch}&for={target}\n  headers:\n    X-Tenant: '{target}'";
    let (answer, got) = called(block, "a/../b c").await;
    let (uri, headers, _) = got.expect("the call arrived");
    assert_eq!(answer.unwrap().status, 200);
    assert_eq!(uri.path(), "/tenants/a%2F..%2Fb%20c/load");
    assert_eq!(uri.query(), Some("key=b1&for=a%2F..%2Fb%20c"));
    assert_eq!(headers["x-tenant"], "a/../b%20c");
}

#[tokio::test]
async fn a_target_that_would_climb_out_of_its_path_makes_no_call() {
    let (answer, got) = called("http:\n  url: URL/tenants/{target}/load", "..").await;
    assert_eq!(answer, Err(NoAnswer::Refused(Reason::new("target_not_in_url"))));
    assert!(got.is_none());
}

#[tokio::test]
async fn a_target_with_line_feeds_adds_no_header() {
    let block = "http:\n  url: URL/\n  headers:\n    X-Tenant: '{target}'";
    let (_, got) = called(block, "a\r\nX-Evil: 1").await;
    let (_, headers, _) = got.expect("the call arrived");
    assert_eq!(headers["x-tenant"], "a%0D%0AX-Evil:%201");
    assert!(!headers.contains_key("x-evil"));
}

#[tokio::test]
async fn a_body_is_compressed_as_its_headers_say() {
    for (by, begins) in [("gzip", &[0x1f, 0x8b][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd])] {
        let block = format!("http:\n  url: URL/\n  compress: {by}\n  headers:\n    Content-Encoding: mine");
        let (answer, got) = called(&block, "t").await;
        let (_, headers, body) = got.expect("the call arrived");
        assert_eq!(answer.unwrap().status, 200);
        assert_eq!(headers["content-encoding"], by);
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["content-length"], body.len().to_string());
        assert!(body.starts_with(begins), "{by}: {body:?}");
    }
    let (_, got) = called("http:\n  url: URL/", "t").await;
    assert!(!got.expect("the call arrived").1.contains_key("content-encoding"));
}
