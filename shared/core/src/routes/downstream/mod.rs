//! Where a route's calls go, as the routes file says it.
//!
//! Everything that the core asks of a kind of downstream is a question of [`Kind`], and most have an answer that fits
//! most kinds. A new kind is a file here, a variant of [`Downstream`], and the adapter that calls it.

mod eventbridge;
mod filled;
mod http;
mod lambda;
mod sqs;
mod step_functions;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::eventbridge::EventBridge;
pub(super) use self::filled::unknown;
pub use self::filled::{Address, Filling, Unfillable, header};
pub use self::http::{Compression, HeaderValue, Http, Method, Secret};
pub use self::lambda::{Lambda, Mode};
pub use self::sqs::Sqs;
pub use self::step_functions::StepFunctions;
use super::answer::ResponseMapping;
use super::body::MAX_BODY_BYTES;
use super::limited::Limited;
use super::template::Template;

/// Where a call goes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Downstream {
    /// An HTTP API.
    Http(Http),
    /// A Lambda function.
    Lambda(Lambda),
    /// An SQS queue: each batch is one message.
    Sqs(Sqs),
    /// An EventBridge bus: each batch is one event.
    #[serde(rename = "eventbridge")]
    EventBridge(EventBridge),
    /// A state machine of Step Functions: each batch is one execution.
    StepFunctions(StepFunctions),
    /// Nowhere: batches wait until a worker (`groupage work`) claims them.
    Pull,
}

/// What the core asks of a kind of downstream that is called.
trait Kind {
    /// What it is, and which one.
    fn named(&self) -> (&'static str, &str);

    /// How long one call may take, in milliseconds.
    fn timeout_ms(&self) -> u64;

    /// How its answers are read.
    fn response(&self) -> &ResponseMapping {
        &ResponseMapping::OWN
    }

    /// The body, if it is not the default JSON.
    fn body(&self) -> Option<&Template> {
        None
    }

    /// The largest body that it takes, in bytes.
    fn max_body_bytes(&self) -> usize {
        MAX_BODY_BYTES
    }

    /// Whether only AWS, or an emulator of it, has it: a laptop's own stack has queues, and reaches HTTP APIs.
    fn needs_aws(&self) -> bool {
        true
    }

    /// Itself, if it is reached over HTTP: where it is, and which secrets it gets, is for the stack to allow. Of the
    /// others the functions' role says which may be called.
    fn http(&self) -> Option<&Http> {
        None
    }
}

/// The largest body of a message, an event or an event for a function that is not waited for, in bytes. AWS takes
/// 1 MiB, with the attributes and names beside the body.
pub const MAX_MESSAGE_BODY_BYTES: usize = 1_000_000;

impl Downstream {
    /// What it is as a kind; `None` if its batches wait for workers that pull them.
    fn kind(&self) -> Option<&dyn Kind> {
        match self {
            Self::Http(http) => Some(http),
            Self::Lambda(lambda) => Some(lambda),
            Self::Sqs(sqs) => Some(sqs),
            Self::EventBridge(bus) => Some(bus),
            Self::StepFunctions(machine) => Some(machine),
            Self::Pull => None,
        }
    }

    /// What it is, and which one, for people.
    #[must_use]
    pub fn named(&self) -> (&'static str, Option<&str>) {
        self.kind().map_or(("workers that pull", None), |kind| {
            let (what, which) = kind.named();
            (what, Some(which))
        })
    }

    /// How long one call may take, in milliseconds; workers that pull decide for themselves.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        self.kind().map(Kind::timeout_ms)
    }

    /// How its answers are read.
    pub fn response(&self) -> &ResponseMapping {
        self.kind().map_or(&ResponseMapping::OWN, Kind::response)
    }

    /// Whether its batches wait for workers that pull them.
    #[must_use]
    pub fn is_pulled(&self) -> bool {
        self.kind().is_none()
    }

    /// The largest body that it takes, in bytes.
    #[must_use]
    pub fn max_body_bytes(&self) -> usize {
        self.kind().map_or(MAX_BODY_BYTES, Kind::max_body_bytes)
    }

    /// Whether only AWS, or an emulator of it, has it: a laptop's own stack has queues, and reaches HTTP APIs.
    #[must_use]
    pub fn needs_aws(&self) -> bool {
        self.kind().is_some_and(Kind::needs_aws)
    }

    /// The HTTP API that it is, if it is one.
    #[must_use]
    pub fn http(&self) -> Option<&Http> {
        self.kind()?.http()
    }

    pub(super) fn body(&self) -> Option<Template> {
        self.kind()?.body().cloned()
    }
}

/// How long one call may take, in milliseconds.
type Timeout = Limited<1, 30_000>;

const fn default_timeout() -> Timeout {
    Limited(10_000)
}
