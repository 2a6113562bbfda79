//! AWS Signature Version 4, by `aws-sigv4`.
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html>.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, NoAnswer};
use groupage_core::routes::downstream::Sigv4;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName};
use tokio::time::timeout;
use tracing::warn;

use super::Signable;
use crate::downstreams::fresh::Fresh;
use crate::downstreams::sdk::{is_misconfigured, is_too_busy};
use crate::downstreams::secrets::{YOUNG, header};

/// Credentials are fetched anew so long before they expire.
const BEFORE: Duration = Duration::from_secs(5 * 60);
/// Credentials come within this, and the calls that wait for them fail with them.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Credentials that do not expire are asked for again after this: their provider may have others by then.
const UNSAID: Duration = Duration::from_secs(5 * 60);
/// AWS refuses a signature that is off by more than five minutes. A clock here that is off by less is believed.
const TOO_FAR_S: i64 = 4 * 60;
/// Codes and messages by which AWS's services refuse a signature for its time.
const OF_TIME: [&str; 5] =
    ["RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "Signature expired", "Signature not yet current"];

/// Signs with credentials that it fetches.
#[derive(Debug)]
pub(super) struct Signer {
    config: SdkConfig,
    /// The credentials by role; those of the process itself have none.
    credentials: Fresh<Option<String>, Credentials>,
    /// Seconds by which a host's clock is ahead of the clock here, by host.
    ahead_s: Mutex<HashMap<String, i64>>,
}

/// Credentials and scope of one call's signature.
#[derive(Clone, PartialEq)]
pub(in crate::downstreams) struct Signing {
    pub(super) credentials: Credentials,
    region: String,
    service: String,
}

impl Signer {
    pub(super) fn new(config: SdkConfig) -> Self {
        Self { config, credentials: Fresh::new(YOUNG), ahead_s: Mutex::default() }
    }

    /// Returns what a call is signed with.
    pub(super) async fn signing(&self, of: &Sigv4) -> Result<Signing, NoAnswer> {
        let own = || self.config.region().map(|region| region.as_ref().to_owned());
        let region = of.region.clone().or_else(own);
        let region = region.ok_or_else(|| NoAnswer::Misconfigured(Reason::new("region_unknown")))?;
        let credentials = self.credentials.get(&of.role, async || self.fetch(of.role.as_deref()).await).await?;
        Ok(Signing { credentials, region, service: of.service.clone() })
    }

    /// Has the credentials fetched anew, if they are those with which a call was refused.
    pub(super) async fn forget(&self, of: &Sigv4, is_refused: impl Fn(&Credentials) -> bool) {
        self.credentials.forget(&of.role, is_refused).await;
    }

    async fn fetch(&self, role: Option<&str>) -> Result<(Credentials, Duration), NoAnswer> {
        let provided = match role {
            Some(role) => {
                let role = AssumeRoleProvider::builder(role).session_name("groupage").configure(&self.config);
                let role = role.build().await;
                timeout(TIMEOUT, role.provide_credentials()).await.map_err(|_| unavailable(&"no answer in time"))?
            }
            None => {
                let own = self.config.credentials_provider();
                let own = own.ok_or_else(|| unavailable(&"there is no provider"))?;
                timeout(TIMEOUT, own.provide_credentials()).await.map_err(|_| unavailable(&"no answer in time"))?
            }
        };
        let credentials = provided.map_err(|error| unavailable(&error))?;
        let left = credentials.expiry().map_or(UNSAID, |expiry| {
            let left = expiry.duration_since(SystemTime::now()).unwrap_or_default();
            left.saturating_sub(BEFORE.min(left / 10))
        });
        Ok((credentials, left))
    }

    /// Returns the time as a host has it, as far as it is known.
    pub(super) fn time_at(&self, host: &str, now: SystemTime) -> SystemTime {
        let ahead_s = self.ahead_s.lock().map_or(0, |ahead| ahead.get(host).copied().unwrap_or_default());
        let by = Duration::from_secs(ahead_s.unsigned_abs());
        if ahead_s >= 0 { now + by } else { now.checked_sub(by).unwrap_or(now) }
    }

    /// Takes the time of a host that refused a signature of `signed_at` for its time. Returns whether that is another
    /// time. The signature may be older than the correction that another call has brought.
    pub(super) fn corrects(&self, host: &str, server: &Server<'_>, signed_at: SystemTime, now: SystemTime) -> bool {
        let said = String::from_utf8_lossy(server.said);
        let Some(time) = server.time.filter(|_| OF_TIME.iter().any(|code| said.contains(code))) else { return false };
        let seconds = |time: SystemTime| {
            i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()).unwrap_or_default()
        };
        if (seconds(time) - seconds(signed_at)).abs() < TOO_FAR_S {
            return false;
        }
        let ahead_s = seconds(time) - seconds(now);
        warn!(host, ahead_s, "the clock of this machine is wrong: signatures are made for the host's time");
        if let Ok(mut ahead) = self.ahead_s.lock() {
            ahead.insert(host.to_owned(), ahead_s);
        }
        true
    }
}

