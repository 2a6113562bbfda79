//! Secrets for headers, from the environment or from Secrets Manager.
//!
//! A value lives in a header marked sensitive and nowhere else: no error, log line or `Debug` output shows it. A secret
//! that cannot be read stops the route's calls until it can be.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use groupage_core::routes::Secret;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::aws::Manager;

/// How long a value is used before it is read again: a rotated secret is in use everywhere after this.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// A value that is so young is not read anew, however often it is refused.
const FRESH: Duration = Duration::from_secs(10);

/// Reads secrets.
pub(crate) struct Secrets {
    manager: Manager,
    /// By name or ARN. Locked while one is read, so that a burst of calls reads it once.
    cache: Mutex<HashMap<String, Cached>>,
}

struct Cached {
    read_at: Instant,
    header: HeaderValue,
}

impl Secrets {
    pub(crate) fn new(config: SdkConfig) -> Self {
        Self { manager: Manager::new(config), cache: Mutex::default() }
    }

    /// A secret as a header's value.
    pub(crate) async fn header(&self, secret: &Secret) -> Result<HeaderValue, NoAnswer> {
        let header = match secret {
            Secret::Env(name) => std::env::var(name).map_err(|_| "the variable is not set".to_owned()).and_then(header),
            Secret::SecretsManager(name) => self.managed(name).await,
        };
        header.map_err(|error| {
            warn!(?secret, error, "a secret is unavailable");
            NoAnswer::Misconfigured(Reason::new("secret_unavailable"))
        })
    }

    /// Has these read anew when they are wanted next, except what was read a moment ago: a rotated secret is refused
    /// before its copy here is old.
    pub(crate) async fn forget(&self, secrets: impl Iterator<Item = &Secret>) {
        let mut cache = self.cache.lock().await;
        for secret in secrets {
            if let Secret::SecretsManager(name) = secret
                && cache.get(name).is_some_and(|cached| cached.read_at.elapsed() > FRESH)
            {
                cache.remove(name);
            }
        }
    }

    async fn managed(&self, name: &str) -> Result<HeaderValue, String> {
        let mut cache = self.cache.lock().await;
        if let Some(cached) = cache.get(name).filter(|cached| cached.read_at.elapsed() < MAX_AGE) {
            return Ok(cached.header.clone());
        }
        let header = header(self.manager.secret(name).await?)?;
        cache.insert(name.to_owned(), Cached { read_at: Instant::now(), header: header.clone() });
        Ok(header)
    }
}

/// The error says nothing of the value.
fn header(value: String) -> Result<HeaderValue, String> {
    // Files and consoles like to end a secret with a line feed, which no header may hold.
    let mut header = HeaderValue::from_str(value.trim()).map_err(|_| "it is no header value".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_trimmed_and_never_shown() {
        let header = header("hunter2\n".to_owned()).unwrap();
        assert_eq!(header.as_bytes(), b"hunter2");
        assert!(!format!("{header:?}").contains("hunter2"));
    }

    #[test]
    fn a_value_that_no_header_can_hold_is_not_quoted() {
        let error = header("hunter\n2".to_owned()).unwrap_err();
        assert!(!error.contains("hunter"));
    }
}
