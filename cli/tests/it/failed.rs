//! `groupage failed` as its caller meets it: tasks fail, are found, shown, run again and dropped.

use serde_json::Value;

use crate::stand::{Stand, wait_for};

const ROUTES: &str = "
version: 1
routes:
  - name: labels
    target: printer
    batch: { max_items: 10, wait_ms: 0 }
    downstream: pull
    keep_failed_days: 3
";

/// What each label comes to, until the file says otherwise.
const REFUSE: &str =
    r#"{"results":[{"id":"a","status":"failed","reason":"jam"},{"id":"b","status":"failed","reason":"no_ink"}]}"#;

fn lines(answer: &std::process::Output) -> Vec<Value> {
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8_lossy(&answer.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listed(stand: &Stand, more: &[&str]) -> Vec<String> {
    let found = lines(&stand.ask(&[&["--json", "failed", "list"], more].concat()));
    found.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn failed_tasks_are_found_run_again_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let answer = folder.path().join("answer.json");
    std::fs::write(&answer, REFUSE).unwrap();
    let sent = "{\"id\":\"a\",\"payload\":{\"printer\":\"p\"}}\n{\"id\":\"b\",\"payload\":{\"printer\":\"p\"}}\n";
    assert_eq!(stand.send(sent), 0);
    let exec = format!("cat >/dev/null; cat {}", answer.display());
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", &exec], &[]);
    for id in ["a", "b"] {
        stand.wait_until(id, "failed");
    }
    // The index may show them a moment later.
    let by_time = wait_for("both to be listed", || Some(listed(&stand, &[])).filter(|found| found.len() == 2));
    assert_eq!(by_time, ["a", "b"]);
    assert_eq!(listed(&stand, &["--reason", "jam"]), ["a"]);
    assert_eq!(listed(&stand, &["--target", "labels:p", "--from", "1h", "--limit", "1"]), ["a"]);
    assert!(listed(&stand, &["--target", "labels:q"]).is_empty() && listed(&stand, &["--until", "1h"]).is_empty());
    let shown = stand.json(&["failed", "show", "b"]);
    assert_eq!(
        (&shown["reason"], &shown["target"], &shown["attempts"]),
        (&"no_ink".into(), &"labels:p".into(), &1.into())
    );

    // Sending them again says how they run again.
    let again = stand.ask(&["send", "tasks.ndjson"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("to run it again: groupage failed retry a"), "{said}");

    let dry = lines(&stand.ask(&["--json", "failed", "retry", "--all", "--dry-run"]));
    assert_eq!(dry.len(), 2);
    std::fs::write(&answer, "").unwrap();
    let retried = stand.json(&["failed", "retry", "--all", "--reason", "jam", "--rate", "100"]);
    assert_eq!((&retried["tasks"], &retried["done"]), (&1.into(), &1.into()));
    stand.wait_until("a", "succeeded");
    let refused = stand.ask(&["--json", "failed", "retry", "a", "nobody"]);
    assert!(!refused.status.success());
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(report["refused"][0]["why"], "not failed: it is succeeded");
    assert!(report["refused"][1]["why"].as_str().unwrap().starts_with("no task with this id is known"), "{report}");

    assert_eq!(stand.json(&["failed", "drop", "b"])["done"], 1);
    wait_for("the list to be empty", || listed(&stand, &[]).is_empty().then_some(()));
    assert_eq!(stand.task("b")["status"], "failed");
    assert_eq!(stand.json(&["failed", "retry", "b"])["done"], 1, "a dropped task may still be run again");
    stand.wait_until("b", "succeeded");
}
