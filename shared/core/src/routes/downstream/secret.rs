//! Secrets: the places where they are kept, and the names that a route gives them.

use schemars::JsonSchema;
use serde::Deserialize;

/// The place where a secret is kept. Its value never reaches a log, an error or a notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Secret {
    /// This environment variable of the batch-handler.
    Env(String),
    /// AWS Secrets Manager, under this name or ARN. The function's role must be allowed to read it.
    SecretsManager(String),
}

/// The name of a secret within its route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct SecretName(#[schemars(length(min = 1, max = 64))] String);

impl SecretName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SecretName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if (1..=64).contains(&name.len()) && name.bytes().all(is_part) {
            return Ok(Self(name));
        }
        Err(format!("`{name}` is no name of a secret: write lower-case letters, digits and `_`, 64 at most"))
    }
}
