//! From an SQS event to a step and back to a partial batch response, record by record.
//!
//! A record that fails, or whose handling panics, is reported alone; the others of its event are done. Nothing is
//! parsed for all records at once. The functions' mains call [`serve`] with one of the step functions here;
//! `groupage local` and the tests call the same functions with the same events.

#[cfg(feature = "full")]
mod function;
pub mod mapping;
mod metrics;
mod records;
mod routes;
mod serve;
mod spans;
mod steps;

#[cfg(feature = "full")]
pub use function::{serve, serve_schedule};
pub use metrics::{Counts, Metric, NAMESPACE};
pub use records::{event, keeping};
pub use routes::{NoRoutes, RouteSource};
pub use serve::{AwsStack, connect, init_logging, without_payloads, worker_name};
pub use spans::followed;
pub use steps::{Handled, Stack, SweepFailed, batch_handler, elect_leader, group_batch, register_task, sweep};
