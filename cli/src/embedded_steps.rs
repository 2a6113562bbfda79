//! The four steps on an embedded stack.

use std::sync::Arc;

use shared::aws::{Dynamo, Meter, Sqs, System};
use shared::config::{self, DEFAULT_RETENTION_DAYS};
use shared::entry::{self, AwsStack, RouteSource};

/// What the steps work with on `stack`; what they consume goes to `meter`.
///
/// # Errors
/// [`config::Error`] if `GROUPAGE_RETENTION_DAYS` is set and makes no sense.
pub fn on(stack: &embedded::Stack, routes: RouteSource, meter: &Arc<Meter>) -> Result<Arc<AwsStack>, config::Error> {
    Ok(Arc::new(AwsStack {
        store: store(stack, config::retention_ms_from_env()?, meter),
        queues: Sqs::new(stack.sdk_config(), stack.queues().clone(), Arc::clone(meter)),
        env: System,
        routes,
        timing: config::timing_from_env()?,
        worker: entry::worker_name(),
    }))
}

/// The tables of `stack`, for reading beside the steps without counting as theirs.
pub fn unmetered_store(stack: &embedded::Stack) -> Dynamo {
    store(stack, DEFAULT_RETENTION_DAYS * 24 * 60 * 60 * 1000, &Arc::new(Meter::new()))
}

fn store(stack: &embedded::Stack, retention_ms: u64, meter: &Arc<Meter>) -> Dynamo {
    Dynamo::new(stack.sdk_config(), stack.tables().clone(), retention_ms, Arc::clone(meter))
}
