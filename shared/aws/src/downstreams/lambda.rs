//! Calls of Lambda functions, with the batch as the event: synchronous ones with the function's result as the answer,
//! and asynchronous ones, which Lambda accepts or not.

use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::operation::invoke::{InvokeError, InvokeOutput};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_smithy_types::base64;
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::trace::{CallTrace, TRACEPARENT};
use groupage_core::ports::{Answer, Call, MAX_ANSWER_BYTES, NoAnswer};
use groupage_core::routes::downstream::{Lambda, Mode};

use super::sdk::{Lazy, within};

const TOO_MANY_REQUESTS: u16 = 429;

/// Makes one call.
pub(crate) async fn call(
    client: &Lazy<Client>,
    lambda: &Lambda,
    call: &Call<'_>,
    timeout: Duration,
) -> Result<Answer, NoAnswer> {
    let kind = match lambda.mode {
        Mode::Sync => InvocationType::RequestResponse,
        Mode::Async => InvocationType::Event,
    };
    let invocation = client
        .get(Client::new)
        .invoke()
        .function_name(&lambda.function)
        .invocation_type(kind)
        .payload(Blob::new(call.body.as_bytes()))
        .set_client_context(call.trace.as_ref().map(client_context));
    within(timeout, invocation.send(), read, throttled).await
}

/// What a function finds in its context beside the event: the call's trace, where OpenTelemetry's instrumentations of
/// Lambda look for it. AWS wants it in base64.
fn client_context(trace: &CallTrace) -> String {
    let context = serde_json::json!({ "custom": { TRACEPARENT: trace.context.to_string() } });
    base64::encode(context.to_string())
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
    Ok(Answer { status: 200, body, ..Answer::default() })
}

/// Only Lambda says when.
fn throttled(error: &InvokeError) -> Option<Answer> {
    let InvokeError::TooManyRequestsException(throttled) = error else { return None };
    let seconds = throttled.retry_after_seconds().and_then(|seconds| seconds.parse::<u64>().ok());
    let retry_after_ms = seconds.map(|seconds| seconds.saturating_mul(1000));
    Some(Answer { status: TOO_MANY_REQUESTS, retry_after_ms, ..Answer::default() })
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
