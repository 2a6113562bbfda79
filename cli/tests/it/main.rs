//! The command as its users meet it, on stacks in processes of their own.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod failed;
mod feed;
mod kill;
mod messages;
mod people;
mod pipes;
mod send;
mod stand;
mod takeover;
mod times;
mod traces;
