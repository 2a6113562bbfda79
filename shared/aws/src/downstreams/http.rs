//! Calls over HTTP.
//!
//! The caller makes no call that the stack does not allow. A look at a job is a call without a body, to a URL where the
//! route calls: it carries the same secrets. The caller reads an answer to its end or to [`MAX_ANSWER_BYTES`],
//! within the route's timeout as a whole, and puts asterisks in place of each secret that the answer repeats. The core
//! renders bodies without their secrets, which are filled in here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::ports::{Answer, Call, MAX_ANSWER_BYTES, NoAnswer};
use groupage_core::routes::downstream::{Filling, USUAL_MS, header, in_url};
use groupage_core::routes::{self, Allowed, Http, MAX_BODY_BYTES, ResponseMapping, Unmade, filled};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::downstreams::auth::{Proof, Proofs, Sent, Signable};
use crate::downstreams::broken::no_answer;
use crate::downstreams::client::Clients;
use crate::downstreams::compression::{compressed, decoded};
use crate::downstreams::pacing::asked_ms;
use crate::downstreams::secrets::Secrets;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const FENCE: HeaderName = HeaderName::from_static("groupage-fence");
const ATTEMPT: HeaderName = HeaderName::from_static("groupage-attempt");

/// The body of an answer that is no 2xx is read for so long at most: its status holds calls back meanwhile unheard.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);
/// A call is made once more within this time only: the timeout is for both of a usual call, and for one of a long one.
const REPEATED_WITHIN: Duration = Duration::from_millis(USUAL_MS);
/// A shorter value is no secret that can be told from other text.
const BLOTTED_FROM: usize = 8;

/// Makes calls over HTTP.
#[derive(Debug)]
pub(crate) struct HttpCaller {
    clients: Clients,
    secrets: Secrets,
    proofs: Proofs,
    allowed: Arc<Allowed>,
}

/// All of a request but what its signature adds.
#[derive(PartialEq)]
struct Prepared<'a> {
    url: Url,
    headers: HeaderMap,
    body: Cow<'a, [u8]>,
    proof: Proof,
    /// The secrets in its URL, its headers and its body, as they are sent.
    secrets: Vec<String>,
}

impl HttpCaller {
    pub(crate) fn new(config: &SdkConfig, allowed: Allowed) -> Self {
        let allowed = Arc::new(allowed);
        Self {
            clients: Clients::new(Arc::clone(&allowed)),
            secrets: Secrets::new(config.clone()),
            proofs: Proofs::new(config.clone()),
            allowed,
        }
    }

    /// Makes one call. It makes one more if its secrets were refused and are others by now, or if its signature was
    /// refused for its time, as long as its function has the time. The timeout begins when the secrets are at hand.
    pub(crate) async fn call(&self, http: &Http, call: &Call<'_>, timeout: Duration) -> Result<Answer, NoAnswer> {
        self.allowed.call(http).map_err(|forbidden| {
            warn!(%forbidden, "a call is not allowed");
            NoAnswer::Misconfigured(Reason::new(forbidden.reason()))
        })?;
        let client = self.clients.get(&http.tls, &self.secrets).await?;
        let prepared = self.prepared(http, call).await?;
        let one = Request { http, id: call.batch.as_str(), is_look: call.look.is_some(), client: &client };
        let begun = Instant::now();
        let sent = self.send(&one, &prepared, timeout).await?;
        if begun.elapsed() > REPEATED_WITHIN {
            return prepared.proof.judge(sent.answer);
        }
        // Some servers say so of a client that has called too often.
        let is_asked_to_wait = sent.answer.retry_after_ms.is_some();
        if self.proofs.corrects(&prepared.proof, host(&prepared.url), &sent) {
            return prepared.proof.judge(self.send(&one, &prepared, timeout).await?.answer);
        }
        if is_asked_to_wait || !prepared.proof.is_refused_by(&sent.answer) {
            return prepared.proof.judge(sent.answer);
        }
        self.secrets.forget(http.secrets().map(|(_, secret)| secret)).await;
        self.proofs.forget(http, &prepared.proof).await;
        match self.prepared(http, call).await {
            Ok(renewed) if renewed != prepared => renewed.proof.judge(self.send(&one, &renewed, timeout).await?.answer),
            Ok(_) | Err(_) => prepared.proof.judge(sent.answer),
        }
    }

