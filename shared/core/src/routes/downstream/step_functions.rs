//! State machines of Step Functions: a batch becomes one execution.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::kind::{Kind, Timeout, default_timeout};
use super::named::{Form, in_arn, is_name};
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

const STATE_MACHINE: Form = Form {
    what: "ARN of a state machine",
    as_what: "`arn:aws:states:REGION:ACCOUNT:stateMachine:NAME`, with `:ALIAS` or `:VERSION` behind it or not",
    holds: |text| {
        let named = in_arn(text, "states").and_then(|resource| resource.strip_prefix("stateMachine:"));
        named.is_some_and(|named| match named.split_once(':') {
            Some((name, qualifier)) => is_machine(name) && is_name(qualifier, 80, "-_."),
            None => is_machine(named),
        })
    },
};
/// Brackets, wildcards and what AWS calls special: a state machine's name has none of them.
const SPECIAL: &str = "<>{}[]?*\"#%\\^|~`$&,;:/";

/// Whether a state machine could have this name. It may be of any script.
fn is_machine(name: &str) -> bool {
    let is_refused = |c: char| c.is_whitespace() || c.is_control() || SPECIAL.contains(c);
    (1..=80).contains(&name.chars().count()) && !name.chars().any(is_refused)
}

fn state_machine<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    STATE_MACHINE.read(deserializer)
}
