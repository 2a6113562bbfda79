//! State machines of Step Functions: a batch becomes one execution.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::kind::{Kind, Timeout, default_timeout};
use crate::routes::template::Template;

/// An execution of a state machine, named by the batch. Every member succeeds as soon as it has begun.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepFunctions {
    /// The state machine's ARN, or that of a version or an alias.
    #[serde(deserialize_with = "state_machine")]
    #[schemars(regex(pattern = "^arn:[^:]+:states:[^:]+:[^:]+:stateMachine:.+"))]
    pub state_machine: String,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Timeout,
    /// The execution's input, which is JSON, as a Jinja template, as of an HTTP API. Absent: the default JSON.
    body: Option<Template>,
}

/// The largest input of an execution, in bytes.
pub const MAX_INPUT_BYTES: usize = 256 * 1024;

impl Kind for StepFunctions {
    fn named(&self) -> (&'static str, &str) {
        ("state machine", &self.state_machine)
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms.0
    }

    fn body(&self) -> Option<&Template> {
        self.body.as_ref()
    }

    fn max_body_bytes(&self) -> usize {
        MAX_INPUT_BYTES
    }
}

fn state_machine<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let arn = String::deserialize(deserializer)?;
    let parts: Vec<&str> = arn.splitn(7, ':').collect();
    match parts[..] {
        ["arn", _, "states", _, _, "stateMachine", name] if !name.is_empty() => Ok(arn),
        _ => {
            let what = "is no ARN of a state machine: write it as `arn:aws:states:REGION:ACCOUNT:stateMachine:NAME`";
            Err(de::Error::custom(format!("`{arn}` {what}")))
        }
    }
}