    /// Makes one request.
    async fn send(&self, one: &Request<'_>, prepared: &Prepared<'_>, timeout: Duration) -> Result<Sent, NoAnswer> {
        let method = match one.is_look {
            true => Method::GET,
            false => Method::from_bytes(one.http.method.as_str().as_bytes())
                .map_err(|_| NoAnswer::Misconfigured(Reason::new("request_unusable")))?,
        };
        let mut headers = prepared.headers.clone();
        let Prepared { url, body, .. } = prepared;
        let signable = Signable { method: method.as_str(), url: url.as_str(), host: host(url), body, id: one.id };
        let signed_at = self.proofs.sign(&prepared.proof, &signable, &mut headers, SystemTime::now())?;
        // Other headers hold what an answer may well repeat, such as the Target.
        let proves =
            |(name, value): &(_, &HeaderValue)| value.is_sensitive() && prepared.headers.get(*name) != Some(value);
        let mut secrets = prepared.secrets.clone();
        secrets.extend(headers.iter().filter(proves).flat_map(|(_, value)| in_header(value)));
        let request = one.client.request(method, url.clone()).headers(headers);
        let request = if one.is_look { request } else { request.body(body.to_vec()) };
        let deadline = Instant::now() + timeout;
        let response = timeout_at(deadline, request.send()).await.map_err(|_| NoAnswer::Timeout)?;
        let response = response.map_err(no_answer)?;
        let date = response.headers().get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let waits = prepared.proof.judges(response.status());
        let mapping = if one.is_look { one.http.results_mapping() } else { &one.http.response };
        let mut answer = read(response, (mapping, one.http.job.is_some()), waits, deadline).await?;
        secrets.iter().for_each(|secret| blot(&mut answer, secret));
        Ok(Sent { answer, signed_at, server_time: date })
    }

    async fn prepared<'a>(&self, http: &Http, call: &'a Call<'_>) -> Result<Prepared<'a>, NoAnswer> {
        let mut named = BTreeMap::new();
        for (name, secret) in &http.secrets {
            named.insert(name.as_str().to_owned(), self.secrets.text(secret).await?);
        }
        let filling = Filling { batch: call.batch, target: call.target, secrets: &named };
        let url = match call.look {
            Some(url) => http.look_url(url).map_err(NoAnswer::Misconfigured)?,
            None => http.url.filled(filling).map_err(|_| NoAnswer::Refused(Reason::new("target_not_in_url")))?,
        };
        let mut secrets: Vec<String> = named.values().flat_map(|value| [value.clone(), in_url(value)]).collect();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &http.headers {
            let unusable = || NoAnswer::Misconfigured(Reason::new("header_unusable"));
            let value = match value {
                routes::HeaderValue::Text(text) => {
                    let mut value = HeaderValue::from_str(&header(text, filling)).map_err(|_| unusable())?;
                    value.set_sensitive(!named.is_empty());
                    value
                }
                routes::HeaderValue::Secret { secret } => {
                    let value = self.secrets.header(secret).await?;
                    secrets.extend(in_header(&value));
                    value
                }
            };
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?, value);
        }
        // Last, since what these say must be true whatever the route says.
        if call.look.is_some() {
            headers.remove(CONTENT_TYPE);
        } else {
            if let Some(by) = http.compress {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(by.as_str()));
            }
            let batch = HeaderValue::from_str(call.batch.as_str());
            headers.insert(IDEMPOTENCY_KEY, batch.map_err(|_| NoAnswer::Other(Reason::new("batch_id_unusable")))?);
            headers.insert(FENCE, HeaderValue::from(call.fence.0));
            headers.insert(ATTEMPT, HeaderValue::from(call.attempt));
        }
        let trace = call.trace.as_ref().map(|trace| HeaderValue::from_str(&trace.context.to_string()));
        if let Some(Ok(trace)) = trace {
            headers.insert(TRACEPARENT, trace);
        }
        let client = self.clients.get(&None, &self.secrets).await?;
        let proof = self.proofs.of(http, &self.secrets, &client).await?;
        let body = body(http, call, &named, &mut secrets).await?;
        Ok(Prepared { url, headers, body, proof, secrets })
    }
}

