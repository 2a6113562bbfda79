//! `groupage send --track` as its caller meets it: what it says before it waits, and when the waiting goes wrong.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;
use stand::{Stand, wait_for};

/// Nobody runs the steps, and so nothing ever settles.
const ROUTES: &str = "version: 1\nroutes:\n  - name: labels\n    target: printer\n    downstream: pull\n";

/// A `groupage send - --track` that runs on beside the test; killed when the test ends, however it ends.
struct Sending {
    child: Child,
    /// Its standard error, line by line.
    said: Receiver<String>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sending {
    fn start(stand: &Stand) -> Self {
        let mut command = stand.command(&["--json", "send", "-", "--track"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        Self { child, said }
    }

    /// The tracker that its first words name.
    fn tracker(&self) -> String {
        let line = wait_for("its first words", || self.said.try_recv().ok());
        let id = line.strip_prefix("tracker ").and_then(|rest| rest.split(' ').next());
        let id = id.unwrap_or_else(|| panic!("said first: {line}")).to_owned();
        assert!(line.contains(&format!("--track={id}")), "{line}");
        id
    }

    /// Gives it its whole input.
    fn input(&mut self, lines: &str) {
        self.child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// Waits for its end.
    fn ended(mut self) -> Output {
        let status = wait_for("send to end", || self.child.try_wait().unwrap());
        let mut stdout = Vec::new();
        std::io::Read::read_to_end(&mut self.child.stdout.take().unwrap(), &mut stdout).unwrap();
        Output { status, stdout, stderr: Vec::new() }
    }
}

#[test]
fn a_stream_is_told_its_tracker_first_and_reported_even_if_the_tables_vanish_while_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let mut sending = Sending::start(&stand);
    // Its input has not begun.
    let tracker = sending.tracker();
    assert_eq!(stand.json(&["status", "tracker", &tracker])["items"], 0);

    sending.input("{\"id\":\"a\",\"payload\":{\"printer\":\"p\"}}\n");
    wait_for("all to be sent", || {
        let shown = stand.json(&["status", "tracker", &tracker]);
        (shown["state"] == "sealed").then(|| assert_eq!((&shown["items"], &shown["missing"]), (&1.into(), &1.into())))
    });

    stand.kill();
    let output = sending.ended();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["new"], 1, "{report:#}");
    assert!(report["stopped"].as_str().is_some_and(|why| why.contains(&tracker)), "{report:#}");
}
