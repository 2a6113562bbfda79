//! The README's first command, and the commands that need no stack.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::process::{Command, Output};

use serde_json::Value;

fn groupage(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_groupage")).args(arguments).output().unwrap()
}

#[test]
fn the_demo_makes_few_full_calls_and_its_owner_is_told_once() {
    let output = groupage(&["--json", "demo"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["agreed"], true);
    assert_eq!(report["told_that_all_are_done"], 1);
    assert_eq!((&report["tasks"], &report["unsettled"]), (&2_000.into(), &0.into()));
    let (batches, fewest) = (report["batches"].as_f64().unwrap(), report["fewest_batches"].as_f64().unwrap());
    assert!(batches <= 1.25 * fewest, "{batches} batches where {fewest} are the fewest possible");
}

#[test]
fn a_wrong_routes_file_ends_with_its_line_and_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.yaml");
    std::fs::write(&file, "version: 1\nroutes:\n  - name: a\n    target: b\n    colour: red\n").unwrap();
    let output = groupage(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("5") && said.contains("colour"), "{said}");
}

#[test]
fn a_command_without_a_stack_says_how_to_name_one() {
    let output = groupage(&["send", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--stack"));
}
