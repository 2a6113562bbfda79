//! What `groupage local` has accepted outlives its process: killed in mid-run, killed before anything is registered,
//! and stopped by Ctrl-C. Nothing is sent twice by its sender, and every task is called.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use crate::stand::{Stand, wait_for};

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

fn routes(url: &str) -> String {
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: 20, wait_ms: 500 }}\n    \
         downstream: {{ http: {{ url: \"{url}\" }} }}\n"
    )
}

fn lines(tasks: Range<usize>) -> String {
    tasks.fold(String::new(), |mut lines, n| {
        writeln!(lines, r#"{{"id":"p{n}","payload":{{"truck":"t{}","n":{n}}}}}"#, n % 5).unwrap();
        lines
    })
}

/// Runs a test that waits for processes, beside its downstream.
async fn beside_downstream(test: fn(&Path, &str, &Ledger)) {
    let (url, ledger) = downstream().await;
    let folder = tempfile::tempdir().unwrap();
    let waits = move || test(folder.path(), &routes(&url), &ledger);
    tokio::task::spawn_blocking(waits).await.unwrap();
}

/// The tasks that were called, and the number of keys that each came under.
fn called(ledger: &Ledger) -> HashMap<String, usize> {
    let mut keys_of = HashMap::new();
    for (key, calls) in ledger.lock().unwrap().iter() {
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), 1, "members of {key} changed");
        for item in &calls[0] {
            *keys_of.entry(item.clone()).or_default() += 1;
        }
    }
    keys_of
}

/// Waits until every task was called, and none under two keys.
fn all_called_once(ledger: &Ledger, tasks: usize) {
    let keys_of = wait_for(&format!("{tasks} tasks to be called"), || {
        let keys_of = called(ledger);
        (keys_of.len() == tasks).then_some(keys_of)
    });
    let twice: Vec<_> = keys_of.iter().filter(|(_, keys)| **keys > 1).collect();
    assert!(twice.is_empty(), "in two batches: {twice:?}");
}

/// How many messages the task queue holds, visible or not.
fn waiting(stand: &Stand) -> u64 {
    let depths = stand.json(&["status"]);
    let tasks = depths.as_array().unwrap().iter().find(|queue| queue["queue"] == "tasks").unwrap();
    ["ready", "in_flight", "delayed"].iter().map(|count| tasks[count].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_is_called_under_one_key_whenever_the_stack_is_killed() {
    beside_downstream(|folder, routes, ledger| {
        const KILLS: usize = 3;
        let portion = TASKS / KILLS;
        for kill in 0..KILLS {
            let stand = Stand::start(folder, routes, &[]);
            stand.send(&lines(kill * portion..(kill + 1) * portion));
            // In mid-run: some calls are made, most are not.
            let before = called(ledger).len();
            wait_for("some calls", || (called(ledger).len() > before).then_some(()));
            stand.kill();
            println!("kill {}: {} of {} tasks are called", kill + 1, called(ledger).len(), (kill + 1) * portion);
        }
        let _stand = Stand::start(folder, routes, &[]);
        all_called_once(ledger, TASKS);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_and_not_yet_registered_outlives_a_kill() {
    beside_downstream(|folder, routes, ledger| {
        let stand = Stand::start(folder, routes, &["--no-steps"]);
        stand.send(&lines(0..TASKS));
        assert_eq!(waiting(&stand), TASKS as u64);
        stand.kill();
        let stand = Stand::start(folder, routes, &["--no-steps"]);
        assert_eq!(waiting(&stand), TASKS as u64, "after kill -9");
        let _steps = stand.spawn(&["steps"], &[("GROUPAGE_LOG", "error")]);
        all_called_once(ledger, TASKS);
        wait_for("the queue to be empty", || (waiting(&stand) == 0).then_some(()));
        stand.kill();
        let stand = Stand::start(folder, routes, &["--no-steps"]);
        assert_eq!(waiting(&stand), 0, "what was handled does not come again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_released_before_ctrl_c_is_called_after_the_next_start() {
    beside_downstream(|folder, routes, ledger| {
        const LISTED: usize = 200;
        let mut stand = Stand::start(folder, routes, &[]);
        std::fs::write(folder.join("list.ndjson"), lines(0..LISTED)).unwrap();
        assert_eq!(stand.json(&["list", "put", "night", "list.ndjson"])["put"], LISTED);
        assert_eq!(stand.json(&["list", "release", "night", "--all"])["tasks"], LISTED);
        assert!(stand.interrupt().success(), "it ends well");
        let _stand = Stand::start(folder, routes, &[]);
        all_called_once(ledger, LISTED);
    })
    .await;
}
