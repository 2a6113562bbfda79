//! Where a route's calls go, as the routes file says it.
//!
//! Everything that the core asks of a kind of downstream is a question of `Kind`, and most have an answer that fits
//! most kinds. A new kind is a file here, a variant of [`Downstream`], and the adapter that calls it.

mod auth;
mod eventbridge;
mod filled;
mod http;
mod job;
mod kind;
mod lambda;
mod looks;
mod named;
mod secret;
mod sqs;
mod step_functions;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::auth::{Auth, ClientCertificate, ClientIn, Oauth2, Sigv4, StandardWebhooks, Tls};
pub use self::eventbridge::EventBridge;
pub(super) use self::filled::unknown;
pub use self::filled::{Address, Filling, Unfillable, header, in_url};
pub use self::http::{Compression, HeaderValue, Http, Method};
pub use self::job::{JobMapping, Progress};
use self::kind::Kind;
pub use self::kind::USUAL_MS;
pub use self::lambda::{Lambda, Mode};
pub use self::secret::{Secret, SecretName};
pub use self::sqs::Sqs;
pub use self::step_functions::StepFunctions;
use super::answer::ResponseMapping;
use super::body::MAX_BODY_BYTES;
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
    pub fn named(&self) -> (&'static str, Option<&str>) {
        self.kind().map_or(("workers that pull", None), |kind| {
            let (what, which) = kind.named();
            (what, Some(which))
        })
    }

    /// How long one call may take, in milliseconds; workers that pull decide for themselves.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.kind().map(Kind::timeout_ms)
    }

    /// Whether one call may take longer than a usual function has time. Only HTTP's connections are kept alive so long.
    pub fn is_long(&self) -> bool {
        self.http().is_some_and(Http::is_long)
    }

    /// How its answers are read.
    pub fn response(&self) -> &ResponseMapping {
        self.kind().map_or(&ResponseMapping::OWN, Kind::response)
    }

    /// Whether its batches wait for workers that pull them.
    pub fn is_pulled(&self) -> bool {
        self.kind().is_none()
    }

    /// The largest body that it takes, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        self.kind().map_or(MAX_BODY_BYTES, Kind::max_body_bytes)
    }

    /// Whether only AWS, or an emulator of it, has it: a laptop's own stack has queues, and reaches HTTP APIs.
    pub fn needs_aws(&self) -> bool {
        self.kind().is_some_and(Kind::needs_aws)
    }

    /// The HTTP API that it is, if it is one. Where that is, and which secrets it gets, is for the stack to allow; of
    /// the others the functions' role says which may be called.
    pub fn http(&self) -> Option<&Http> {
        if let Self::Http(http) = self { Some(http) } else { None }
    }

    pub(super) fn body(&self) -> Option<Template> {
        self.kind()?.body().cloned()
    }

    /// Returns the first secret that it names and does not have: only an HTTP API has some.
    pub(super) fn unknown_secret(&self) -> Option<&str> {
        let in_texts = self.http().and_then(Http::unknown_secret);
        let mut of_body = self.kind()?.body().into_iter().flat_map(Template::secrets);
        in_texts.or_else(|| of_body.find(|name| !self.http().is_some_and(|http| http.has_secret(name))))
    }
}
