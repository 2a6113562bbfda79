//! `groupage feed` as its caller meets it: killed twice, interrupted once, and at its end where a feeder is that never
//! was.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::stand::{Process, Stand, wait_for};

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

/// Starts a feeder beside the test.
fn feed(stand: &Stand, folder: &Path, more: &[&str]) -> Process {
    let file = folder.join("events.ndjson");
    stand.converse(&[&["feed", file.to_str().unwrap(), "--stream", "orders"], more].concat())
}

fn shown(stand: &Stand) -> Option<Value> {
    let output = stand.command(&["--json", "stream", "show", "orders"]).output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Waits until this many events are before the watermark; says how many are.
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
        let feeder = feed(&stand, folder.path(), &slowly);
        last = passed(&stand, least.max(last));
        feeder.kill();
    }
    let mut feeder = feed(&stand, folder.path(), &slowly);
    passed(&stand, last + 20);
    feeder.signal(Signal::INT);
    let (code, report) = feeder.report();
    assert_eq!((code, report["stopped"].as_str()), (Some(1), Some("interrupted")));
    assert!(report["resumed_at"].as_u64().unwrap() >= last && report["watermark"].as_u64().unwrap() >= last);

    let (code, report) = feed(&stand, folder.path(), &[&quick[..], &["--end"]].concat()).report();
    let counts = ["fed", "watermark", "settled", "failed"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(counts, [400, 400, 400, 2], "{report}");
    assert_eq!((code, report["state"].as_str(), &report["stopped"]), (Some(1), Some("completed"), &Value::Null));
    let bytes = std::fs::metadata(folder.path().join("events.ndjson")).unwrap().len();
    assert_eq!(report["offset"].as_str().unwrap(), bytes.to_string());

    // Nothing is left to do, and nothing is done.
    let (_, again) = feed(&stand, folder.path(), &[]).report();
    assert_eq!((&again["new"], &again["again"], &again["watermark"]), (&0.into(), &0.into(), &400.into()));
}

#[test]
fn a_line_that_changed_since_it_was_fed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_events(folder.path());
    // Nobody works, so nothing settles but what is no task.
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let (_, report) = feed(&stand, folder.path(), &["--no-wait"]).report();
    assert_eq!(report["new"], 400);
    let file = folder.path().join("events.ndjson");
    let text = std::fs::read_to_string(&file).unwrap().replacen("\"n\":100}", "\"n\":999}", 1);
    std::fs::write(&file, text).unwrap();
    let (code, report) = feed(&stand, folder.path(), &["--no-wait"]).report();
    let stopped = report["stopped"].as_str().unwrap();
    assert!(code == Some(1) && stopped.starts_with("event 100 was fed before"), "{stopped}");
    assert_eq!(shown(&stand).unwrap()["fed"], 400);
}
