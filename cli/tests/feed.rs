//! `groupage feed` as its caller meets it: killed twice, interrupted once, and at its end where a feeder is that never was.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod stand;

use std::path::Path;
use std::process::{Child, Output, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use stand::{Stand, wait_for};

const ROUTES: &str = "
version: 1
routes:
  - name: labels
    when: user
    target: user
    batch: { max_items: 20, wait_ms: 20 }
    downstream: pull
";

const LINES: usize = 400;

/// One line is blank, one is no JSON, and one no route wants.
fn write_events(folder: &Path) {
    let lines = (0..LINES).map(|n| match n {
        7 => "oops\n\n".to_owned(),
        300 => "{\"payload\":{\"junk\":1}}\n".to_owned(),
        n => format!("{{\"payload\":{{\"user\":\"u{}\",\"n\":{n}}}}}\n", n % 10),
    });
    std::fs::write(folder.join("events.ndjson"), lines.collect::<String>()).unwrap();
}

/// A feeder that runs on beside the test; killed when the test ends, however it ends.
struct Feeder(Child);

impl Drop for Feeder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Feeder {
    fn start(stand: &Stand, folder: &Path, more: &[&str]) -> Self {
        let file = folder.join("events.ndjson");
        let mut command = stand.command(&["--json", "feed", file.to_str().unwrap(), "--stream", "orders"]);
        let command = command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn interrupt(&self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(id, Signal::INT).unwrap();
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
    }

    fn ended(mut self) -> (Option<i32>, Value) {
        let status = wait_for("the feeder to end", || self.0.try_wait().unwrap());
        let mut output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
        std::io::Read::read_to_end(&mut self.0.stdout.take().unwrap(), &mut output.stdout).unwrap();
        std::io::Read::read_to_end(&mut self.0.stderr.take().unwrap(), &mut output.stderr).unwrap();
        let report = serde_json::from_slice(&output.stdout);
        (status.code(), report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
    }
}

fn shown(stand: &Stand) -> Option<Value> {
    let output = stand.command(&["--json", "stream", "show", "orders"]).output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Waits until so many events are before the watermark; says how many are.
fn passed(stand: &Stand, events: u64) -> u64 {
    wait_for("the watermark", || shown(stand)?["watermark"].as_u64().filter(|watermark| *watermark >= events))
}

#[test]
fn a_feeder_that_is_killed_goes_on_at_the_watermark() {
    let folder = tempfile::tempdir().unwrap();
    write_events(folder.path());
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let _worker = stand.spawn(&["work", "--route", "labels", "--exec", "true"], &[]);
    let quick = ["--window", "60", "--commit", "50ms"];
    let slowly = [&quick[..], &["--rate", "100"]].concat();

    let mut last = 0;
    for least in [20, 100] {
        let feeder = Feeder::start(&stand, folder.path(), &slowly);
        last = passed(&stand, least.max(last));
        feeder.kill();
    }
    let feeder = Feeder::start(&stand, folder.path(), &slowly);
    passed(&stand, last + 20);
    feeder.interrupt();
    let (code, report) = feeder.ended();
    assert_eq!((code, report["stopped"].as_str()), (Some(1), Some("interrupted")));
    assert!(report["resumed_at"].as_u64().unwrap() >= last && report["watermark"].as_u64().unwrap() >= last);

    let (code, report) = Feeder::start(&stand, folder.path(), &[&quick[..], &["--end"]].concat()).ended();
    let counts = ["fed", "watermark", "settled", "failed"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(counts, [400, 400, 400, 2], "{report}");
    assert_eq!((code, report["state"].as_str(), &report["stopped"]), (Some(1), Some("completed"), &Value::Null));
    let bytes = std::fs::metadata(folder.path().join("events.ndjson")).unwrap().len();
    assert_eq!(report["offset"].as_str().unwrap(), bytes.to_string());

    // Nothing is left to do, and nothing is done.
    let (_, again) = Feeder::start(&stand, folder.path(), &[]).ended();
    assert_eq!((&again["new"], &again["again"], &again["watermark"]), (&0.into(), &0.into(), &400.into()));
}

#[test]
fn a_line_that_changed_since_it_was_fed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_events(folder.path());
    // Nobody works, so nothing settles but what is no task.
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let (_, report) = Feeder::start(&stand, folder.path(), &["--no-wait"]).ended();
    assert_eq!(report["new"], 400);
    let file = folder.path().join("events.ndjson");
    let text = std::fs::read_to_string(&file).unwrap().replacen("\"n\":100}", "\"n\":999}", 1);
    std::fs::write(&file, text).unwrap();
    let (code, report) = Feeder::start(&stand, folder.path(), &["--no-wait"]).ended();
    let stopped = report["stopped"].as_str().unwrap();
    assert!(code == Some(1) && stopped.starts_with("event 100 was fed before"), "{stopped}");
    assert_eq!(shown(&stand).unwrap()["fed"], 400);
}
