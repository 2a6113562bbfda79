//! The README's first command, and the commands that need no stack.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::process::{Command, Output};

use serde_json::Value;

fn groupage(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_groupage")).args(arguments).output().unwrap()
}

#[test]
fn the_demo_makes_no_more_batches_than_its_windows_allow_and_its_owner_is_told_once() {
    let output = groupage(&["--json", "demo"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["agreed"], true);
    assert_eq!(report["told_that_all_are_done"], 1);
    assert_eq!((&report["tasks"], &report["unsettled"]), (&2_000.into(), &0.into()));
    let [batches, most] = ["batches", "most_batches"].map(|field| report[field].as_u64().unwrap());
    assert!(batches <= most, "{batches} batches where windows and full ones make {most}");
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
fn a_plan_says_which_batches_there_would_be_why_they_end_and_what_would_be_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (routes, tasks) = (folder.path().join("routes.yaml"), folder.path().join("tasks.ndjson"));
    let batch = "batch: { max_items: 3, wait_ms: 2000 }, limits: { calls_per_second: 2 }";
    let http = "downstream: { http: { url: 'https://x.example' } }";
    std::fs::write(&routes, format!("version: 1\nroutes:\n  - {{ name: a, target: truck, {http}, {batch} }}\n"))
        .unwrap();
    let line = |n: usize, truck: &str| format!("{{\"payload\":{{\"truck\":\"{truck}\",\"n\":{n}}}}}\n");
    let lines: String = (0..7).map(|n| line(n, if n == 2 { "u" } else { "t" })).collect();
    std::fs::write(&tasks, lines + "{\"payload\":{}}\n").unwrap();
    let arguments = ["plan", tasks.to_str().unwrap(), "--routes", routes.to_str().unwrap(), "--per-second", "10"];
    let output = groupage(&[&["--json"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1), "a task would be refused");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told: Vec<String> = plan["batches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|batch| format!("{} {} {} {}", batch["tasks"], batch["why"], batch["ended_ms"], batch["called_ms"]))
        .collect();
    assert_eq!(told, ["3 \"full\" 300 300", "3 \"full\" 600 800", "1 \"window\" 2200 2200"]);
    assert_eq!(
        (&plan["refused"]["bad_target"]["lines"], &plan["refused"]["bad_target"]["first_line"]),
        (&1.into(), &8.into())
    );
    let text = String::from_utf8(groupage(&arguments).stdout).unwrap();
    assert!(text.contains("wait_ms is over") && text.contains("the first is line 8"), "{text}");
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
