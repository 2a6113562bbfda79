//! Where a route's calls go, as the routes file says it.
//!
//! Everything that the core asks of a kind of downstream is asked here: a new kind is a variant, and the compiler leads
//! through this file and to the adapter that calls it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::answer::ResponseMapping;
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
    /// Nowhere: batches wait until a worker (`groupage work`) claims them.
    Pull,
}

/// A call over HTTP. Redirects are not followed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// An absolute `http` or `https` URL, the same for every call.
    #[serde(deserialize_with = "url")]
    pub url: String,
    /// The HTTP method.
    #[serde(default)]
    pub method: Method,
    /// Headers beside `Content-Type: application/json`, which may be overridden, and Groupage's own.
    #[serde(default, deserialize_with = "headers")]
    pub headers: BTreeMap<String, HeaderValue>,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Limited<1, 30_000>,
    /// The body as a Jinja template over `batch`, `target` and `items` (each with `id` and `payload`).
    /// Absent: that same object as JSON.
    body: Option<Template>,
    /// How to read the answer, if it is not in one of Groupage's own forms.
    #[serde(default)]
    pub response: ResponseMapping,
}

/// A call of a Lambda function with the default JSON body.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lambda {
    /// Its name or ARN.
    #[schemars(length(min = 1))]
    pub function: String,
    /// How long one call may take, in milliseconds.
    #[serde(default = "default_timeout")]
    timeout_ms: Limited<1, 30_000>,
    /// How to read the answer, if it is not in one of Groupage's own forms.
    #[serde(default)]
    pub response: ResponseMapping,
}

/// An HTTP method that carries a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "HTTP's own names")]
pub enum Method {
    #[default]
    Post,
    Put,
    Patch,
}

/// A header's value: text, or a secret that is read when the call is made.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected text, or `{ secret: { env: NAME } }`, or `{ secret: { secrets_manager: NAME } }`"
)]
pub enum HeaderValue {
    /// As written.
    Text(String),
    /// Read from a safe place.
    Secret {
        /// Where from.
        secret: Secret,
    },
}

impl HeaderValue {
    /// The secret that it is, if it is one.
    #[must_use]
    pub const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Text(_) => None,
            Self::Secret { secret } => Some(secret),
        }
    }
}

/// Where a secret is kept. Its value never reaches a log, an error or a notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Secret {
    /// In this environment variable of the batch-handler.
    Env(String),
    /// In AWS Secrets Manager: the secret's name or ARN. The function's role must be allowed to read it.
    SecretsManager(String),
}

impl Downstream {
    /// How long one call may take, in milliseconds; workers that pull decide for themselves.
    pub const fn timeout_ms(&self) -> Option<u64> {
        match self {
            Self::Http(http) => Some(http.timeout_ms.0),
            Self::Lambda(lambda) => Some(lambda.timeout_ms.0),
            Self::Pull => None,
        }
    }

    /// How its answers are read.
    pub const fn response(&self) -> &ResponseMapping {
        match self {
            Self::Http(http) => &http.response,
            Self::Lambda(lambda) => &lambda.response,
            Self::Pull => &ResponseMapping::OWN,
        }
    }

    /// Whether its batches wait for workers that pull them.
    pub const fn is_pulled(&self) -> bool {
        match self {
            Self::Pull => true,
            Self::Http(_) | Self::Lambda(_) => false,
        }
    }

    pub(super) fn body(&self) -> Option<Template> {
        match self {
            Self::Http(http) => http.body.clone(),
            Self::Lambda(_) | Self::Pull => None,
        }
    }
}

const fn default_timeout() -> Limited<1, 30_000> {
    Limited(10_000)
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let url = String::deserialize(deserializer)?;
    let parsed = url::Url::parse(&url).map_err(|error| de::Error::custom(format!("`{url}` is no URL: {error}")))?;
    if is_http(&url) && parsed.has_host() {
        Ok(url)
    } else {
        Err(de::Error::custom(format!("`{url}` must begin with http:// or https://")))
    }
}

fn is_http(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Headers that Groupage sets itself: what they say must be true.
const RESERVED: [&str; 5] = ["idempotency-key", "groupage-fence", "groupage-attempt", "content-length", "host"];

fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, HeaderValue>, D::Error> {
    let headers = BTreeMap::<String, HeaderValue>::deserialize(deserializer)?;
    for (name, value) in &headers {
        if http::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(de::Error::custom(format!("`{name}` is no header name")));
        }
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(de::Error::custom(format!("the header `{name}` is set by Groupage itself")));
        }
        if let HeaderValue::Text(text) = value
            && http::header::HeaderValue::from_str(text).is_err()
        {
            return Err(de::Error::custom(format!("the value of header `{name}` holds a forbidden character")));
        }
    }
    Ok(headers)
}
