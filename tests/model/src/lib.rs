//! Every interleaving of the protocol's steps, for small numbers.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod check;
pub mod io;
pub mod kept;
pub mod model;
mod ports;
pub mod process;
pub mod promises;
pub mod recorder;
pub mod rules;
pub mod setting;
pub mod state;
pub mod tables;
pub mod world;
