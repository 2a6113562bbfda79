//! `kill -9` of `groupage local` in mid-run, three times: restart, the same `send` again, and every task settles once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

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

/// A running `groupage local`; killed when the test ends, however it ends.
struct Local {
    child: Child,
    environment: Vec<(String, String)>,
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn groupage() -> Command {
    Command::new(env!("CARGO_BIN_EXE_groupage"))
}

fn start(folder: &Path) -> Local {
    let file = folder.join("data/env");
    let _ = std::fs::remove_file(&file);
    let mut child = groupage()
        .args(["local", "--dynamodb-port", "0", "--sqs-port", "0", "--data"])
        .arg(folder.join("data"))
        .arg("--routes")
        .arg(folder.join("routes.yaml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let lines = loop {
        if let Ok(lines) = std::fs::read_to_string(&file) {
            break lines;
        }
        assert_eq!(child.try_wait().unwrap(), None, "groupage local ended");
        assert!(began.elapsed() < Duration::from_secs(120), "groupage local does not start");
        std::thread::sleep(Duration::from_millis(20));
    };
    let environment = lines
        .lines()
        .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches(['\'', '"']).to_owned()))
        .collect();
    Local { child, environment }
}

fn ask(local: &Local, folder: &Path, arguments: &[&str]) -> Output {
    groupage()
        .args(arguments)
        .current_dir(folder)
        .envs(local.environment.iter().cloned())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output()
        .unwrap()
}

/// Sends everything and says how many of the tasks had settled before.
fn send(local: &Local, folder: &Path) -> usize {
    let answer = ask(local, folder, &["--json", "send", "tasks.ndjson"]);
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let report: Value = serde_json::from_slice(&answer.stdout).unwrap();
    usize::try_from(report["settled"].as_u64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_settles_once_whenever_the_stack_is_killed() {
    let (url, ledger) = downstream().await;
    let folder = tempfile::tempdir().unwrap();
    let routes = format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: 20, wait_ms: 500 }}\n    \
         downstream: {{ http: {{ url: \"{url}\" }} }}\n"
    );
    std::fs::write(folder.path().join("routes.yaml"), routes).unwrap();
    let mut lines = String::new();
    for n in 0..TASKS {
        writeln!(lines, r#"{{"id":"p{n}","payload":{{"truck":"t{}","n":{n}}}}}"#, n % 5).unwrap();
    }
    std::fs::write(folder.path().join("tasks.ndjson"), lines).unwrap();

    let settled = tokio::task::spawn_blocking({
        let (folder, ledger) = (folder.path().to_owned(), Arc::clone(&ledger));
        move || {
            for kill in 1..=3 {
                let mut local = start(&folder);
                send(&local, &folder);
                // In mid-run: some calls are made, most are not.
                let calls = || ledger.lock().unwrap().len();
                let before = calls();
                let began = Instant::now();
                while calls() < before + 3 && calls() * 20 < TASKS && began.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                local.child.kill().unwrap();
                local.child.wait().unwrap();
                println!("kill {kill}: {} calls so far", calls());
            }
            let local = start(&folder);
            let began = Instant::now();
            while send(&local, &folder) < TASKS {
                assert!(began.elapsed() < Duration::from_secs(300), "not all tasks settle");
                std::thread::sleep(Duration::from_secs(1));
            }
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
