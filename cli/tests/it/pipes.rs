//! Who reads what the command prints may stop at any time, and a disk may be full.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::stand::{Stand, groupage, wait_for};

const ROUTES: &str = "version: 1\nroutes:\n  - { name: labels, target: label, downstream: pull }\n";

/// Reads one line of its standard output, closes that, and waits for its end: its exit code and its errors.
fn read_a_line_of(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn who_has_read_enough_may_close_the_pipe() {
    for arguments in [&["completions", "fish"][..], &["completions", "bash"], &["schema", "routes"], &["help"]] {
        let (code, errors) = read_a_line_of(groupage().args(arguments));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn watching_ends_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    let (code, errors) = read_a_line_of(&mut stand.command(&["status", "--watch=1"]));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

#[test]
fn a_stack_whose_log_nobody_reads_any_more_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &["--no-steps"]);
    // Every record is logged, to a pipe that is closed at once.
    let mut steps = stand.command(&["steps"]);
    let mut child = steps.env("GROUPAGE_LOG", "trace").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(stand.send("{\"id\":\"a\",\"payload\":{\"label\":\"x\"}}\n"), 0);
    wait_for("the task to be in a batch", || {
        assert!(child.try_wait().unwrap().is_none(), "the steps ended");
        let answer = stand.ask(&["--json", "status", "task", "a"]);
        String::from_utf8_lossy(&answer.stdout).contains("\"batched\"").then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = groupage().args(["completions", "fish"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot write the result") && !said.contains("panicked"), "{said}");
}
