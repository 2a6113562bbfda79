//! SQS queues: a batch becomes one message.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::kind::{Kind, MAX_MESSAGE_BODY_BYTES, Timeout, default_timeout};
use super::named::{Form, is_name};
use crate::routes::template::Template;

/// A message to an SQS queue. Every member succeeds as soon as the queue has it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sqs {
    /// The queue's URL. In a FIFO queue each Target is a message group, and the batch's id is the deduplication id.
    #[serde(deserialize_with = "queue")]
    #[schemars(regex(pattern = "^https?://.+"))]
    pub queue: String,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Timeout,
    /// The message's body as a Jinja template, as of an HTTP API. Absent: the default JSON.
    body: Option<Template>,
}

impl Sqs {
    /// Whether the queue keeps the order of its messages, and drops repeats.
    pub fn is_fifo(&self) -> bool {
        self.queue.ends_with(".fifo")
    }
}

impl Kind for Sqs {
    fn named(&self) -> (&'static str, &str) {
        ("SQS queue", &self.queue)
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms.0
    }

    fn body(&self) -> Option<&Template> {
        self.body.as_ref()
    }

    fn needs_aws(&self) -> bool {
        false
    }

    fn max_body_bytes(&self) -> usize {
        MAX_MESSAGE_BODY_BYTES
    }
}

const QUEUE: Form = Form {
    what: "URL of an SQS queue",
    as_what: "`https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`",
    holds: |text| {
        url::Url::parse(text).is_ok_and(|url| {
            let name = url.path_segments().and_then(|mut path| path.next_back()).unwrap_or_default();
            let is_bare = url.query().is_none() && url.fragment().is_none();
            let is_name = name.len() <= 80 && is_name(name.strip_suffix(".fifo").unwrap_or(name), 80, "-_");
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare && is_name
        })
    },
};

fn queue<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    QUEUE.read(deserializer)
}