/// AWS's JSON protocols say by a 400 and a code what others say by 401, 403 or 429.
const BAD_REQUEST: u16 = 400;
const TOO_MANY_REQUESTS: u16 = 429;
/// Codes that other credentials, or another signature, may do better with.
const OF_CREDENTIALS: [&str; 8] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Services whose answers are those of a user's own program.
const OF_USERS: [&str; 3] = ["execute-api", "lambda", "vpc-lattice-svcs"];

/// Decides whether an answer says that the signature, or what it was made with, is refused.
pub(super) fn is_refused_by(answer: &Answer) -> bool {
    code(&answer.body).is_some_and(|code| OF_CREDENTIALS.contains(&code.as_str()))
}

/// Decides whether the body of a 400 of this service says more than its status.
fn judges(service: &str, status: u16) -> bool {
    status == BAD_REQUEST && !OF_USERS.contains(&service)
}

/// Reads the code of a 400: a service that is too busy has one, and so has a wrong route.
pub(super) fn judge(service: &str, mut answer: Answer) -> Result<Answer, NoAnswer> {
    if !judges(service, answer.status) {
        return Ok(answer);
    }
    match code(&answer.body) {
        Some(code) if is_too_busy(&code, answer.status) => answer.status = TOO_MANY_REQUESTS,
        Some(code) if is_misconfigured(&code) => {
            warn!(code, "a downstream cannot be called as it is configured");
            return Err(NoAnswer::Misconfigured(Reason::from_downstream(&code)));
        }
        // It may have said that the service is too busy.
        None if answer.is_cut => return Err(NoAnswer::Other(Reason::new("answer_cut"))),
        Some(_) | None => {}
    }
    Ok(answer)
}

/// The answer of a host that refused a signature.
pub(super) struct Server<'a> {
    /// Its time.
    pub(super) time: Option<SystemTime>,
    /// The body of its answer.
    pub(super) said: &'a [u8],
}

/// Returns the code of an error in JSON or XML, without the service before it.
fn code(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Error {
        #[serde(rename = "__type")]
        code: String,
    }
    let json = serde_json::from_slice::<Error>(body).ok().map(|error| error.code);
    let code = json.or_else(|| {
        let text = std::str::from_utf8(body).ok()?;
        let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
        Some(code.to_owned())
    })?;
    code.rsplit(['.', '#']).next().map(str::to_owned)
}

fn unavailable(error: &dyn std::fmt::Display) -> NoAnswer {
    warn!(%error, "there are no credentials to sign with");
    NoAnswer::Misconfigured(Reason::new("credentials_unavailable"))
}

