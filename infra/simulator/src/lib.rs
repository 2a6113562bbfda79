//! The real steps in virtual time, on tables, queues and functions that cost and take what they do on AWS.
//!
//! - [`run()`] runs a load to its end and says what it came to ([`Outcome`]).
//! - `store` is DynamoDB: it counts units by the items before and after each write; [`lag`] keeps its indexes behind,
//!   and [`limits`] are what its partitions bear.
//! - [`queues`] is SQS; `mapping` is what Lambda does between a queue and a function, which runs on a `machine`, and
//!   [`lambda`] what it refuses to do.
//! - [`latency`] says how long each hop takes, and on whose word.
//! - [`options`] are runs with one option of a route each, beside one without.
//! - [`clock`] is virtual time: a run of minutes takes a moment, and the same seed gives the same run.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod bill;
pub mod clock;
mod downstream;
mod fair;
mod keys;
pub mod lag;
pub mod lambda;
pub mod latency;
pub mod limits;
pub mod load;
mod machine;
mod mapping;
mod message;
pub mod options;
pub mod queues;
mod report;
pub mod run;
mod store;
pub mod timing;
pub mod world;

pub use downstream::{Accepting, Seen};
pub use keys::Keys;
pub use lambda::{Caps, Lambda, Refused};
pub use report::{GateRequests, Outcome};
pub use run::{UNTIL_THE_HOUR, run, run_steps};
pub use store::Store;
pub use world::{CallLimits, Function, Real, Setting, Steps, Weights};
