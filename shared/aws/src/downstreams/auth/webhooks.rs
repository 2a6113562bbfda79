//! Signatures of Standard Webhooks, version 1: HMAC-SHA256 over `id.timestamp.body`.
//! Source: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

use super::Signable;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The beginning of the text of a signing secret.
const PREFIX: &str = "whsec_";
/// The shortest key that the specification allows.
const MIN_KEY_BYTES: usize = 24;

/// A signing secret.
#[derive(Clone, PartialEq)]
pub(in crate::downstreams) struct Key(Vec<u8>);

impl Key {
    /// Reads the text of a signing secret: `whsec_` and a key of 24 bytes or more in Base64.
    pub(super) fn read(secret: &str) -> Result<Self, NoAnswer> {
        let key = secret.strip_prefix(PREFIX).and_then(|key| BASE64_STANDARD.decode(key).ok());
        key.filter(|key| key.len() >= MIN_KEY_BYTES)
            .map(Self)
            .ok_or_else(|| NoAnswer::Misconfigured(Reason::new("webhook_secret_unusable")))
    }

    pub(super) fn sign(
        &self,
        request: &Signable<'_>,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<(), NoAnswer> {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(format!("{}.{seconds}.", request.id).as_bytes());
        context.update(request.body);
        let signature = format!("v1,{}", BASE64_STANDARD.encode(context.sign()));
        let unusable = |_| NoAnswer::Other(Reason::new("batch_id_unusable"));
        headers.insert(ID, HeaderValue::from_str(request.id).map_err(unusable)?);
        headers.insert(TIMESTAMP, HeaderValue::from(seconds));
        let mut signature = HeaderValue::from_str(&signature).map_err(unusable)?;
        signature.set_sensitive(true);
        headers.insert(SIGNATURE, signature);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specifications_own_example() {
        let key = Key::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let request = Signable {
            method: "POST",
            url: "https://a.example/",
            host: "a.example",
            body: br#"{"test": 2432232314}"#,
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        };
        let mut headers = HeaderMap::new();
        key.sign(&request, &mut headers, UNIX_EPOCH + Duration::from_secs(1_614_265_330)).unwrap();
        assert_eq!(headers[SIGNATURE], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers[TIMESTAMP], "1614265330");
    }

    #[test]
    fn what_is_no_signing_secret_stops_the_route() {
        for secret in ["", "whsec_", "whsec_QUJD", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not Base64"] {
            assert!(matches!(Key::read(secret), Err(NoAnswer::Misconfigured(_))), "{secret}");
        }
    }
}
