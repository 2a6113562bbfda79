//! HTTP APIs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::auth::{Auth, Tls};
use super::filled::{Address, placeholders};
use super::job::JobMapping;
use super::kind::{Kind, LongTimeout, USUAL_MS, default_long_timeout};
use super::secret::{Secret, SecretName};
use crate::routes::answer::ResponseMapping;
use crate::routes::template::Template;

/// A call over HTTP. Redirects are not followed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// An absolute `http` or `https` URL. In its path and query, `{target}` stands for what the batch's tasks are
    /// grouped by, `{batch}` for the batch's id, and `{secrets.NAME}` for one of `secrets`.
    pub url: Address,
    /// The HTTP method.
    #[serde(default)]
    pub method: Method,
    /// Headers beside `Content-Type: application/json`, which may be overridden, and Groupage's own. `{target}`,
    /// `{batch}` and `{secrets.NAME}` stand for the same as in `url`.
    #[serde(default, deserialize_with = "headers")]
    pub headers: BTreeMap<String, HeaderValue>,
    /// Secrets by the names that `url`, `headers` and `body` give them.
    #[serde(default)]
    pub secrets: BTreeMap<SecretName, Secret>,
    /// The proof of who makes the call. Absent: whatever its headers hold.
    pub auth: Option<Box<Auth>>,
    /// The certificates of its connections. Absent: the machine's own authorities, and no client certificate.
    pub tls: Option<Box<Tls>>,
    /// How long one call may take, in milliseconds. Over 30,000 the call is long: a function of its own makes it, which
    /// the stack's parameter `LongCalls` switches on.
    #[serde(default = "default_long_timeout")]
    timeout_ms: LongTimeout,
    /// The body as a Jinja template over `batch`, `target` and `items` (each with `id` and `payload`), in which
    /// `{{ secrets.NAME }}` writes one of `secrets`. Absent: an object of these three as JSON.
    body: Option<Template>,
    /// How the body is compressed. Absent: it is not.
    pub compress: Option<Compression>,
    /// How to read the answer, if it is not in one of Groupage's own forms.
    #[serde(default)]
    pub response: ResponseMapping,
    /// How the API accepts a batch and finishes it later. Absent: its answer is the outcome.
    pub job: Option<Box<JobMapping>>,
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
    Delete,
}

impl Method {
    /// Returns the method as a request says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// How a body is compressed; its name is that of `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// By gzip, which most servers read.
    Gzip,
    /// By Zstandard, which takes less time for fewer bytes.
    Zstd,
}

impl Compression {
    /// As `Content-Encoding` says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// A header's value: text, or a secret that is read when the call is made.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected text, or `{ secret: { env: NAME } }`, or `{ secret: { secrets_manager: NAME } }`"
)]
pub enum HeaderValue {
    /// As written, with `{target}` and `{batch}` filled in.
    Text(String),
    /// Read from a safe place.
    Secret {
        /// Where from.
        secret: Secret,
    },
}

impl HeaderValue {
    /// The secret that it is, if it is one.
    pub const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Text(_) => None,
            Self::Secret { secret } => Some(secret),
        }
    }
}

impl Http {
    /// Whether a call may take longer than a usual function has time.
    pub(in crate::routes) fn is_long(&self) -> bool {
        self.timeout_ms.0 > USUAL_MS
    }

    /// Lists the secrets that a call needs, each with its field.
    pub fn secrets(&self) -> impl Iterator<Item = (String, &Secret)> {
        let headers =
            self.headers.iter().filter_map(|(name, value)| Some((format!("headers.{name}"), value.secret()?)));
        let named = self.secrets.iter().map(|(name, secret)| (format!("secrets.{}", name.as_str()), secret));
        let proofs = self
            .auth
            .as_deref()
            .and_then(Auth::secret)
            .into_iter()
            .chain(self.tls.iter().flat_map(|tls| tls.secrets()));
        headers.chain(named).chain(proofs.map(|(field, secret)| (field.to_owned(), secret)))
    }

    /// Returns the first `{secrets.NAME}` of its URL and headers that `secrets` does not have.
    pub(in crate::routes) fn unknown_secret(&self) -> Option<&str> {
        let texts = self.headers.values().filter_map(|value| match value {
            HeaderValue::Text(text) => Some(text.as_str()),
            HeaderValue::Secret { .. } => None,
        });
        let mut named = texts.chain([self.url.as_str()]).flat_map(placeholders);
        named.find_map(|name| {
            let name = name.strip_prefix("secrets.")?;
            (!self.has_secret(name)).then_some(name)
        })
    }

    /// Whether `secrets` has this name.
    pub(super) fn has_secret(&self, name: &str) -> bool {
        self.secrets.keys().any(|known| known.as_str() == name)
    }

    /// A header of it that is between two machines and not between a client and its server, if it has one.
    pub(in crate::routes) fn hop_by_hop(&self) -> Option<&str> {
        let is_one = |name: &&String| HOP_BY_HOP.contains(&name.to_ascii_lowercase().as_str());
        self.headers.keys().find(is_one).map(String::as_str)
    }
}

impl Kind for Http {
    fn named(&self) -> (&'static str, &str) {
        ("HTTP", self.url.as_str())
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms.0
    }

    fn response(&self) -> &ResponseMapping {
        &self.response
    }

    fn body(&self) -> Option<&Template> {
        self.body.as_ref()
    }

    fn needs_aws(&self) -> bool {
        matches!(self.auth.as_deref(), Some(Auth::Sigv4(_)))
    }
}

/// Headers that Groupage sets itself: what they say must be true.
const RESERVED: [&str; 5] = ["idempotency-key", "groupage-fence", "groupage-attempt", "content-length", "host"];

/// Headers that are for the next machine only (RFC 9110, section 7.6.1), where they change how a request is framed.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

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
