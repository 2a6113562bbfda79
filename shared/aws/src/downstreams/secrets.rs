//! Secrets, from the environment or from Secrets Manager.
//!
//! A value goes where its route says and nowhere else: no error, log line or `Debug` output shows it. A secret that
//! cannot be read stops the route's calls until it can be.

use std::time::Duration;

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use groupage_core::routes::Secret;
use reqwest::header::HeaderValue;
use tracing::warn;

use super::aws::Manager;
use super::fresh::Fresh;

/// How long a value is used before it is read again: a rotated secret is in use everywhere after this.
pub(super) const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// A value that is so young is not read anew, however often it is refused: each reading is paid for.
pub(super) const YOUNG: Duration = Duration::from_secs(10);

/// Reads secrets.
#[derive(Debug)]
pub(crate) struct Secrets {
    manager: Manager,
    /// The values by name or ARN.
    managed: Fresh<String, String>,
}

impl Secrets {
    pub(crate) fn new(config: SdkConfig) -> Self {
        Self { manager: Manager::new(config), managed: Fresh::new(YOUNG) }
    }

    /// Reads a secret. Files and consoles like to end one with a line feed, which belongs to none.
    pub(crate) async fn text(&self, secret: &Secret) -> Result<String, NoAnswer> {
        let text = match secret {
            Secret::Env(name) => std::env::var(name).map_err(|_| unavailable(secret, "the variable is not set"))?,
            Secret::SecretsManager(name) => {
                let read = async || self.manager.secret(name).await.map_err(|error| unavailable(secret, &error));
                self.managed.get(name, async || Ok((read().await?, MAX_AGE))).await?
            }
        };
        Ok(text.trim().to_owned())
    }

    /// Reads a secret as a header's value.
    pub(crate) async fn header(&self, secret: &Secret) -> Result<HeaderValue, NoAnswer> {
        header(&self.text(secret).await?).ok_or_else(|| unavailable(secret, "it is no header value"))
    }

    /// Has these read anew when they are wanted next, except what was read a moment ago: a rotated secret is refused
    /// before its copy here is old.
    pub(crate) async fn forget(&self, secrets: impl Iterator<Item = &Secret>) {
        for secret in secrets {
            if let Secret::SecretsManager(name) = secret {
                self.managed.forget(name, |_| true).await;
            }
        }
    }
}

/// Marks a value as one that is never shown.
pub(super) fn header(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

fn unavailable(secret: &Secret, error: &str) -> NoAnswer {
    warn!(?secret, error, "a secret is unavailable");
    NoAnswer::Misconfigured(Reason::new("secret_unavailable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_shown() {
        let header = header("hunter2").unwrap();
        assert_eq!(header.as_bytes(), b"hunter2");
        assert!(!format!("{header:?}").contains("hunter2"));
    }
}
