//! How much the tests try, by the environment.
//!
//! `GROUPAGE_TESTS=long` makes every long suite try all that it can. Without it each tries a part that is over in
//! minutes. Variables of a suite's own (`GROUPAGE_SEEDS`, `GROUPAGE_CASES`, …) say a number themselves.

use std::fmt::Debug;
use std::str::FromStr;

/// Whether this run is a long one.
///
/// # Panics
/// `GROUPAGE_TESTS` is neither `quick` nor `long`.
pub fn is_long() -> bool {
    match std::env::var("GROUPAGE_TESTS").as_deref() {
        Ok("long") => true,
        Err(_) | Ok("quick") => false,
        Ok(other) => panic!("GROUPAGE_TESTS is quick or long, not {other}"),
    }
}

/// `long` in a long run, or else `quick`.
pub fn either<T>(quick: T, long: T) -> T {
    if is_long() { long } else { quick }
}

/// What the variable of this name says, if it is set.
///
/// # Panics
/// It says something else than a number.
pub fn number<N: FromStr<Err: Debug>>(name: &str) -> Option<N> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value}")))
}
