//! Tasks with times, and tasks that are cancelled, as their sender meets it on a laptop.

use serde_json::{Value, json};

use crate::stand::Stand;

const ROUTES: &str = "
version: 1
routes:
  - name: labels
    target: printer
    batch: { max_items: 10, wait_ms: 0 }
    downstream: pull
";

fn label(id: &str, times: Value) -> String {
    let mut task = json!({ "id": id, "payload": { "printer": "p" } });
    task.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
    format!("{task}\n")
}

#[test]
fn the_tasks_of_a_tracker_are_cancelled_and_its_sender_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let counted: String = (0..3).map(|n| label(&format!("counted-{n}"), json!({ "not_before": 31_000_000 }))).collect();
    std::fs::write(folder.path().join("counted.ndjson"), counted).unwrap();
    let counting = stand.converse(&["send", "counted.ndjson", "--track=autumn"]);
    for n in 0..3 {
        stand.wait_until(&format!("counted-{n}"), "scheduled");
    }
    assert_eq!(stand.json(&["cancel", "--tracker", "autumn"])["done"], 3);
    // The sender waits until all are settled, and hears of them.
    let (code, report) = counting.report();
    assert_eq!((code, &report["tracked"]["failed"]), (Some(1), &3.into()), "{report}");
    assert_eq!(stand.json(&["cancel", "--tracker", "autumn"])["tasks"], 0, "nothing is left of it");
    let unknown = stand.ask(&["cancel", "--tracker", "winter"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no tracker `winter` is known"), "{unknown:?}");
}
