//! The ports in memory, for tests, simulation and the benchmark of the protocol itself.
//!
//! One mutex holds everything, so each call is atomic, as DynamoDB's single-item writes are. The index can be made to
//! lag. Work is counted as DynamoDB and SQS would bill it only by the real adapters; here calls are counted.

mod queues;
mod store;

pub use queues::{Delivery, MemoryQueues};
pub use store::MemoryStore;
