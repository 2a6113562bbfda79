//! The HTTP API, over HTTP, on tables and queues in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod calls;
mod desk;
mod document;
mod erased;
mod failed;
mod failures;
mod lists;
mod streams;
mod tasks;
mod trackers;
