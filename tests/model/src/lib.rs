//! Every interleaving of real calls, for small numbers: of the protocol's steps ([`pipeline`]), of batches that pass
//! their gates ([`gates`]), and of the calls about lanes, lists, streams and trackers. Each model is its setting, its
//! tables, its rules and its promises; what they share is in [`harness`].
//!
//! stateright visits every state that can be reached, and looks for one that breaks a promise. Each rule can be
//! removed; then a promise is broken, and the checker tells how. States are compared by a hash of 64 bits, as
//! stateright does it.
//!
//! `cargo test -p groupage-model -- --nocapture` prints how many states there were. `GROUPAGE_TESTS=long` adds the
//! settings that take long, `GROUPAGE_TESTS=largest` those that take hours. `GROUPAGE_SETTING` takes the title of one.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod gates;
pub mod harness;
pub mod lanes;
pub mod lists;
pub mod pipeline;
mod prelude;
mod steps;
pub mod streams;
pub mod trackers;
