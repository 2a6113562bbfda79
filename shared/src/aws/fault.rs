//! From the SDK's errors to the ports': what may succeed later, and what is a bug or a missing permission.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

use crate::ports::Error;

/// Codes that come with a 4xx status although the same request may succeed later.
const PASSING: [&str; 17] = [
    "BandwidthLimitExceeded",
    "ExpiredTokenException",
    "InternalServerError",
    "KmsThrottled",
    "LimitExceededException",
    "OverLimit",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestExpired",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Whether an error with this code and HTTP status may pass by itself.
pub(super) fn passes(code: &str, status: u16) -> bool {
    status >= 500 || status == 429 || PASSING.contains(&code)
}

/// The port's error for a call that failed.
///
/// A service's error is told by its code and message alone: its other parts may quote an item.
pub(super) fn failed<E>(what: &'static str, error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match &error {
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or("unknown");
            let why = format!("{code}: {}", service.err().message().unwrap_or("no message"));
            if passes(code, service.raw().status().as_u16()) {
                Error::Unavailable { what, why }
            } else {
                Error::Broken { what, why }
            }
        }
        SdkError::ConstructionFailure(_) => Error::Broken { what, why: DisplayErrorContext(&error).to_string() },
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            Error::Broken { what, why: DisplayErrorContext(&error).to_string() }
        }
        // The SDK's enum may grow; what it could not tell is worth a repeat.
        _ => Error::Unavailable { what, why: DisplayErrorContext(&error).to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_may_pass_and_a_refused_request_does_not() {
        assert!(passes("ProvisionedThroughputExceededException", 400));
        assert!(passes("RequestThrottled", 403));
        assert!(passes("AnythingAtAll", 503));
        assert!(!passes("ValidationException", 400));
        assert!(!passes("AccessDeniedException", 400));
    }
}
