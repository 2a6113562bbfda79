//! Targets that share a limit, on a laptop: the one batch of a Target does not wait for all of another.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::Bytes;
use serde_json::Value;
use stand::{Stand, wait_for};

const MANY: usize = 30;

/// A downstream, and the Targets of its calls in their order.
fn downstream() -> (String, Arc<Mutex<Vec<String>>>) {
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&calls);
    let router = Router::new().fallback(move |body: Bytes| async move {
        let body: Value = serde_json::from_slice(&body).unwrap();
        kept.lock().unwrap().push(body["target"].as_str().unwrap().to_owned());
    });
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(format!("http://{}", listener.local_addr().unwrap())).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    (told.recv().unwrap(), calls)
}

#[test]
fn one_batch_goes_before_most_of_the_many_of_another_target() {
    let (url, calls) = downstream();
    let routes = format!(
        "version: 1\nroutes:\n  - name: visits\n    target: clinic\n    batch: {{ max_items: 1 }}\n    \
         downstream: {{ http: {{ url: \"{url}\" }} }}\n    \
         limits: {{ calls_per_second: 3, share: {{ by: target, weight: \"target == 'one' && `2`\" }} }}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), &routes, &[]);
    let line = |id: &str, clinic: &str| format!("{{\"id\":\"{id}\",\"payload\":{{\"clinic\":\"{clinic}\"}}}}\n");
    stand.send(&(0..MANY).map(|n| line(&format!("many-{n}"), "many")).collect::<String>());
    wait_for("the first calls", || (calls.lock().unwrap().len() > 2).then_some(()));
    stand.send(&line("one", "one"));
    wait_for("all calls", || (calls.lock().unwrap().len() > MANY).then_some(()));
    let calls = calls.lock().unwrap().clone();
    let before = calls.iter().position(|target| target == "one").unwrap();
    assert!(before < MANY - 5, "{before} calls of the many came first");
    assert_eq!(calls.len(), MANY + 1);
}
