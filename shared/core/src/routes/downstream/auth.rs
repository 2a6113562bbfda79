//! Proofs of who makes a call over HTTP: a signature, a token, or a certificate.
//!
//! The routes file names where each key is kept, never the key. The stack decides to which hosts each may go, see
//! `Allowed`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use url::Url;

use super::named::{Form, in_arn, is_name};
use super::secret::Secret;

/// A proof that goes with each call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// AWS Signature Version 4, with the credentials of the process that calls.
    Sigv4(Sigv4),
    /// A bearer token by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4).
    Oauth2(Oauth2),
    /// The headers of Standard Webhooks: `webhook-id` (the batch), `webhook-timestamp` and `webhook-signature`, an
    /// HMAC-SHA256 over both and the body.
    StandardWebhooks(StandardWebhooks),
}

/// The scope of AWS signatures, and their role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sigv4 {
    /// The service as signatures name it: `kinesis`, `es`, `execute-api`.
    #[serde(deserialize_with = "service")]
    #[schemars(length(min = 1, max = 64))]
    pub service: String,
    /// The region. Absent: that of the process that calls.
    #[serde(default, deserialize_with = "region")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// The ARN of a role to assume. Absent: the process's own credentials.
    #[serde(default, deserialize_with = "role")]
    pub role: Option<String>,
}

/// A client of an OAuth 2.0 authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oauth2 {
    /// The token endpoint, an `https` URL.
    #[serde(deserialize_with = "token_url")]
    #[schemars(with = "String")]
    pub token_url: Url,
    /// The client's id.
    #[serde(deserialize_with = "client_id")]
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// Scopes, with spaces between them.
    pub scope: Option<String>,
    /// The API that the token is for, where the server wants it said.
    pub audience: Option<String>,
    /// The place where the token endpoint reads the client's id and secret.
    #[serde(default)]
    pub send_client_in: ClientIn,
}

/// The place where a token endpoint reads the client's id and secret (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientIn {
    /// The header `Authorization`, as HTTP Basic has it.
    #[default]
    Header,
    /// The form.
    Body,
}

/// The key of Standard Webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandardWebhooks {
    /// The signing secret: `whsec_` and the key in Base64.
    pub secret: Secret,
}

/// The certificates of connections over `https`, each as PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificates of authorities that are trusted in place of the machine's own.
    pub ca: Option<Secret>,
    /// The client's certificate, with its private key.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The certificate, and those between it and its authority.
    pub certificate: Secret,
    /// The private key.
    pub key: Secret,
}

impl Auth {
    /// Returns the secret that proofs are made of, with its field.
    pub(super) fn secret(&self) -> Option<(&'static str, &Secret)> {
        match self {
            Self::Sigv4(_) => None,
            Self::Oauth2(client) => Some(("auth.oauth2.client_secret", &client.client_secret)),
            Self::StandardWebhooks(webhooks) => Some(("auth.standard_webhooks.secret", &webhooks.secret)),
        }
    }

    /// Lists the headers that it sets, in lower case.
    pub(in crate::routes) const fn headers(&self) -> &'static [&'static str] {
        match self {
            Self::Sigv4(_) => &["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"],
            Self::Oauth2(_) => &["authorization"],
            Self::StandardWebhooks(_) => &["webhook-id", "webhook-timestamp", "webhook-signature"],
        }
    }
}

impl Sigv4 {
    /// Names whose credentials sign, as `SecretHosts` does: `sigv4`, or the role's ARN.
    pub fn signer(&self) -> &str {
        self.role.as_deref().unwrap_or("sigv4")
    }
}

impl Tls {
    /// Lists its secrets, each with its field.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        let client = self.client.iter();
        let client = client.flat_map(|of| [("tls.client.certificate", &of.certificate), ("tls.client.key", &of.key)]);
        self.ca.iter().map(|ca| ("tls.ca", ca)).chain(client)
    }
}

const SERVICE: Form =
    Form { what: "service that signatures name", as_what: "`kinesis`", holds: |text| is_name(text, 64, "-") };
const REGION: Form = Form { what: "AWS region", as_what: "`eu-west-1`", holds: |text| is_name(text, 64, "-") };
const ROLE: Form = Form {
    what: "role",
    as_what: "`arn:aws:iam::ACCOUNT:role/NAME`",
    // IAM has no region: that part of the ARN is empty.
    holds: |text| {
        let with_region = text.replacen(":iam::", ":iam:-:", 1);
        let named = in_arn(&with_region, "iam").and_then(|resource| resource.strip_prefix("role/"));
        named.is_some_and(|name| is_name(name, 576, "/+=,.@_-"))
    },
};

fn service<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    SERVICE.read(deserializer)
}

fn region<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    REGION.read(deserializer).map(Some)
}

fn role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    ROLE.read(deserializer).map(Some)
}

fn client_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    if (1..=1024).contains(&id.len()) {
        return Ok(id);
    }
    Err(de::Error::custom("`client_id` must have from 1 to 1024 bytes"))
}

fn token_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let written = String::deserialize(deserializer)?;
    let url = Url::parse(&written).map_err(|error| de::Error::custom(format!("`{written}` is no URL: {error}")))?;
    if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
        return Err(de::Error::custom(format!("`{written}` must begin with https://")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let what = "`token_url` holds a user or a password: give `client_id` and `client_secret`";
        return Err(de::Error::custom(what));
    }
    Ok(url)
}
