//! What each step takes of its thread's stack, over the real adapters and the embedded stack.
//!
//! An overflow ends the process, so the steps run in a process of their own, each on a fresh thread with half of the
//! stack that the product gives it. The deepest page that the thread has touched is what the step took.
//! `docs/design/stack.md` has the figures; the test fails if a step takes a third more than there.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod steps;

use std::collections::BTreeMap;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/design/stack.md");
/// The figures of the page in KiB, by step: those of an unoptimised build.
fn written() -> BTreeMap<&'static str, usize> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Some((cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?, cells.get(2)?.parse().ok()?))
    };
    PAGE.lines().filter_map(row).collect()
}

#[test]
fn every_step_gets_by_with_half_of_its_stack_and_takes_no_third_more_than_the_page_says() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    // Threads that end leave no stack behind for the next, and no page of two megabytes hides what was touched.
    alone.env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0:glibc.pthread.stack_hugetlb=0");
    let alone = alone.args(["--exact", "steps_alone", "--ignored", "--nocapture"]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&alone.stdout), String::from_utf8_lossy(&alone.stderr));
    let begun = said.lines().filter_map(|line| line.strip_prefix("begins ")).next_back();
    assert!(alone.status.success(), "{} in the step `{}`:\n{errors}", alone.status, begun.unwrap_or_default());

    let mut taken = BTreeMap::<&str, usize>::new();
    for (step, kib) in said.lines().filter_map(|line| line.strip_prefix("took ")?.rsplit_once(' ')) {
        let most = taken.entry(step).or_default();
        *most = kib.parse::<usize>().unwrap().max(*most);
    }
    taken.iter().for_each(|(step, kib)| println!("| `{step}` | {kib} |"));
    if !cfg!(debug_assertions) {
        return;
    }
    let written = written();
    assert!(taken.keys().eq(written.keys()), "the page has the steps {:?}", written.keys());
    for (step, kib) in &taken {
        let most = written[step] * 4 / 3;
        assert!(*kib <= most, "`{step}` takes {kib} KiB of stack, over a third more than the page's {}", written[step]);
    }
}

#[test]
#[ignore = "the other test starts it, in a process of its own"]
fn steps_alone() {
    // What is around the steps has room.
    std::thread::Builder::new().stack_size(64 << 20).spawn(steps::run).unwrap().join().unwrap();
}
