//! `groupage send` as its caller meets it: what it says before it waits, when the waiting goes wrong, and at Ctrl-C.

use rustix::process::Signal;

use crate::stand::{Process, Stand, wait_for};

/// Nobody runs the steps, and so nothing ever settles.
const ROUTES: &str = "version: 1\nroutes:\n  - name: labels\n    target: printer\n    downstream: pull\n";

/// The tracker that the first words of a `groupage send --track` name.
fn tracker(sending: &mut Process) -> String {
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
    let tracker = tracker(&mut sending);
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

#[test]
fn an_interrupted_one_says_what_it_has_sent_and_that_there_was_more() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let mut sending = stand.converse(&["send", "-"]);
    sending.type_in("{\"id\":\"a\",\"payload\":{\"printer\":\"p\"}}\n{\"id\":\"b\",\"payload\":{\"printer\":\"p\"}}\n");
    wait_for("both to be sent", || (stand.json(&["status"])[0]["ready"] == 2).then_some(()));
    // Its input is open still.
    sending.signal(Signal::INT);
    let (code, report) = sending.report();
    assert_eq!(code, Some(1));
    assert_eq!((&report["lines"], &report["new"], &report["stopped"]), (&2.into(), &2.into(), &"interrupted".into()));
}

#[test]
fn an_interrupted_wait_ends_with_the_counts_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let mut sending = stand.converse(&["send", "-", "--track"]);
    let tracker = tracker(&mut sending);
    sending.input("{\"id\":\"a\",\"payload\":{\"printer\":\"p\"}}\n");
    wait_for("all to be sent", || (stand.json(&["status", "tracker", &tracker])["state"] == "sealed").then_some(()));
    sending.signal(Signal::INT);
    let (code, report) = sending.report();
    assert_eq!((code, &report["stopped"]), (Some(1), &"interrupted".into()));
    assert_eq!((&report["tracked"]["state"], &report["tracked"]["missing"]), (&"sealed".into(), &1.into()));
}
