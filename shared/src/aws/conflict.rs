//! Writes that meet a transaction.
//!
//! DynamoDB refuses a write of an item that is in somebody's transaction just then, with an error of its own that the SDK
//! takes for final. It is over in milliseconds, so the SDK is told to try again.

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};

/// Has the SDK try writes again that met a transaction.
#[derive(Debug)]
pub(super) struct Conflicts;

impl ClassifyRetry for Conflicts {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let body = context.response().and_then(|response| response.body().bytes());
        match body.map(String::from_utf8_lossy) {
            Some(body) if body.contains("#TransactionConflictException") => RetryAction::transient_error(),
            Some(_) | None => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "writes that meet a transaction"
    }
}
