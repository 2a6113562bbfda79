//! A sender's trace on a laptop comes to a collector; a collector that hangs harms nothing.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::Bytes;

use crate::stand::{Stand, wait_for};

const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const ROUTES: &str = "
version: 1
routes:
  - name: labels
    target: printer
    batch: { max_items: 3, wait_ms: 20000 }
    downstream: pull
";
/// The bytes that the ids of three senders' traces consist of.
const TRACES: [u8; 3] = [0xa1, 0xb2, 0xc3];

fn traceparent(sender: u8) -> String {
    let hex = format!("{sender:02x}");
    format!("00-{}-{}-01", hex.repeat(16), hex.repeat(8))
}

/// A collector that serves for as long as the process lives, and the bytes that it has got.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let spans: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&spans);
    let router = Router::new().fallback(move |body: Bytes| async move { kept.lock().unwrap().extend(body) });
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    (told.recv().unwrap(), spans)
}

/// Sends three labels, which fill a batch, and waits for a worker to settle them. One says its trace, one has that of
/// the command, one has that of the environment.
fn send(stand: &Stand, folder: &std::path::Path) {
    let label = |id: &str, more: &str| format!("{{\"id\":\"{id}\",\"payload\":{{\"printer\":\"p\"}}{more}}}\n");
    let own = label("a", &format!(",\"traceparent\":\"{}\"", traceparent(TRACES[0])));
    for (lines, option, variable) in [
        (own, Some(traceparent(0xff)), "nonsense".to_owned()),
        (label("b", ""), Some(traceparent(TRACES[1])), traceparent(0xff)),
        (label("c", ""), None, traceparent(TRACES[2])),
    ] {
        std::fs::write(folder.join("label.ndjson"), lines).unwrap();
        let option: Vec<String> = option.into_iter().flat_map(|trace| ["--traceparent".to_owned(), trace]).collect();
        let mut command = stand.command(&[&["send".to_owned(), "label.ndjson".to_owned()][..], &option].concat());
        let sent = command.env("TRACEPARENT", variable).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "true"], &[]);
    for id in ["a", "b", "c"] {
        stand.wait_until(id, "succeeded");
    }
}

/// The deployed stack's test checks the content of the spans.
#[test]
fn each_way_to_say_a_trace_comes_to_the_collector_and_the_nearest_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, spans) = collector();
    let stand = Stand::start_with(folder.path(), ROUTES, &[], &[(COLLECTOR, &collector)]);
    send(&stand, folder.path());
    let has = |sender: u8| spans.lock().unwrap().windows(16).any(|id| id == [sender; 16]);
    wait_for("the spans", || TRACES.into_iter().all(has).then_some(()));
    assert!(!has(0xff), "a trace that counts less");
}

#[test]
fn a_collector_that_never_answers_delays_no_task() {
    let folder = tempfile::tempdir().unwrap();
    // The system accepts connections for it, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let mut stand = Stand::start_with(folder.path(), ROUTES, &[], &[(COLLECTOR, &collector)]);
    send(&stand, folder.path());
    assert!(stand.interrupt().success());
}
