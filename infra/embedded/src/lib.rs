//! DynamoDB and SQS in this process, and the event source mappings between queues and steps.
//!
//! This is what `groupage demo`, `groupage local` and the integration tests run on, with nothing to install:
//!
//! - [`dynamo`] serves DynamoDB on a loopback port, in memory or from a folder that survives `kill -9`.
//! - [`sqs`] serves SQS on a loopback port, in memory or with a journal in such a folder, and counts the requests that
//!   AWS would bill.
//! - [`stack`] starts both, creates the tables and queues of `template.yaml`, and says how to reach them.
//! - [`pipeline`] runs the four steps on it, by
//! - [`mapping`], which does between a queue and a step what Lambda does: gather, invoke, delete what succeeded.
//!
//! Every server listens on 127.0.0.1 only, behind a [`guard`]: it is a stand-in for one machine, and for its owner.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod dynamo;
pub mod guard;
pub mod mapping;
pub mod pipeline;
pub mod sqs;
pub mod stack;

mod error;
mod folder;
mod journal;
mod pace;
mod place;
mod server;
mod strangers;

pub use error::Error;
pub use folder::{Durability, write_privately};
pub use pipeline::{Pipeline, Processes};
pub use server::serve;
pub use stack::{Ports, Stack, Storage};
