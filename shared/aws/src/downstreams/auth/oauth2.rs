//! Bearer tokens by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4).

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use groupage_core::routes::downstream::{ClientIn, Oauth2};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use tracing::warn;
use url::form_urlencoded;

use crate::downstreams::broken::no_answer;
use crate::downstreams::fresh::Fresh;
use crate::downstreams::secrets::{Secrets, header};

/// A token endpoint answers within this, and the calls that wait for it fail with it. A call may wait for two answers
/// within the ten seconds that its permit has beside its timeouts.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The longest answer of a token endpoint that is read, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// A token whose answer does not say when it expires is used for so long.
const UNSAID: Duration = Duration::from_secs(5 * 60);
/// A token is fetched anew so long before it expires, so that a call under way does not outlive it.
const BEFORE: Duration = Duration::from_secs(60);
/// No token is used for longer, whatever its answer says.
const AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// The tokens of this process.
#[derive(Debug)]
pub(super) struct Tokens {
    fresh: Fresh<Oauth2, HeaderValue>,
}

impl Default for Tokens {
    fn default() -> Self {
        // A token may be revoked right after it was given. Of each token, one call has another fetched.
        Self { fresh: Fresh::new(Duration::ZERO) }
    }
}

/// The answer of a token endpoint (RFC 6749, sections 5.1 and 5.2).
#[derive(Deserialize)]
struct Said {
    access_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<f64>,
    error: Option<String>,
}

impl Tokens {
    /// Returns the value of `Authorization`, from a token that is fetched if none is at hand.
    pub(super) async fn get(&self, of: &Oauth2, secrets: &Secrets, client: &Client) -> Result<HeaderValue, NoAnswer> {
        self.fresh.get(of, async || fetch(of, &secrets.text(&of.client_secret).await?, client).await).await
    }

    /// Has the token fetched anew, if it is the one with which a call was refused.
    pub(super) async fn forget(&self, of: &Oauth2, is_refused: impl Fn(&HeaderValue) -> bool) {
        self.fresh.forget(of, is_refused).await;
    }
}

async fn fetch(of: &Oauth2, secret: &str, client: &Client) -> Result<(HeaderValue, Duration), NoAnswer> {
    let mut request = client.post(of.token_url.clone()).timeout(TIMEOUT).header(ACCEPT, "application/json");
    if of.send_client_in == ClientIn::Header {
        request = request.header(AUTHORIZATION, basic(&of.client_id, secret)?);
    }
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(of, secret));
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            warn!("a token endpoint answers at too great length");
            return Err(away());
        }
    }
    read(status, &body)
}

/// Writes the form (RFC 6749, section 4.4.2).
fn form(of: &Oauth2, secret: &str) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    for (name, value) in [("scope", &of.scope), ("audience", &of.audience)] {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    if of.send_client_in == ClientIn::Body {
        form.append_pair("client_id", &of.client_id).append_pair("client_secret", secret);
    }
    form.finish()
}

/// Writes id and secret as HTTP Basic has them, each encoded as in forms first (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> Result<HeaderValue, NoAnswer> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = BASE64_STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    header(&format!("Basic {pair}")).ok_or_else(|| refused("secret_unavailable"))
}

/// Reads the answer of a token endpoint. Nothing of it is logged but the code of an error.
fn read(status: StatusCode, body: &[u8]) -> Result<(HeaderValue, Duration), NoAnswer> {
    let said = serde_json::from_slice::<Said>(body).ok();
    let error = said.as_ref().and_then(|said| said.error.as_deref()).map(Reason::from_downstream);
    let code = error.as_ref().map_or("", Reason::as_str);
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        warn!(status = status.as_u16(), code, "a token endpoint is unavailable");
        return Err(away());
    }
    let token = said.as_ref().and_then(|said| said.access_token.as_deref()).filter(|_| status.is_success());
    let Some(token) = token.and_then(|token| header(&format!("Bearer {token}"))) else {
        warn!(status = status.as_u16(), code, "a token endpoint gives no token");
        return Err(refused("token_refused"));
    };
    let holds = said.and_then(|said| said.expires_in).map_or(UNSAID, |seconds| {
        let all = Duration::try_from_secs_f64(seconds.clamp(0.0, AT_MOST.as_secs_f64())).unwrap_or_default();
        // Of a token that holds for a short time, a tenth.
        all.saturating_sub(BEFORE.min(all / 10))
    });
    Ok((token, holds))
}

/// The endpoint was not reached: an outage, unless it may not be called.
fn unreachable(error: reqwest::Error) -> NoAnswer {
    match no_answer(error) {
        NoAnswer::Misconfigured(reason) => NoAnswer::Misconfigured(reason),
        other => {
            warn!(?other, "a token endpoint is not reached");
            away()
        }
    }
}

/// An outage before anything was sent to the downstream.
fn away() -> NoAnswer {
    NoAnswer::Other(Reason::new("token_unavailable"))
}

fn refused(reason: &str) -> NoAnswer {
    NoAnswer::Misconfigured(Reason::new(reason))
}

/// Some servers write the number as text.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(body: &str) -> Option<u64> {
        read(StatusCode::OK, body.as_bytes()).ok().map(|(_, holds)| holds.as_secs())
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        for (expires_in, seconds) in
            [("3600", 3_540), ("\"3600\"", 3_540), ("100", 90), ("0", 0), ("-5", 0), ("1e300", 86_340), ("null", 300)]
        {
            assert_eq!(holds(&format!("{{\"access_token\":\"t\",\"expires_in\":{expires_in}}}")), Some(seconds));
        }
        assert_eq!(holds("{\"access_token\":\"t\"}"), Some(300));
    }

    #[test]
    fn an_answer_without_a_token_stops_the_route_and_an_outage_does_not() {
        let refused = Err(NoAnswer::Misconfigured(Reason::new("token_refused")));
        for (status, body) in [
            (200, ""),
            (200, "{}"),
            (200, "{\"access_token\":\"a\\nb\"}"),
            (302, "{\"access_token\":\"t\"}"),
            (400, "{\"error\":\"invalid_client\"}"),
            (401, "<html>"),
        ] {
            assert_eq!(read(StatusCode::from_u16(status).unwrap(), body.as_bytes()), refused, "{status} {body}");
        }
        for status in [429, 500, 503] {
            let away = read(StatusCode::from_u16(status).unwrap(), b"{\"access_token\":\"t\"}");
            assert_eq!(away, Err(NoAnswer::Other(Reason::new("token_unavailable"))));
        }
    }
}
