//! The proofs that go with calls over HTTP, one file for each kind.
//!
//! [`Proofs::of`] fetches what a proof is made of, and [`Proofs::sign`] writes it into a request's headers. Two proofs
//! are equal if they are made of the same: what was refused and is fetched anew may be another.

mod oauth2;
mod sigv4;
mod webhooks;

use std::time::SystemTime;

use aws_config::SdkConfig;
use groupage_core::ports::{Answer, NoAnswer};
use groupage_core::routes::downstream::Auth;
use groupage_core::routes::{Downstream, Http};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode};

use self::oauth2::Tokens;
use self::sigv4::{Server, Signer, Signing};
use self::webhooks::Key;
use super::secrets::Secrets;

const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

/// Makes proofs.
#[derive(Debug)]
pub(super) struct Proofs {
    tokens: Tokens,
    signer: Signer,
}

/// The material of one call's proof.
#[derive(Clone, PartialEq)]
pub(super) enum Proof {
    /// The call has none, beside what its headers hold.
    None,
    /// A token for the header `Authorization`.
    Bearer(HeaderValue),
    /// Credentials of AWS.
    Sigv4(Box<Signing>),
    /// The key of Standard Webhooks.
    Webhooks(Key),
}

/// A request as signatures see it.
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    pub(super) host: &'a str,
    pub(super) body: &'a [u8],
    /// The batch.
    pub(super) id: &'a str,
}

/// An answer, with the times that its request and its server say.
pub(super) struct Sent {
    pub(super) answer: Answer,
    /// The time of its signature.
    pub(super) signed_at: SystemTime,
    /// The time that the server says.
    pub(super) server_time: Option<SystemTime>,
}

/// Reads what an answer of a downstream says of the call as a whole beside its status, as its calls do.
///
/// # Errors
/// The fault of the route that it names, or that it was cut off.
pub fn judged(downstream: &Downstream, answer: Answer) -> Result<Answer, NoAnswer> {
    match downstream.http().and_then(|http| http.auth.as_deref()) {
        Some(Auth::Sigv4(of)) => sigv4::judge(&of.service, answer),
        Some(Auth::Oauth2(_) | Auth::StandardWebhooks(_)) | None => Ok(answer),
    }
}

impl Proof {
    /// Decides whether an answer says that the proof is refused. Where the proof tells who answers, a code says more
    /// than the status.
    pub(super) fn is_refused_by(&self, answer: &Answer) -> bool {
        match self {
            Self::Sigv4(_) => sigv4::is_refused_by(answer),
            Self::None | Self::Bearer(_) | Self::Webhooks(_) => matches!(answer.status, UNAUTHORIZED | FORBIDDEN),
        }
    }

    /// Decides whether the body of an answer with this status says more than the status.
    pub(super) fn judges(&self, status: StatusCode) -> bool {
        matches!(self, Self::Sigv4(signing) if signing.judges(status.as_u16()))
    }

    /// Reads what an answer says of the call as a whole beside its status.
    pub(super) fn judge(&self, answer: Answer) -> Result<Answer, NoAnswer> {
        match self {
            Self::Sigv4(signing) => sigv4::judge(signing.service(), answer),
            Self::None | Self::Bearer(_) | Self::Webhooks(_) => Ok(answer),
        }
    }
}

impl Proofs {
    pub(super) fn new(config: SdkConfig) -> Self {
        Self { tokens: Tokens::default(), signer: Signer::new(config) }
    }

    /// Fetches what the proof of a route's calls is made of, if it is not at hand. The client is the one for token
    /// endpoints, which the route's own certificates are not for.
    pub(super) async fn of(&self, http: &Http, secrets: &Secrets, client: &Client) -> Result<Proof, NoAnswer> {
        match http.auth.as_deref() {
            None => Ok(Proof::None),
            Some(Auth::Oauth2(of)) => self.tokens.get(of, secrets, client).await.map(Proof::Bearer),
            Some(Auth::Sigv4(of)) => self.signer.signing(of).await.map(Box::new).map(Proof::Sigv4),
            Some(Auth::StandardWebhooks(of)) => Key::read(&secrets.text(&of.secret).await?).map(Proof::Webhooks),
        }
    }

    /// Has it fetched anew, since a call was refused with it.
    pub(super) async fn forget(&self, http: &Http, refused: &Proof) {
        match http.auth.as_deref() {
            Some(Auth::Oauth2(of)) => {
                self.tokens.forget(of, |token| matches!(refused, Proof::Bearer(of) if of == token)).await;
            }
            Some(Auth::Sigv4(of)) => {
                let is_refused = |own: &_| matches!(refused, Proof::Sigv4(signing) if signing.credentials == *own);
                self.signer.forget(of, is_refused).await;
            }
            Some(Auth::StandardWebhooks(_)) | None => {}
        }
    }

    /// Writes a proof into a request's headers. Returns the time that it says.
    pub(super) fn sign(
        &self,
        proof: &Proof,
        request: &Signable<'_>,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<SystemTime, NoAnswer> {
        match proof {
            Proof::None => {}
            Proof::Bearer(token) => drop(headers.insert(AUTHORIZATION, token.clone())),
            Proof::Sigv4(signing) => {
                let time = self.signer.time_at(request.host, now);
                signing.sign(request, headers, time)?;
                return Ok(time);
            }
            Proof::Webhooks(key) => key.sign(request, headers, now)?,
        }
        Ok(now)
    }

    /// Decides whether a refused call may be made once more, since the clock here was wrong and is now corrected by the
    /// host's.
    pub(super) fn corrects(&self, proof: &Proof, host: &str, sent: &Sent) -> bool {
        let server = Server { time: sent.server_time, said: &sent.answer.body };
        matches!(proof, Proof::Sigv4(_)) && self.signer.corrects(host, &server, sent.signed_at, SystemTime::now())
    }
}
