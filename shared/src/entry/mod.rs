//! From an SQS event to a step and back to a partial batch response, record by record.
//!
//! A record that fails, or whose handling panics, is reported alone; the others of its event are done. Nothing is
//! parsed for all records at once. The four functions' mains call [`serve`] with one of the step functions here;
//! `groupage local` and the tests call the same functions with the same events.

mod metrics;
mod records;

pub use metrics::{Counts, Metric};
