//! Calls of Lambda functions: synchronous, with the batch as the event and the function's result as the answer.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::Builder;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::{InvokeError, InvokeOutput};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_smithy_types::base64;
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::trace::{CallTrace, TRACEPARENT};
use groupage_core::ports::{Answer, Call, MAX_ANSWER_BYTES, NoAnswer};
use groupage_core::routes::Lambda;
use tokio::sync::OnceCell;

const TOO_MANY_REQUESTS: u16 = 429;

/// Calls Lambda functions.
#[derive(Debug)]
pub(crate) struct LambdaCaller {
    config: SdkConfig,
    client: OnceCell<Client>,
}

impl LambdaCaller {
    pub(crate) fn new(config: SdkConfig) -> Self {
        Self { config, client: OnceCell::new() }
    }

    /// Makes one call.
    pub(crate) async fn call(&self, lambda: &Lambda, call: &Call<'_>, timeout: Duration) -> Result<Answer, NoAnswer> {
        let client = self.client.get_or_init(async || client(&self.config)).await;
        let invocation = client
            .invoke()
            .function_name(&lambda.function)
            .invocation_type(InvocationType::RequestResponse)
            .payload(Blob::new(call.body.as_bytes()))
            .set_client_context(call.trace.as_ref().map(client_context))
            .send();
        match tokio::time::timeout(timeout, invocation).await {
            Ok(Ok(output)) => read(output),
            Ok(Err(error)) => refused(&error),
            Err(_) => Err(NoAnswer::Timeout),
        }
    }
}

/// What a function finds in its context beside the event: the call's trace, where OpenTelemetry's instrumentations of
/// Lambda look for it. AWS wants it in base64.
fn client_context(trace: &CallTrace) -> String {
    let context = serde_json::json!({ "custom": { TRACEPARENT: trace.context.to_string() } });
    base64::encode(context.to_string())
}

fn client(config: &SdkConfig) -> Client {
    let connect_timeout = config.timeout_config().and_then(TimeoutConfig::connect_timeout);
    let mut timeouts = TimeoutConfig::builder().disable_operation_attempt_timeout().disable_operation_timeout();
    // A function may take far longer than a table: only the route's timeout ends a call.
    timeouts.set_connect_timeout(connect_timeout);
    // A repeat by the SDK would be a second call that nobody counts.
    Client::from_conf(
        Builder::from(config).retry_config(RetryConfig::disabled()).timeout_config(timeouts.build()).build(),
    )
}

fn read(output: InvokeOutput) -> Result<Answer, NoAnswer> {
    if output.function_error.is_some() {
        // What it threw may quote a payload.
        return Err(NoAnswer::Other(Reason::new("function_error")));
    }
    let body = output.payload.map(Blob::into_inner).unwrap_or_default();
    if body.len() > MAX_ANSWER_BYTES {
        return Err(NoAnswer::TooLarge);
    }
    // What a function that returns nothing answers.
    let body = if body == b"null" { Vec::new() } else { body };
    Ok(Answer { status: 200, retry_after_ms: None, body })
}

fn refused(error: &SdkError<InvokeError>) -> Result<Answer, NoAnswer> {
    match error {
        SdkError::ServiceError(service) => match service.err() {
            InvokeError::TooManyRequestsException(throttled) => {
                let seconds = throttled.retry_after_seconds().and_then(|seconds| seconds.parse::<u64>().ok());
                let retry_after_ms = seconds.map(|seconds| seconds.saturating_mul(1000));
                Ok(Answer { status: TOO_MANY_REQUESTS, retry_after_ms, body: Vec::new() })
            }
            // Lambda's own codes are tokens, for example `AccessDeniedException`.
            other => Err(NoAnswer::Other(Reason::from_downstream(other.code().unwrap_or_default()))),
        },
        SdkError::TimeoutError(_) => Err(NoAnswer::Timeout),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Err(NoAnswer::Timeout),
        SdkError::DispatchFailure(failure) if failure.is_io() => Err(NoAnswer::Connection),
        // The SDK's enum may grow; it could not tell what it got.
        _ => Err(NoAnswer::Other(Reason::new("invoke_failed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(payload: &[u8]) -> InvokeOutput {
        InvokeOutput::builder().status_code(200).payload(Blob::new(payload)).build()
    }

    #[test]
    fn a_function_that_returns_nothing_gives_an_empty_answer() {
        let answer = read(output(b"null")).unwrap();
        assert_eq!((answer.status, answer.body), (200, Vec::new()));
        assert_eq!(read(output(b"{}")).unwrap().body, b"{}");
    }

    #[test]
    fn a_function_that_throws_gives_no_answer_and_is_not_quoted() {
        let thrown = InvokeOutput::builder().function_error("Unhandled").payload(Blob::new("secret")).build();
        assert_eq!(read(thrown), Err(NoAnswer::Other(Reason::new("function_error"))));
    }

    #[test]
    fn a_result_over_the_limit_is_too_large() {
        assert_eq!(read(output(&vec![b'x'; MAX_ANSWER_BYTES + 1])), Err(NoAnswer::TooLarge));
    }
}
