//! EventBridge buses: a batch becomes one event.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::kind::{Kind, MAX_MESSAGE_BODY_BYTES, Timeout, default_timeout};
use super::named::{Form, in_arn, is_name};
use crate::routes::template::Template;

/// An event on an EventBridge bus. Every member succeeds as soon as the bus has it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventBridge {
    /// The bus: its name or ARN.
    #[serde(deserialize_with = "bus")]
    #[schemars(length(min = 1))]
    pub bus: String,
    /// The event's `source`, by which rules find it.
    #[serde(default = "default_source", deserialize_with = "source")]
    #[schemars(length(min = 1, max = 256))]
    pub source: String,
    /// The event's `detail-type`, by which rules find it.
    #[serde(default = "default_detail_type", deserialize_with = "detail_type")]
    #[schemars(length(min = 1, max = 128))]
    pub detail_type: String,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Timeout,
    /// The event's `detail`, a JSON object, as a Jinja template, as of an HTTP API. Absent: the default JSON.
    body: Option<Template>,
}

impl Kind for EventBridge {
    fn named(&self) -> (&'static str, &str) {
        ("EventBridge bus", &self.bus)
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms.0
    }

    fn body(&self) -> Option<&Template> {
        self.body.as_ref()
    }

    fn max_body_bytes(&self) -> usize {
        MAX_MESSAGE_BODY_BYTES
    }
}

const BUS: Form = Form {
    what: "EventBridge bus",
    as_what: "`NAME` or `arn:aws:events:REGION:ACCOUNT:event-bus/NAME`",
    holds: |text| {
        let named = in_arn(text, "events").map_or(Some(text), |resource| resource.strip_prefix("event-bus/"));
        named.is_some_and(|name| is_name(name, 256, "/.-_"))
    },
};

fn bus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    BUS.read(deserializer)
}

fn default_source() -> String {
    "groupage".to_owned()
}

fn default_detail_type() -> String {
    "groupage.batch.v1".to_owned()
}

fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let source = String::deserialize(deserializer)?;
    if source.starts_with("aws.") {
        return Err(de::Error::custom("`source` begins with `aws.`, which only AWS's own events may"));
    }
    within(source, "source", 256)
}

fn detail_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    within(String::deserialize(deserializer)?, "detail_type", 128)
}

fn within<E: de::Error>(text: String, field: &str, most: usize) -> Result<String, E> {
    if (1..=most).contains(&text.len()) {
        Ok(text)
    } else {
        Err(E::custom(format!("`{field}` must have from 1 to {most} bytes, not {}", text.len())))
    }
}
