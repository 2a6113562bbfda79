//! Tasks with times, and tasks that are cancelled, as their sender meets it on a laptop.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use serde_json::{Value, json};
use stand::Stand;

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
fn a_task_is_not_printed_before_its_time_nor_after_its_end_nor_once_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let sent = [
        label("soon", json!({ "not_before": 3 })),
        label("late", json!({ "expires_at": 0 })),
        label("next-year", json!({ "not_before": 31_000_000 })),
        label("gone", json!({ "not_before": 31_000_000 })),
        label("now", json!({})),
    ];
    assert_eq!(stand.send(&sent.concat()), 0);
    for id in ["soon", "next-year", "gone"] {
        stand.wait_until(id, "scheduled");
    }
    assert_eq!(stand.json(&["cancel", "gone"])["cancelled"], 1);
    assert_eq!(stand.json(&["cancel", "gone"])["cancelled"], 1, "a repeat finds it so");
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "cat >>printed"], &[]);
    for (id, status) in [("soon", "succeeded"), ("late", "expired"), ("now", "succeeded"), ("gone", "cancelled")] {
        stand.wait_until(id, status);
    }
    let printed = std::fs::read_to_string(folder.path().join("printed")).unwrap();
    let is_printed = |id: &str| printed.contains(&format!("\"{id}\""));
    assert_eq!(["soon", "now", "late", "gone", "next-year"].map(is_printed), [true, true, false, false, false]);
    let waits = String::from_utf8(stand.ask(&["status", "task", "next-year"]).stdout).unwrap();
    assert!(waits.contains("its time: not before 20"), "{waits}");
    let refused = stand.ask(&["--json", "cancel", "now"]);
    assert_eq!(refused.status.code(), Some(1));
}

/// The clock closes the window within a minute.
#[test]
fn labels_of_one_printer_wait_for_their_window_and_those_of_another_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let targets =
        "    targets: [{ match: 'night-*', batch: { close_at: '* * * * *', max_items: 2, wait_ms: 1000 } }]\n";
    let stand = Stand::start(folder.path(), &format!("{ROUTES}{targets}"), &[]);
    let at_night = |n: usize| format!("{}\n", json!({ "id": format!("n{n}"), "payload": { "printer": "night-1" } }));
    assert_eq!(stand.send(&(label("now", json!({})) + &(0..4).map(at_night).collect::<String>())), 0);
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "cat >>printed; echo >>printed"], &[]);
    stand.wait_until("now", "succeeded");
    for n in 0..4 {
        stand.wait_until(&format!("n{n}"), "succeeded");
    }
    let printed = std::fs::read_to_string(folder.path().join("printed")).unwrap();
    let batches = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sizes: Vec<usize> = batches
        .filter(|batch| batch["target"] == "night-1")
        .map(|batch| batch["items"].as_array().map_or(0, Vec::len))
        .collect();
    // Who registers them may meet the end of a minute.
    assert!(sizes.iter().sum::<usize>() == 4 && sizes.iter().all(|size| *size <= 2), "{printed}");
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
    assert_eq!(stand.json(&["cancel", "--tracker", "autumn"])["cancelled"], 3);
    // The sender waits until all are settled, and hears of them.
    let (code, report) = counting.report();
    assert_eq!((code, &report["tracked"]["failed"]), (Some(1), &3.into()), "{report}");
    assert_eq!(stand.json(&["cancel", "--tracker", "autumn"])["tasks"], 0, "nothing is left of it");
    let unknown = stand.ask(&["cancel", "--tracker", "winter"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no tracker `winter` is known"), "{unknown:?}");
}

#[test]
fn what_is_held_by_hand_goes_on_when_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    stand.json(&["pause", "--route", "labels", "--reason", "no paper"]);
    assert_eq!(stand.send(&[label("held", json!({})), label("stale", json!({ "expires_at": 1 }))].concat()), 0);
    for id in ["held", "stale"] {
        stand.wait_until(id, "batched");
    }
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "cat >>printed"], &[]);
    assert_eq!(stand.json(&["cancel", "held"])["cancelled"], 1, "its call has not begun");
    assert_eq!(stand.send(&label("fresh", json!({}))), 0);
    stand.wait_until("fresh", "batched");
    assert!(!folder.path().join("printed").exists(), "the route is held");
    stand.json(&["resume", "--route", "labels"]);
    for (id, status) in [("fresh", "succeeded"), ("stale", "expired"), ("held", "cancelled")] {
        stand.wait_until(id, status);
    }
}
