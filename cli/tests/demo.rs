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
fn a_routes_file_with_a_hidden_route_is_right_with_a_warning_that_strict_takes_for_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.yaml");
    let route = |name: &str| format!("  - {{ name: {name}, target: b, downstream: pull }}\n");
    std::fs::write(&file, format!("version: 1\nroutes:\n{}{}", route("all"), route("b"))).unwrap();
    let file = file.to_str().unwrap();
    let output = groupage(&["check", file]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(":4: route `b`: `when`: no task takes this route"), "{said}");
    let strict = groupage(&["--json", "check", "--strict", file]);
    assert_eq!(strict.status.code(), Some(1));
    let result: serde_json::Value = serde_json::from_slice(&strict.stdout).unwrap();
    assert_eq!(result["warnings"][0]["route"], "b", "{result}");
    assert!(strict.stderr.is_empty(), "programs find it in the result");
}

#[test]
fn a_command_without_a_stack_says_how_to_name_one() {
    let output = groupage(&["send", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--stack") && said.contains(". groupage-data/env"), "{said}");
}

#[test]
fn a_stack_that_does_not_answer_is_named_with_a_question() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let command = env!("CARGO_BIN_EXE_groupage");
    let output = Command::new(command).arg("status").env("AWS_ENDPOINT_URL_SQS", &address).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("nothing answers at {address}")) && said.contains("groupage local"), "{said}");
}

#[test]
fn a_deployed_stack_without_credentials_says_where_they_may_come_from() {
    let command = env!("CARGO_BIN_EXE_groupage");
    let home = tempfile::tempdir().unwrap();
    let mut asked = Command::new(command);
    asked.env_clear().env("HOME", home.path()).env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_REGION", "us-east-1");
    let output = asked.args(["status", "--stack", "none"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no AWS credentials were found") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_target_without_its_route_is_told_how_to_write_it() {
    let output = groupage(&["status", "target", "truck-7"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("ROUTE:TARGET"));
}
