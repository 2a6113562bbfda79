//! Random cases, each in virtual time; of one that fails, proptest looks for the smallest.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::clock::in_virtual_time;
use crate::effort;

/// Tries as many cases as `GROUPAGE_CASES` says, or else `default`: a seed and what `steps` makes. Says how many there were.
///
/// # Panics
/// A case failed, or `GROUPAGE_CASES` is no number.
pub fn run<S: Strategy>(default: u32, steps: S, case: impl AsyncFn(u64, S::Value) -> Result<(), TestCaseError>) -> u32 {
    let cases = effort::number("GROUPAGE_CASES").unwrap_or(default);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&(any::<u64>(), steps), |(seed, steps)| in_virtual_time(case(seed, steps)));
    if let Err(error) = run {
        panic!("{error}");
    }
    cases
}
