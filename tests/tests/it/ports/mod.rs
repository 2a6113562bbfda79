//! One conformance suite for every implementation of a port, and what only the real adapters must show.
//!
//! A claim is a function over any store. It runs in memory, in memory with an index that lags, on DynamoDB's own
//! protocol, and there once more with every write made twice, as when an answer was lost and the SDK repeats it.

mod accepted;
mod acknowledgement;
mod batches;
mod busy;
mod carried;
mod census;
mod cost;
mod downstream;
mod erased;
mod expiry;
mod failures;
pub mod fixture;
mod functions;
mod gates;
mod lanes;
mod list_heads;
mod lists;
mod locks;
mod looks;
mod nodes;
mod own_transaction;
mod proofs;
mod queues;
mod race;
mod routes;
pub mod samples;
mod scheduled_tasks;
mod sessions;
mod shelves;
mod streams;
mod task_ends;
mod task_index;
mod tasks;
mod trackers;
mod unfinished;
mod waiting_long;