impl Signing {
    /// Decides whether the body of an answer with this status says more than the status.
    pub(super) fn judges(&self, status: u16) -> bool {
        judges(&self.service, status)
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    pub(super) fn sign(
        &self,
        request: &Signable<'_>,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<(), NoAnswer> {
        let unsignable = |error: &dyn std::fmt::Display| {
            warn!(%error, "a call cannot be signed");
            NoAnswer::Misconfigured(Reason::new("request_unusable"))
        };
        let mut settings = SigningSettings::default();
        // S3 and search without servers want it; the others bear it.
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        if self.service == "s3" {
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        }
        let identity = Identity::from(self.credentials.clone());
        let params = v4::SigningParams::builder().identity(&identity).region(&self.region).name(&self.service);
        let params = params.time(now).settings(settings).build().map_err(|error| unsignable(&error))?.into();
        let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let signable = SignableRequest::new(request.method, request.url, texts, SignableBody::Bytes(request.body))
            .map_err(|error| unsignable(&error))?;
        let (signed, _) = sign(signable, &params).map_err(|error| unsignable(&error))?.into_parts();
        let (set, _) = signed.into_parts();
        for one in set {
            let name = HeaderName::from_static(one.name());
            let mut value = header(one.value()).ok_or_else(|| unsignable(&"a header of the signature"))?;
            value.set_sensitive(one.sensitive() || name == AUTHORIZATION);
            headers.insert(name, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_who_is_at_fault_where_the_status_does_not() {
        let said = |status, body: &str| Answer { status, body: body.into(), ..Answer::default() };
        let judged = |status, body: &str| judge("sns", said(status, body)).map(|answer| answer.status);
        let json = |code: &str| format!("{{\"__type\":\"com.amazonaws.kinesis#{code}\",\"message\":\"m\"}}");
        let xml = |code: &str| {
            format!("<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>")
        };
        for body in [json("ProvisionedThroughputExceededException"), xml("KMSThrottling"), json("ThrottlingException")]
        {
            assert_eq!(judged(400, &body), Ok(429), "{body}");
        }
        for code in ["AccessDeniedException", "ExpiredTokenException", "KMSDisabled", "ResourceNotFoundException"] {
            assert_eq!(judged(400, &json(code)), Err(NoAnswer::Misconfigured(Reason::new(code))));
        }
        for body in [json("ValidationException"), xml("InvalidParameter"), "<html>".to_owned(), String::new()] {
            assert_eq!(judged(400, &body), Ok(400), "{body}");
        }
        assert_eq!(judged(200, &json("AccessDeniedException")), Ok(200), "an answer that is no error");
        let users = judge("execute-api", said(400, &json("ResourceNotFoundException")));
        assert_eq!(users.map(|answer| answer.status), Ok(400), "an answer of a user's own program");
        let cut = judge("sns", Answer { is_cut: true, ..said(400, "<Err") });
        assert_eq!(cut, Err(NoAnswer::Other(Reason::new("answer_cut"))));
    }

    #[test]
    fn the_servers_time_is_taken_if_the_signature_was_refused_for_its_time() {
        let signer = Signer::new(SdkConfig::builder().build());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let expired = br#"{"__type":"InvalidSignatureException","message":"Signature expired: 2026"}"#;
        let corrects = |host: &str, time: Option<u64>, said: &[u8], signed_at, now| {
            signer.corrects(host, &Server { time: time.map(at), said }, at(signed_at), at(now))
        };
        assert!(!corrects("a", None, expired, 1_000, 1_000), "a server that says no time");
        assert!(!corrects("a", Some(1_300), b"AccessDenied", 1_000, 1_000), "another refusal");
        assert!(!corrects("a", Some(1_060), expired, 1_000, 1_000), "a time that was near enough");
        assert!(corrects("a", Some(1_300), expired, 1_000, 1_000));
        assert!(corrects("a", Some(1_301), expired, 1_000, 1_001), "a call that was signed before the correction");
        assert_eq!((signer.time_at("a", at(2_000)), signer.time_at("b", at(2_000))), (at(2_300), at(2_000)));
        assert!(!corrects("a", Some(2_301), expired, 2_300, 2_000), "it was made for that time");
        assert!(corrects("a", Some(2_000), b"<Code>RequestExpired</Code>", 3_300, 3_000));
        assert_eq!(signer.time_at("a", at(3_000)), at(2_000));
    }
}
