//! A sender's trace on a laptop: it comes to the call, to the notice and to a collector. A collector that hangs harms
//! nothing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value;
use stand::{Stand, wait_for};

const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// What three senders say.
const TRACES: [&str; 3] = ["a1", "b2", "c3"];

fn traceparent(sender: &str) -> String {
    format!("00-{}-{}-01", sender.repeat(16), sender.repeat(8))
}

/// Serves in a thread for as long as the process lives; its address.
fn serve(router: Router) -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// A collector, and the spans that it has got.
fn collector() -> (String, Arc<Mutex<Vec<Span>>>) {
    let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
    let kept = Arc::clone(&spans);
    let router = Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        assert_eq!((uri.path(), &headers["content-type"]), ("/v1/traces", &"application/x-protobuf".parse().unwrap()));
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans);
        kept.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
    });
    (serve(router), spans)
}

/// A call's `traceparent`, and the ids of its tasks.
type Seen = (Option<String>, Vec<String>);

/// A downstream, and what each call said of its trace, with the ids of its members.
fn downstream() -> (String, Arc<Mutex<Vec<Seen>>>) {
    let calls: Arc<Mutex<Vec<_>>> = Arc::default();
    let kept = Arc::clone(&calls);
    let router = Router::new().fallback(move |headers: HeaderMap, body: Bytes| async move {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let ids = body["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
        let trace = headers.get("traceparent").map(|trace| trace.to_str().unwrap().to_owned());
        kept.lock().unwrap().push((trace, ids.collect()));
    });
    (serve(router), calls)
}

fn routes(downstream: &str) -> String {
    format!(
        "
version: 1
routes:
  - name: labels
    target: printer
    batch: {{ max_items: 3, wait_ms: 20000 }}
    downstream: {{ http: {{ url: {downstream} }} }}
    notify: {{ success: default }}
"
    )
}

/// Sends three labels, which fill a batch. One says its trace, one has that of the command, one has that of the
/// environment.
fn send(stand: &Stand, folder: &std::path::Path) {
    let label = |id: &str, more: &str| format!("{{\"id\":\"{id}\",\"payload\":{{\"printer\":\"p\"}}{more}}}\n");
    let own = label("a", &format!(",\"traceparent\":\"{}\"", traceparent(TRACES[0])));
    for (lines, option, variable) in [
        (own, Some(traceparent("ff")), "nonsense".to_owned()),
        (label("b", ""), Some(traceparent(TRACES[1])), traceparent("ff")),
        (label("c", ""), None, traceparent(TRACES[2])),
    ] {
        std::fs::write(folder.join("label.ndjson"), lines).unwrap();
        let option: Vec<String> = option.into_iter().flat_map(|trace| ["--traceparent".to_owned(), trace]).collect();
        let mut command = stand.command(&[&["send".to_owned(), "label.ndjson".to_owned()][..], &option].concat());
        let sent = command.env("TRACEPARENT", variable).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
}

/// What the notices say, by the tasks that they tell of.
fn notices(stand: &Stand) -> BTreeSet<(String, String)> {
    let key = stand.variable("AWS_ACCESS_KEY_ID");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new(key, key, None, None, "test"))
        .http_client(groupage_aws::http_client())
        .endpoint_url(stand.variable("AWS_ENDPOINT_URL_SQS"));
    let client = aws_sdk_sqs::Client::from_conf(config.build());
    let receive = client.receive_message().queue_url(stand.variable("GROUPAGE_NOTIFICATION_QUEUE"));
    let receive = receive.max_number_of_messages(10).message_attribute_names("All");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let received = runtime.block_on(async { receive.send().await.unwrap() });
    let notice = |message: aws_sdk_sqs::types::Message| {
        let event: Value = serde_json::from_str(message.body().unwrap()).unwrap();
        let attributes = message.message_attributes.unwrap_or_default();
        let trace = attributes["traceparent"].string_value().unwrap().to_owned();
        (event["subject"].as_str().unwrap().to_owned(), trace)
    };
    received.messages.unwrap_or_default().into_iter().map(notice).collect()
}

#[test]
fn a_senders_trace_comes_to_the_call_to_the_notice_and_to_the_collector() {
    let folder = tempfile::tempdir().unwrap();
    let ((collector, spans), (url, calls)) = (collector(), downstream());
    let stand = Stand::start_with(folder.path(), &routes(&url), &[], &[(COLLECTOR, &collector)]);
    send(&stand, folder.path());
    for id in ["a", "b", "c"] {
        stand.wait_until(id, "succeeded");
    }
    let named =
        |name: &str| -> Vec<Span> { spans.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect() };
    wait_for("the spans", || (named("groupage settle task").len() == 3).then_some(()));

    // Three events of one task each: they gather, or a leader gathers them.
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls.iter().map(|(_, ids)| ids.len()).sum::<usize>(), 3, "{calls:?}");
    let of_calls = named("groupage call");
    assert_eq!(of_calls.len(), calls.len());
    for (trace, ids) in &calls {
        let trace = trace.as_ref().unwrap();
        let is_its = |span: &&Span| *trace == format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        let span = of_calls.iter().find(is_its).expect("the downstream was told of the call's own span");
        let linked: BTreeSet<String> = span.links.iter().map(|link| hex(&link.trace_id)).collect();
        let members = ids.iter().map(|id| TRACES[usize::from(id.as_bytes()[0] - b'a')].repeat(16));
        assert_eq!(linked, members.collect());
    }
    for name in ["groupage register task", "groupage settle task"] {
        let parents: BTreeSet<(String, String)> =
            named(name).iter().map(|span| (hex(&span.trace_id), hex(&span.parent_span_id))).collect();
        assert_eq!(parents, TRACES.map(|sender| (sender.repeat(16), sender.repeat(8))).into(), "{name}");
    }
    let traces: BTreeSet<Vec<u8>> = of_calls.iter().map(|span| span.trace_id.clone()).collect();
    for span in named("groupage settle task") {
        assert!(traces.contains(&span.links[0].trace_id), "it leads to the call");
    }
    assert_eq!(named("groupage follow up").len(), calls.len());
    assert!(!named("groupage register").is_empty());
    let expected = ["a", "b", "c"].into_iter().zip(TRACES);
    let expected: BTreeSet<_> = expected.map(|(id, sender)| (id.to_owned(), traceparent(sender))).collect();
    assert_eq!(notices(&stand), expected);
}

#[test]
fn a_collector_that_never_answers_delays_no_task() {
    let folder = tempfile::tempdir().unwrap();
    // The system accepts connections for it, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let (url, calls) = downstream();
    let mut stand = Stand::start_with(folder.path(), &routes(&url), &[], &[(COLLECTOR, &collector)]);
    send(&stand, folder.path());
    for id in ["a", "b", "c"] {
        stand.wait_until(id, "succeeded");
    }
    assert!(calls.lock().unwrap().iter().all(|(trace, _)| trace.is_some()));
    assert!(stand.interrupt().success());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
