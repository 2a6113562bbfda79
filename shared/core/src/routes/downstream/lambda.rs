//! Lambda functions, whose results are waited for or not.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::kind::{Kind, MAX_MESSAGE_BODY_BYTES, Timeout, default_timeout};
use super::named::{Form, in_arn, is_name};
use crate::routes::answer::ResponseMapping;
use crate::routes::body::MAX_BODY_BYTES;

/// A call of a Lambda function with the default JSON body.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lambda {
    /// Its name or ARN.
    #[serde(deserialize_with = "function")]
    #[schemars(length(min = 1))]
    pub function: String,
    /// Whether the function's result is waited for.
    #[serde(default)]
    pub mode: Mode,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Timeout,
    /// How to read the answer, if it is not in one of Groupage's own forms. Only for `mode: sync`.
    pub response: Option<ResponseMapping>,
}

/// Whether a function's result is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The call lasts until the function returns, and its result says what became of each member.
    #[default]
    Sync,
    /// Lambda keeps the event and calls the function later. Every member succeeds as soon as Lambda has accepted it.
    Async,
}

impl Lambda {
    /// Whether it says how to read an answer for which nobody waits.
    pub fn ignores_response(&self) -> bool {
        self.mode == Mode::Async && self.response.is_some()
    }
}

impl Kind for Lambda {
    fn named(&self) -> (&'static str, &str) {
        let what = match self.mode {
            Mode::Sync => "Lambda function",
            Mode::Async => "Lambda function, not waited for,",
        };
        (what, &self.function)
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms.0
    }

    fn response(&self) -> &ResponseMapping {
        match self.mode {
            Mode::Sync => self.response.as_ref().unwrap_or(&ResponseMapping::OWN),
            // It has none.
            Mode::Async => &ResponseMapping::OWN,
        }
    }

    fn max_body_bytes(&self) -> usize {
        match self.mode {
            Mode::Sync => MAX_BODY_BYTES,
            Mode::Async => MAX_MESSAGE_BODY_BYTES,
        }
    }
}

const FUNCTION: Form = Form {
    what: "Lambda function",
    as_what: "`NAME` or `arn:aws:lambda:REGION:ACCOUNT:function:NAME`, whole or without its beginning, with or without `:ALIAS` or `:VERSION`",
    holds: is_function,
};

fn is_function(text: &str) -> bool {
    let named = match (in_arn(text, "lambda"), text.split_once(":function:")) {
        (Some(resource), _) => resource.strip_prefix("function:"),
        (None, Some((before, named))) => is_place(before).then_some(named),
        (None, None) => Some(text),
    };
    named.is_some_and(|named| match named.split_once(':') {
        Some((name, qualifier)) => is_name(name, 64, "-_") && is_name(qualifier, 128, "$-_"),
        None => is_name(named, 64, "-_"),
    })
}

/// Whether this is an account, with or without its region, as a part of an ARN has them.
fn is_place(text: &str) -> bool {
    let (region, account) = text.split_once(':').unwrap_or(("region", text));
    is_name(region, 64, "-") && account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())
}

fn function<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    FUNCTION.read(deserializer)
}
