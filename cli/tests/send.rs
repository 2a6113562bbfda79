//! `groupage send --track` as its caller meets it: what it says before it waits, and when the waiting goes wrong.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use stand::{Process, Stand, wait_for};

/// Nobody runs the steps, and so nothing ever settles.
const ROUTES: &str = "version: 1\nroutes:\n  - name: labels\n    target: printer\n    downstream: pull\n";

/// The tracker that the first words of a `groupage send --track` name.
fn tracker(sending: &Process) -> String {
    let line = sending.said();
    let id = line.strip_prefix("tracker ").and_then(|rest| rest.split(' ').next());
    let id = id.unwrap_or_else(|| panic!("said first: {line}")).to_owned();
    assert!(line.contains(&format!("--track={id}")), "{line}");
    id
}

#[test]
fn a_stream_is_told_its_tracker_first_and_reported_even_if_the_tables_vanish_while_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let mut sending = stand.converse(&["send", "-", "--track"]);
    // Its input has not begun.
    let tracker = tracker(&sending);
    assert_eq!(stand.json(&["status", "tracker", &tracker])["items"], 0);

    sending.input("{\"id\":\"a\",\"payload\":{\"printer\":\"p\"}}\n");
    wait_for("all to be sent", || {
        let shown = stand.json(&["status", "tracker", &tracker]);
        (shown["state"] == "sealed").then(|| assert_eq!((&shown["items"], &shown["missing"]), (&1.into(), &1.into())))
    });

    stand.kill();
    let (code, report) = sending.report();
    assert_eq!(code, Some(1));
    assert_eq!(report["new"], 1, "{report:#}");
    assert!(report["stopped"].as_str().is_some_and(|why| why.contains(&tracker)), "{report:#}");
}
