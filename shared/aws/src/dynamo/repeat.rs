//! Which requests the SDK repeats, where its own rules do not fit.

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};

/// Has the SDK try writes again that met a transaction: DynamoDB refuses a write of an item that is in somebody's
/// transaction just then, with an error of its own that the SDK takes for final. It is over in milliseconds.
#[derive(Debug)]
pub(crate) struct Conflicts;

impl ClassifyRetry for Conflicts {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        if is_answered_by(context, &["TransactionConflictException"]) {
            return RetryAction::transient_error();
        }
        RetryAction::NoActionIndicated
    }

    fn name(&self) -> &'static str {
        "writes that meet a transaction"
    }
}

/// Keeps the SDK from trying throttled requests again. What else fails it repeats: a lost answer says nothing of
/// whether there is room.
#[derive(Debug)]
pub(crate) struct GivesWay;

impl ClassifyRetry for GivesWay {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        const THROTTLED: [&str; 3] =
            ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];
        if is_answered_by(context, &THROTTLED) {
            return RetryAction::RetryForbidden;
        }
        RetryAction::NoActionIndicated
    }

    fn name(&self) -> &'static str {
        "requests that give way when they are throttled"
    }
}

/// Whether DynamoDB answered with one of these errors.
fn is_answered_by(context: &InterceptorContext, errors: &[&str]) -> bool {
    let body = context.response().and_then(|response| response.body().bytes()).map(String::from_utf8_lossy);
    body.is_some_and(|body| errors.iter().any(|error| body.contains(&format!("#{error}"))))
}
