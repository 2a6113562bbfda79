//! Every test that is over in seconds, in one program: a module for each subject.
//!
//! `cargo test -p groupage-tests --test it ports` runs those of one. What runs for minutes is a program of its own
//! beside this one: the crash `matrix`, the `simulation`, and bursts, which the clock drives and nothing else should
//! slow down.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

mod already_done;
mod bodies;
mod bursts;
mod bytes;
mod cancelled;
mod closing;
mod contracts;
mod copies;
mod counted;
mod edges;
mod elections;
mod expires;
mod express;
mod failed;
mod held;
mod jobs;
mod late;
mod leader;
mod lists;
mod long_calls;
mod named;
mod order;
mod outages;
mod overload;
mod ports;
mod priority;
mod protocol;
mod restored;
mod scheduled;
mod senders;
mod shards;

mod streams;
mod sweep;
mod targets;
mod traces;
mod trackers;
mod traits;
mod versions;
mod windows;
