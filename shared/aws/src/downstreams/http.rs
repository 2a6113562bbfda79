//! Calls over HTTP.
//!
//! Only the route decides where a call goes: redirects are answers like any other, and no proxy is taken from the
//! environment. What the stack does not allow a route to call is not called. The answer is read to its end or to
//! [`MAX_ANSWER_BYTES`], within the route's timeout as a whole.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use groupage_core::domain::outcome::Reason;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::ports::{Answer, Call, MAX_ANSWER_BYTES, NoAnswer};
use groupage_core::routes::downstream::{Filling, Method, header};
use groupage_core::routes::{self, Allowed, Http};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::downstreams::broken::no_answer;
use crate::downstreams::compression::{compressed, decoded};
use crate::downstreams::lookup::Guarded;
use crate::downstreams::pacing::asked_ms;
use crate::downstreams::secrets::Secrets;

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const FENCE: HeaderName = HeaderName::from_static("groupage-fence");
const ATTEMPT: HeaderName = HeaderName::from_static("groupage-attempt");
const USER_AGENT: &str = concat!("groupage/", env!("CARGO_PKG_VERSION"));

/// Servers close idle connections after a minute or more; a connection that is surely open saves a reset.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The body of an answer that is no 2xx is read for so long at most: its status holds calls back meanwhile unheard.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);

/// Makes calls over HTTP.
#[derive(Debug)]
pub(crate) struct HttpCaller {
    client: OnceCell<Client>,
    secrets: Secrets,
    allowed: Arc<Allowed>,
}

impl HttpCaller {
    pub(crate) fn new(secrets: Secrets, allowed: Allowed) -> Self {
        Self { client: OnceCell::new(), secrets, allowed: Arc::new(allowed) }
    }

    /// Makes one call, and one more if its secrets were refused and are others by now. The timeout begins when the
    /// secrets are at hand.
    pub(crate) async fn call(&self, http: &Http, call: &Call<'_>, timeout: Duration) -> Result<Answer, NoAnswer> {
        self.allowed.call(http).map_err(|forbidden| {
            warn!(%forbidden, "a call is not allowed");
            NoAnswer::Misconfigured(Reason::new(forbidden.reason()))
        })?;
        let url = http.url.filled(filling(call)).map_err(|_| NoAnswer::Refused(Reason::new("target_not_in_url")))?;
        let headers = self.headers(http, call).await?;
        let (method, ignores_body) = (http.method, http.response.ignores_body());
        let request = Request { url, method, body: compressed(&call.body, http.compress).await?, ignores_body };
        let answer = self.send(&request, headers.clone(), timeout).await?;
        if !matches!(answer.status, UNAUTHORIZED | FORBIDDEN) {
            return Ok(answer);
        }
        self.secrets.forget(http.secrets().map(|(_, secret)| secret)).await;
        match self.headers(http, call).await {
            Ok(renewed) if renewed != headers => self.send(&request, renewed, timeout).await,
            Ok(_) | Err(_) => Ok(answer),
        }
    }

    async fn send(&self, request: &Request<'_>, headers: HeaderMap, timeout: Duration) -> Result<Answer, NoAnswer> {
        let client = self.client.get_or_try_init(async || connect(Arc::clone(&self.allowed))).await?;
        let ignores_body = request.ignores_body;
        let method = match request.method {
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
        };
        let request = client.request(method, request.url.clone()).headers(headers).body(request.body.to_vec());
        let deadline = Instant::now() + timeout;
        let response = timeout_at(deadline, request.send()).await.map_err(|_| NoAnswer::Timeout)?;
        read(response.map_err(no_answer)?, ignores_body, deadline).await
    }

    async fn headers(&self, http: &Http, call: &Call<'_>) -> Result<HeaderMap, NoAnswer> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &http.headers {
            let unusable = || NoAnswer::Misconfigured(Reason::new("header_unusable"));
            let value = match value {
                routes::HeaderValue::Text(text) => {
                    HeaderValue::from_str(&header(text, filling(call))).map_err(|_| unusable())?
                }
                routes::HeaderValue::Secret { secret } => self.secrets.header(secret).await?,
            };
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?, value);
        }
        if let Some(by) = http.compress {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(by.as_str()));
        }
        // Last, since what these say must be true whatever the route says.
        let batch = HeaderValue::from_str(call.batch.as_str());
        headers.insert(IDEMPOTENCY_KEY, batch.map_err(|_| NoAnswer::Other(Reason::new("batch_id_unusable")))?);
        headers.insert(FENCE, HeaderValue::from(call.fence.0));
        headers.insert(ATTEMPT, HeaderValue::from(call.attempt));
        let trace = call.trace.as_ref().map(|trace| HeaderValue::from_str(&trace.context.to_string()));
        if let Some(Ok(trace)) = trace {
            headers.insert(TRACEPARENT, trace);
        }
        Ok(headers)
    }
}

/// What is sent, beside its headers.
struct Request<'a> {
    url: Url,
    method: Method,
    body: Cow<'a, [u8]>,
    /// Whether nobody reads the body of its answer.
    ignores_body: bool,
}

fn filling<'a>(call: &'a Call<'_>) -> Filling<'a> {
    Filling { batch: call.batch, target: call.target }
}

/// Makes the client, which connects to allowed addresses only.
fn connect(allowed: Arc<Allowed>) -> Result<Client, NoAnswer> {
    let failed = |error: &dyn std::fmt::Display| {
        warn!(%error, "the HTTP client cannot be made");
        NoAnswer::Misconfigured(Reason::new("http_client"))
    };
    Client::builder()
        .tls_backend_preconfigured(tls().map_err(|error| failed(&error))?)
        // A redirect would carry payloads and secrets to an address that no route names.
        .redirect(redirect::Policy::none())
        // So would a proxy variable that was set for something else.
        .no_proxy()
        .dns_resolver(Guarded::new(allowed))
        .user_agent(USER_AGENT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
        .map_err(|error| failed(&error))
}

/// TLS by rustls and ring, with the machine's root certificates.
pub(crate) fn tls() -> Result<ClientConfig, rustls::Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A certificate that nobody can parse is of use to nobody; with none at all, https calls fail and say so.
    roots.add_parsable_certificates(found.certs);
    // Named, not the process's default: which one that is depends on what else is linked in.
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(tls.with_root_certificates(roots).with_no_client_auth())
}

async fn read(mut response: Response, ignores_body: bool, deadline: Instant) -> Result<Answer, NoAnswer> {
    let (status, headers) = (response.status(), response.headers());
    let retry_after_ms = asked_ms(status, headers, SystemTime::now());
    let encoding = headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    let mut body = Vec::new();
    if !status.is_success() {
        // Its status says everything: no more than there is soon is kept of its body, for people.
        let soon = deadline.min(Instant::now() + REFUSAL_WITHIN);
        let _ = timeout_at(soon, read_body(&mut response, &mut body)).await;
        body = decoded(body, encoding.as_deref()).unwrap_or_default();
    } else if !ignores_body {
        timeout_at(deadline, read_body(&mut response, &mut body)).await.unwrap_or(Err(NoAnswer::Timeout))?;
        body = decoded(body, encoding.as_deref())?;
    }
    Ok(Answer { status: status.as_u16(), retry_after_ms, body })
}

async fn read_body(response: &mut Response, body: &mut Vec<u8>) -> Result<(), NoAnswer> {
    if response.content_length().is_some_and(|length| length > MAX_ANSWER_BYTES as u64) {
        return Err(NoAnswer::TooLarge);
    }
    while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(NoAnswer::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(())
}
