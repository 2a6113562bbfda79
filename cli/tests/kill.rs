//! `kill -9` of `groupage local` in mid-run, three times: restart, the same `send` again, and every task settles once.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use stand::{Stand, wait_for};

/// Members of each call, by `Idempotency-Key`: every call that was made, in order.
type Ledger = Arc<Mutex<HashMap<String, Vec<Vec<String>>>>>;

const TASKS: usize = 600;

async fn downstream() -> (String, Ledger) {
    let ledger = Ledger::default();
    let book = Arc::clone(&ledger);
    let load = move |headers: HeaderMap, Json(body): Json<Value>| async move {
        let items = body["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned());
        let key = headers["idempotency-key"].to_str().unwrap().to_owned();
        book.lock().unwrap().entry(key).or_default().push(items.collect());
        // A call takes a while, so that a kill finds some in flight.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/load", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/load", post(load))).await });
    (url, ledger)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_settles_once_whenever_the_stack_is_killed() {
    let (url, ledger) = downstream().await;
    let folder = tempfile::tempdir().unwrap();
    let routes = format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: 20, wait_ms: 500 }}\n    \
         downstream: {{ http: {{ url: \"{url}\" }} }}\n"
    );
    let mut lines = String::new();
    for n in 0..TASKS {
        writeln!(lines, r#"{{"id":"p{n}","payload":{{"truck":"t{}","n":{n}}}}}"#, n % 5).unwrap();
    }

    let settled = tokio::task::spawn_blocking({
        let (folder, ledger) = (folder.path().to_owned(), Arc::clone(&ledger));
        move || {
            for kill in 1..=3 {
                let stand = Stand::start(&folder, &routes, &[]);
                stand.send(&lines);
                // In mid-run: some calls are made, most are not.
                let calls = || ledger.lock().unwrap().len();
                let before = calls();
                let began = Instant::now();
                while calls() < before + 3 && calls() * 20 < TASKS && began.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                stand.kill();
                println!("kill {kill}: {} calls so far", calls());
            }
            let stand = Stand::start(&folder, &routes, &[]);
            wait_for("all tasks to settle", || {
                std::thread::sleep(Duration::from_secs(1));
                (stand.send(&lines) == TASKS).then_some(())
            });
        }
    });
    settled.await.unwrap();

    let ledger = ledger.lock().unwrap();
    let mut keys_of: HashMap<&String, usize> = HashMap::new();
    for (key, calls) in ledger.iter() {
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), 1, "members of {key} changed");
        for item in &calls[0] {
            *keys_of.entry(item).or_default() += 1;
        }
    }
    assert_eq!(keys_of.len(), TASKS, "a task was never called");
    let twice: Vec<_> = keys_of.iter().filter(|(_, keys)| **keys > 1).collect();
    assert!(twice.is_empty(), "in two batches: {twice:?}");
}
