//! SQS queues: a batch becomes one message.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::kind::{Kind, MAX_MESSAGE_BODY_BYTES, Timeout, default_timeout};
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
    #[must_use]
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

fn queue<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let queue = String::deserialize(deserializer)?;
    let is_url = url::Url::parse(&queue).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_url {
        Ok(queue)
    } else {
        let what = "is no URL of an SQS queue: write it as `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`";
        Err(de::Error::custom(format!("`{queue}` {what}")))
    }
}
