//! From the SDK's errors to the ports': what may succeed later, and what is a bug or a missing permission.

use std::error::Error as StdError;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::error::{
    ProvisionedThroughputExceededException, RequestLimitExceeded, ThrottlingException,
};
use groupage_core::ports::Error;

/// Codes of a service that has more to do than it bears. Most come with a 4xx status.
const THROTTLING: [&str; 13] = [
    "BandwidthLimitExceeded",
    "KmsThrottled",
    "LimitExceededException",
    "OverLimit",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];
/// Other codes that come with a 4xx status although the same request may succeed later.
const PASSING: [&str; 6] = [
    "ExpiredTokenException",
    "InternalServerError",
    "PriorRequestNotComplete",
    "RequestExpired",
    "TransactionConflictException",
    "TransactionInProgressException",
];

/// Whether the service was asked more than it bears.
pub(crate) fn is_throttling(code: &str, status: u16) -> bool {
    status == 429 || THROTTLING.contains(&code)
}

/// Whether an error with this code and HTTP status may pass by itself.
pub(crate) fn passes(code: &str, status: u16) -> bool {
    status >= 500 || is_throttling(code, status) || PASSING.contains(&code)
}

/// The port's error for a call that failed.
///
/// A service's error is told by its code and message alone: its other parts may quote an item.
pub(crate) fn failed<E>(what: &'static str, error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    match &error {
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or("unknown");
            let why = format!("{code}: {}", service.err().message().unwrap_or("no message"));
            let why = reasons(service.err().source()).map_or(why.clone(), |reasons| format!("{why} ({reasons})"));
            match service.raw().status().as_u16() {
                status if is_throttling(code, status) => Error::Throttled { what, why },
                status if passes(code, status) => Error::Unavailable { what, why },
                _ => Error::Broken { what, why },
            }
        }
        SdkError::ConstructionFailure(_) => Error::Broken { what, why: chain(&error) },
        SdkError::DispatchFailure(failure) if failure.is_user() => Error::Broken { what, why: chain(&error) },
        // The SDK's enum may grow; what it could not tell is worth a repeat.
        _ => Error::Unavailable { what, why: chain(&error) },
    }
}

/// Why DynamoDB throttles, as far as it says: `IndexWriteKeyRangeThroughputExceeded` is one hot key of an index.
fn reasons(refusal: Option<&(dyn StdError + 'static)>) -> Option<String> {
    let refusal = refusal?;
    let throughput = refusal.downcast_ref().map(ProvisionedThroughputExceededException::throttling_reasons);
    let throttling = || refusal.downcast_ref().map(ThrottlingException::throttling_reasons);
    let limit = || refusal.downcast_ref().map(RequestLimitExceeded::throttling_reasons);
    let reasons = throughput.or_else(throttling).or_else(limit)?;
    let told = reasons.iter().map(|of| {
        // The table, and the index behind it.
        let resource = of.resource().and_then(|arn| arn.rsplit(':').next()).unwrap_or("?");
        format!("{} of {resource}", of.reason().unwrap_or("?"))
    });
    Some(told.collect::<Vec<_>>().join(", ")).filter(|told| !told.is_empty())
}

/// An error and its causes on one line, each once: some errors repeat their cause in their own words.
pub fn chain(error: &dyn StdError) -> String {
    let mut told = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ConnectorError;
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use aws_sdk_dynamodb::types::ThrottlingReason;

    use super::*;

    #[test]
    fn a_call_that_found_nobody_may_be_made_again_and_says_why_on_one_line() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "nobody listens");
        let error = SdkError::<PutItemError>::dispatch_failure(ConnectorError::io(refused.into()));
        let error = failed("write", error);
        assert!(matches!(error, Error::Unavailable { .. }));
        assert_eq!(error.to_string(), "write: dispatch failure: io error: nobody listens");
    }

    #[test]
    fn a_throttled_write_says_which_part_of_which_index_is_hot() {
        let arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/groupage-task/index/waiting";
        let reason = ThrottlingReason::builder().reason("IndexWriteKeyRangeThroughputExceeded").resource(arn).build();
        let hot = ProvisionedThroughputExceededException::builder().throttling_reasons(reason).build();
        let told = reasons(PutItemError::ProvisionedThroughputExceededException(hot).source());
        let expected = "IndexWriteKeyRangeThroughputExceeded of table/groupage-task/index/waiting";
        assert_eq!(told.as_deref(), Some(expected));
        let silent = ProvisionedThroughputExceededException::builder().build();
        assert_eq!(reasons(PutItemError::ProvisionedThroughputExceededException(silent).source()), None);
        let other = std::io::Error::other("no throttling");
        assert_eq!(reasons(Some(&other)), None);
    }

    #[test]
    fn a_cause_that_its_error_repeats_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("no such queue: {0}")]
        struct NoQueue(#[source] std::io::Error);
        let error = NoQueue(std::io::Error::other("groupage-task"));
        assert_eq!(chain(&error), "no such queue: groupage-task");
    }

    #[test]
    fn throttling_may_pass_and_a_refused_request_does_not() {
        assert!(passes("ProvisionedThroughputExceededException", 400));
        assert!(passes("RequestThrottled", 403));
        assert!(passes("TransactionConflictException", 400));
        assert!(passes("AnythingAtAll", 503));
        assert!(!passes("ValidationException", 400));
        assert!(!passes("AccessDeniedException", 400));
    }
}