/// Returns a call's body as it is sent. Adds the secrets in it, as they stand there.
async fn body<'a>(
    http: &Http,
    call: &'a Call<'_>,
    named: &BTreeMap<String, String>,
    secrets: &mut Vec<String>,
) -> Result<Cow<'a, [u8]>, NoAnswer> {
    if call.secrets.is_empty() {
        let compression = http.compress.filter(|_| call.look.is_none());
        return compressed(&call.body, compression).await;
    }
    let filled = filled(&call.body, &call.secrets, named, MAX_BODY_BYTES);
    let filled = filled.ok_or_else(|| NoAnswer::Oversized(Unmade::TooLarge.reason()))?;
    secrets.extend(filled.secrets);
    Ok(compressed(&filled.text, http.compress).await?.into_owned().into())
}

/// The part of a request that stays the same when it is repeated.
struct Request<'a> {
    http: &'a Http,
    /// The batch.
    id: &'a str,
    is_look: bool,
    client: &'a Client,
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

/// Lists the secrets in a header's value: the whole, and the part behind a scheme or a name.
fn in_header(value: &HeaderValue) -> Vec<String> {
    let text = value.to_str().unwrap_or_default();
    [Some(text), text.rsplit(' ').next(), text.rsplit('=').next()].into_iter().flatten().map(str::to_owned).collect()
}

/// Puts asterisks in place of a secret that an answer repeats, as it was sent or as JSON writes it: reasons and
/// excerpts of it are shown to people.
fn blot(answer: &mut Answer, secret: &str) {
    let quoted = serde_json::Value::from(secret).to_string();
    let in_json = quoted.trim_matches('"');
    if in_json != secret {
        blot_text(answer, in_json);
    }
    blot_text(answer, secret);
}

fn blot_text(answer: &mut Answer, secret: &str) {
    if secret.len() < BLOTTED_FROM {
        return;
    }
    let mut from = 0;
    while let Some(at) = answer.body[from..].windows(secret.len()).position(|window| window == secret.as_bytes()) {
        answer.body[from + at..from + at + secret.len()].fill(b'*');
        from += at + secret.len();
    }
    for value in answer.headers.values_mut().filter(|value| value.contains(secret)) {
        *value = value.replace(secret, &"*".repeat(secret.len()));
    }
}

/// Reads an answer, whose body may count for more than the mapping says: then it `waits` for all of it. A job is read
/// from headers, too.
async fn read(
    mut response: Response,
    (mapping, has_job): (&ResponseMapping, bool),
    waits: bool,
    deadline: Instant,
) -> Result<Answer, NoAnswer> {
    let (status, headers) = (response.status(), response.headers());
    let retry_after_ms = asked_ms(status, headers, SystemTime::now());
    let encoding = headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    let mut body = Vec::new();
    let headers = if has_job || mapping.sees() { by_name(headers) } else { BTreeMap::new() };
    let mut is_cut = false;
    if !status.is_success() {
        // Unless the mapping may decide by it, no more than there is soon is kept of its body, for people. Its status
        // counts even if the body stalls or breaks off.
        let soon = deadline.min(Instant::now() + REFUSAL_WITHIN);
        let until = if waits || mapping.waits_for(status.as_u16()) { deadline } else { soon };
        let is_whole = matches!(timeout_at(until, read_body(&mut response, &mut body)).await, Ok(Ok(())));
        let decoded = decoded(body, encoding.as_deref());
        is_cut = !is_whole || decoded.is_err();
        body = decoded.unwrap_or_default();
    } else if has_job || !mapping.ignores_body() {
        timeout_at(deadline, read_body(&mut response, &mut body)).await.unwrap_or(Err(NoAnswer::Timeout))?;
        body = decoded(body, encoding.as_deref())?;
    }
    Ok(Answer { status: status.as_u16(), retry_after_ms, headers, body, is_cut })
}

/// Returns headers by their names, in lower case.
pub(super) fn by_name(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut by_name = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        match by_name.entry(name.as_str().to_owned()) {
            Entry::Occupied(mut values) => values.get_mut().extend([", ", &value]),
            Entry::Vacant(free) => drop(free.insert(value.into_owned())),
        }
    }
    by_name
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
