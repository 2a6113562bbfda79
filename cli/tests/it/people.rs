//! What people and programs are shown: `groupage status`, `--watch` and `groupage notices`.

use rustix::process::Signal;
use serde_json::Value;

use crate::stand::{Stand, wait_for};

const ROUTES: &str = "
version: 1
routes:
  - name: labels
    when: label
    target: printer
    batch: { max_items: 10, wait_ms: 0 }
    downstream: pull
  - name: parcels
    target: truck
    batch: { max_items: 10, wait_ms: 250000, express: false }
    downstream: pull
";

const REFUSE: &str = r#"{"results":[{"id":"a","status":"failed","reason":"jam"},{"id":"b","status":"succeeded"}]}"#;

fn text(stand: &Stand, arguments: &[&str]) -> String {
    let answer = stand.ask(arguments);
    assert!(answer.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap()
}

/// The line of a text in which all these words are.
fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let found = text.lines().find(|line| words.iter().all(|word| line.contains(word)));
    found.unwrap_or_else(|| panic!("no line has {words:?}:\n{text}"))
}

/// Fails unless the reference names every field of what a command printed with `--json`.
fn documented(command: &str, printed: &Value) {
    let page = include_str!("../../../docs/reference/json.md");
    let section = page.split("\n## ").find(|section| section.lines().next() == Some(command));
    let section = section.unwrap_or_else(|| panic!("docs/reference/json.md has no section `{command}`"));
    let values: Vec<&Value> = printed.as_array().map_or_else(|| vec![printed], |list| list.iter().collect());
    assert!(!values.is_empty(), "{command} printed nothing");
    for field in values.into_iter().flat_map(|value| value.as_object().unwrap().keys()) {
        assert!(section.contains(&format!("`{field}`")), "docs/reference/json.md, {command}: no word of `{field}`");
    }
}

#[test]
fn the_status_says_to_people_what_waits_and_why_and_to_programs_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    stand.send("{\"id\":\"p\",\"payload\":{\"truck\":\"truck-7\"}}\n");
    let task = stand.wait_until("p", "batched");
    let batch = task["batch"].as_str().unwrap();

    let overview = text(&stand, &["status"]);
    line(&overview, &["queue", "ready", "in flight", "delayed"]);
    line(&overview, &["parcels:truck-7", "1", "more tasks: its batch's window is open for"]);
    assert!(!overview.contains('\u{1b}'), "no colours for a pipe: {overview}");
    assert!(text(&stand, &["--color=always", "status"]).contains('\u{1b}'));
    let depths = stand.json(&["status"]);
    assert_eq!(depths[0], serde_json::json!({ "queue": "tasks", "ready": 0, "in_flight": 0, "delayed": 0 }));

    let shown = text(&stand, &["status", "task", "p"]);
    line(&shown, &["status", "in a batch"]);
    line(&shown, &["waits for", "more tasks"]);
    line(&shown, &["registered", "(20", "Z)"]);
    documented("groupage status", &depths);
    documented("groupage status task", &task);
    for of in [&["routes"][..], &["target", "parcels:truck-7"], &["batch", batch]] {
        documented(&format!("groupage status {}", of[0]), &stand.json(&[&["status"], of].concat()));
    }
    let fields = ["batch", "id", "registered_at_ms", "returned", "status", "target"];
    assert_eq!(task.as_object().unwrap().keys().collect::<Vec<_>>(), fields);

    let target = text(&stand, &["status", "target", "parcels:truck-7"]);
    line(&target, &["open batch", batch, "open: it is filling up"]);
    line(&target, &["its route", "well"]);
    line(&text(&stand, &["status", "routes"]), &["parcels", "well"]);
    line(&text(&stand, &["pause", "--route", "parcels", "--reason", "deploy"]), &["parcels", "held", "(20", "deploy"]);
    line(&text(&stand, &["push", "--history"]), &["1", "(20"]);
}

#[test]
fn a_batch_says_why_its_members_failed_and_their_notices_are_read_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    assert_eq!(text(&stand, &["notices"]), "no notice waits\n");
    std::fs::write(folder.path().join("answer.json"), REFUSE).unwrap();
    let labels = ["a", "b"].map(|id| format!("{{\"id\":\"{id}\",\"payload\":{{\"label\":1,\"printer\":\"p\"}}}}\n"));
    stand.send(&labels.concat());
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "cat >/dev/null; cat answer.json"], &[]);
    let failed = stand.wait_until("a", "failed");
    let batch = failed["batch"].as_str().unwrap();
    let shown = text(&stand, &["status", "batch", batch]);
    line(&shown, &["a", "failed: jam, after 1 call"]);
    let json = stand.json(&["status", "batch", batch]);
    documented("groupage status batch", &json);
    documented("groupage status sessions", &stand.json(&["status", "sessions"]));
    documented("groupage failed", &stand.json(&["failed", "show", "a"]));
    let failures = serde_json::json!([{ "id": "a", "reason": "jam", "calls": 1 }]);
    assert_eq!((&json["failures"], &json["failed"]), (&failures, &1.into()));
    line(&text(&stand, &["failed", "list"]), &["a", "labels:p", "jam", "(20"]);

    let notices = |arguments: &[&str]| -> Vec<Value> {
        text(&stand, arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let look = ["--json", "notices"];
    let waits = wait_for("a notice", || Some(notices(&look)).filter(|found| !found.is_empty()));
    assert_eq!(
        (waits.len(), &waits[0]["type"], &waits[0]["subject"]),
        (1, &"groupage.task.failed.v1".into(), &"a".into())
    );
    assert_eq!(notices(&look), waits, "to look takes nothing");
    line(&text(&stand, &["notices"]), &["task failed", "a", "jam", batch, "(20"]);
    assert_eq!(notices(&["--json", "notices", "--take", "--most", "5"]), waits);
    assert!(notices(&look).is_empty() && notices(&["--json", "notices", "--take"]).is_empty());
}

#[test]
fn watching_prints_each_look_and_ends_well_when_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let mut watch = stand.spawn(&["--json", "status", "--watch=1"], &[]);
    let mut looks: Vec<Value> = Vec::new();
    wait_for("three looks", || {
        looks.extend(watch.printed().iter().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        (looks.len() >= 3).then_some(())
    });
    assert!(looks.iter().all(|look| look[0]["queue"] == "tasks"));
    watch.signal(Signal::INT);
    assert_eq!(watch.ended().code(), Some(0));
    let wrong = stand.ask(&["status", "--watch", "task", "nobody"]);
    assert_eq!(wrong.status.code(), Some(1), "a first look that fails ends it");
}
