//! What the kinds of downstream share that are called with AWS's SDK: a client that calls once, a time limit, and what
//! a refusal means.

use std::sync::OnceLock;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, NoAnswer};
use tracing::warn;

use crate::fault::is_throttling;

const TOO_MANY_REQUESTS: u16 = 429;
const CONTENT_TOO_LARGE: u16 = 413;

/// Codes that no call of the route does better with until a person mends its route, its permissions or what it calls.
const MISCONFIGURED: [&str; 22] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAddress",
    "InvalidArn",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "NonExistentQueue",
    "NotAuthorized",
    "NotAuthorizedForSourceException",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
    "SignatureDoesNotMatch",
    "StateMachineDeleting",
    "StateMachineDoesNotExist",
    "StateMachineTypeNotSupported",
    "UnrecognizedClientException",
];
/// Codes that say that this call is too large. SQS has the first for a message that is larger than its queue takes.
const OVERSIZED: [&str; 3] = ["InvalidParameterValue", "RequestTooLargeException", "SerializedRequestEntityTooLarge"];
/// Codes that say that this call is refused however often it is made.
const REFUSED: [&str; 6] = [
    "InvalidArgument",
    "InvalidExecutionInput",
    "InvalidMessageContents",
    "InvalidRequestContentException",
    "MalformedDetail",
    "ValidationException",
];
/// Codes of a service that has more to do than it bears, beside those of tables and queues.
const BUSY: [&str; 2] = ["ExecutionLimitExceeded", "ReplicatedWriteConflictException"];

/// A client that is made for the first call that needs it.
#[derive(Debug)]
pub(crate) struct Lazy<C> {
    config: SdkConfig,
    client: OnceLock<C>,
}

impl<C> Lazy<C> {
    /// For this configuration, except that nothing is repeated, since that would be a second call that nobody counts;
    /// and that only the route's timeout ends a call, since a function may take far longer than a table.
    pub(crate) fn new(config: &SdkConfig) -> Self {
        let connect_timeout = config.timeout_config().and_then(TimeoutConfig::connect_timeout);
        let mut timeouts = TimeoutConfig::builder().disable_operation_attempt_timeout().disable_operation_timeout();
        timeouts.set_connect_timeout(connect_timeout);
        let once = config.clone().into_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts.build());
        Self { config: once.build(), client: OnceLock::new() }
    }

    pub(crate) fn get(&self, new: fn(&SdkConfig) -> C) -> &C {
        self.client.get_or_init(|| new(&self.config))
    }
}

/// What a request within its time came to, of which `read` knows what an output means, and `known` what some errors
/// mean beside those of all services.
pub(crate) async fn within<T, E: ProvideErrorMetadata>(
    timeout: Duration,
    request: impl Future<Output = Result<T, SdkError<E>>>,
    read: impl FnOnce(T) -> Result<Answer, NoAnswer>,
    known: impl FnOnce(&E) -> Option<Answer>,
) -> Result<Answer, NoAnswer> {
    match tokio::time::timeout(timeout, request).await {
        Ok(Ok(output)) => read(output),
        Ok(Err(error)) => match error.as_service_error().and_then(known) {
            Some(answer) => Ok(answer),
            None => refused(&error),
        },
        Err(_) => Err(NoAnswer::Timeout),
    }
}

/// It is accepted, and there is nothing more to say.
pub(crate) fn accepted() -> Answer {
    Answer { status: 202, ..Answer::default() }
}

fn refused<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Result<Answer, NoAnswer> {
    match error {
        SdkError::ServiceError(service) => said(service.err().code(), service.raw().status().as_u16()),
        SdkError::TimeoutError(_) => Err(NoAnswer::Timeout),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Err(NoAnswer::Timeout),
        SdkError::DispatchFailure(failure) if failure.is_io() => Err(NoAnswer::Connection),
        // The SDK's enum may grow; it could not tell what it got.
        _ => Err(NoAnswer::Other(Reason::new("invoke_failed"))),
    }
}

/// Decides whether a service says that it has more to do than it bears.
pub(crate) fn is_too_busy(code: &str, status: u16) -> bool {
    is_throttling(code, status) || BUSY.contains(&code) || (is_of_key(code) && code.contains("Throttl"))
}

/// Decides whether no call of the route does better until a person changes something.
pub(crate) fn is_misconfigured(code: &str) -> bool {
    MISCONFIGURED.contains(&code) || is_of_key(code)
}

/// Decides whether a service cannot use the key under which it keeps things. Each spells such codes in its own way.
fn is_of_key(code: &str) -> bool {
    code.get(..3).is_some_and(|first| first.eq_ignore_ascii_case("kms")) || code == "InvalidKMSResourceException"
}

/// What an error's code means. AWS's own codes are tokens, for example `AccessDeniedException`; its messages may quote
/// what was sent.
pub(crate) fn said(code: Option<&str>, status: u16) -> Result<Answer, NoAnswer> {
    // Some come with their service before them.
    let code = code.and_then(|code| code.rsplit(['.', '#']).next()).unwrap_or_default();
    let reason = || Reason::from_downstream(code);
    if is_too_busy(code, status) {
        Ok(Answer { status: TOO_MANY_REQUESTS, ..Answer::default() })
    } else if is_misconfigured(code) {
        warn!(code, "a downstream cannot be called as it is configured");
        Err(NoAnswer::Misconfigured(reason()))
    } else if OVERSIZED.contains(&code) || status == CONTENT_TOO_LARGE {
        Err(NoAnswer::Oversized(reason()))
    } else if REFUSED.contains(&code) {
        Err(NoAnswer::Refused(reason()))
    } else {
        Err(NoAnswer::Other(reason()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_busy_service_a_wrong_route_a_refusal_or_an_outage() {
        let reason = |code: &str| Reason::new(code);
        for code in ["ThrottlingException", "RequestThrottled", "ExecutionLimitExceeded", "TooManyRequestsException"] {
            assert_eq!(said(Some(code), 400).unwrap().status, 429, "{code}");
        }
        for (said_as, code) in [
            ("AccessDeniedException", "AccessDeniedException"),
            ("AWS.SimpleQueueService.NonExistentQueue", "NonExistentQueue"),
            ("com.amazonaws.sqs#QueueDoesNotExist", "QueueDoesNotExist"),
        ] {
            assert_eq!(said(Some(said_as), 400), Err(NoAnswer::Misconfigured(reason(code))));
        }
        assert_eq!(said(Some("InvalidMessageContents"), 400), Err(NoAnswer::Refused(reason("InvalidMessageContents"))));
        assert_eq!(
            said(Some("SerializedRequestEntityTooLarge"), 413).unwrap_err(),
            NoAnswer::Oversized(reason("SerializedRequestEntityTooLarge"))
        );
        assert_eq!(said(Some("ServiceException"), 500), Err(NoAnswer::Other(reason("ServiceException"))));
        assert_eq!(said(None, 500), Err(NoAnswer::Other(reason("unspecified"))));
    }
}
