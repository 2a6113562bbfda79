//! What is read out of answers and refusals alike.

use std::error::Error as StdError;

use aws_sdk_lambda::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use groupage_core::ports;

use crate::seen::Unread;

/// Why a request came to nothing. A service's error is told by its code and message alone.
pub(super) fn unread<E: ProvideErrorMetadata + StdError + 'static>(error: SdkError<E>) -> Unread {
    Unread(match error.as_service_error() {
        Some(service) => {
            let code = service.code().unwrap_or("unknown error");
            format!("{code}: {}", service.message().unwrap_or("no message"))
        }
        None => DisplayErrorContext(error).to_string(),
    })
}

/// The same of a port's error.
pub(super) fn unheard(error: ports::Error) -> Unread {
    Unread(error.to_string())
}

/// The last part of a URL or an ARN: the name.
pub(super) fn name_in(text: &str) -> String {
    text.rsplit(['/', ':']).next().unwrap_or_default().to_owned()
}

pub(super) fn natural(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or_default()
}
