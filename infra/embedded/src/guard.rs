//! Who may speak to the servers of this machine's stack: its owner's programs, and no web page.
//!
//! A listener on loopback is reached by every process of the machine, by every user of it, and by every page that a
//! browser shows. So each listener asks here before anything else looks at a request. A refused request changes nothing
//! and reads nothing, not even its own body.
//!
//! | a request is refused | since it may come from |
//! |---|---|
//! | if its `Host` is not this listener | a page whose name was pointed at 127.0.0.1 after it was loaded (DNS rebinding) |
//! | if it has the `Origin` of another, or `Sec-Fetch-Site` says so | a page of another origin; other ports of this machine are others, too |
//! | if it does not bring the key | another user's program, or one that does not know of this stack |
//!
//! No answer has a CORS header. The key is a bearer secret: it is not signed with, and a process that can read the
//! traffic of the loopback device knows it.

use std::{fmt, sync::Arc};

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use subtle::ConstantTimeEq;

/// What a program must know to speak to a stack.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

impl Key {
    /// A new one that nobody can guess.
    pub fn random() -> Self {
        Self::from(uuid::Uuid::new_v4().simple().to_string())
    }

    /// As it is written into files and sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// What kind of requests come to a listener: how they bring the key, and how they are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// As AWS's SDKs sign them: the key is the access key id of the signature. It is not looked whether the signature
    /// is right.
    Aws,
    /// `Authorization: Bearer KEY`. The API's description of itself says nothing about a stack, so anybody may read it.
    Api,
}

/// Where the API describes itself.
const DESCRIPTION: &str = "/openapi.json";

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is for another host.
    #[error("the Host header does not name this server; use the address that `groupage local` prints")]
    Host,
    /// A page of another origin sent it.
    #[error("a web page of another origin may not use this server")]
    Page,
    /// It brings no key.
    #[error("the request brings no key; use the environment lines that `groupage local` prints")]
    NoKey,
    /// It brings another key.
    #[error("the key is not the one of this data folder; use the environment lines that `groupage local` prints")]
    OtherKey,
}

/// Who may come through one listener.
#[derive(Clone, Debug)]
pub struct Guard {
    door: Door,
    key: Key,
}

impl Guard {
    /// For a listener of this kind.
    pub fn new(door: Door, key: Key) -> Self {
        Self { door, key }
    }

    /// Whether a request may come to the listener on this port.
    pub fn admit<B>(&self, port: u16, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = host(headers, request.uri()).filter(|host| is_known(host, port)).ok_or(Refusal::Host)?;
        if is_of_another_page(headers, host) {
            return Err(Refusal::Page);
        }
        let is_open = self.door == Door::Api && request.uri().path() == DESCRIPTION;
        if is_open { Ok(()) } else { self.check_key(headers) }
    }

    fn check_key(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).ok_or(Refusal::NoKey)?;
        let brought = match self.door {
            Door::Aws => authorization
                .strip_prefix("AWS4-HMAC-SHA256 ")
                .and_then(|signature| signature.split(',').find_map(|part| part.trim().strip_prefix("Credential=")))
                .and_then(|credential| credential.split('/').next()),
            Door::Api => authorization.strip_prefix("Bearer ").map(str::trim),
        };
        let brought = brought.ok_or(Refusal::NoKey)?;
        if bool::from(brought.as_bytes().ct_eq(self.key.reveal().as_bytes())) { Ok(()) } else { Err(Refusal::OtherKey) }
    }

    /// What a refused request is answered.
    pub fn refuse<B: From<String>>(&self, refusal: Refusal) -> Response<B> {
        let status = match refusal {
            Refusal::Host | Refusal::Page => StatusCode::FORBIDDEN,
            Refusal::NoKey | Refusal::OtherKey => match self.door {
                // SDKs show the name of the error and its message.
                Door::Aws => StatusCode::FORBIDDEN,
                Door::Api => StatusCode::UNAUTHORIZED,
            },
        };
        let (media_type, body) = match self.door {
            Door::Aws => (
                "application/x-amz-json-1.0",
                serde_json::json!({ "__type": "UnrecognizedClientException", "message": refusal.to_string() }),
            ),
            Door::Api => (
                "application/problem+json",
                serde_json::json!({
                    "type": "urn:groupage:refused", "title": "The request is refused", "status": status.as_u16(),
                    "detail": refusal.to_string(),
                }),
            ),
        };
        let mut response = Response::new(B::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(media_type));
        response
    }
}

/// Removes what lets pages of other origins read an answer.
pub fn keep_to_oneself<B>(response: &mut Response<B>) {
    let cors: Vec<_> =
        response.headers().keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in cors {
        response.headers_mut().remove(name);
    }
}

/// The one host that a request is for; `None` if it names none or several.
fn host<'a>(headers: &'a HeaderMap, uri: &Uri) -> Option<&'a str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    let is_alone = hosts.next().is_none() && uri.authority().is_none_or(|authority| authority.as_str() == host);
    is_alone.then_some(host)
}

/// Names that no name server can point elsewhere.
fn is_known(host: &str, port: u16) -> bool {
    let name = host.strip_suffix(&port.to_string()).and_then(|name| name.strip_suffix(':'));
    name.is_some_and(|name| name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost"))
}

/// Browsers say where a request comes from, and pages cannot change that. What is no browser says nothing.
fn is_of_another_page(headers: &HeaderMap, host: &str) -> bool {
    let is_other = |name: &str, is_own: &dyn Fn(&[u8]) -> bool| {
        headers.get_all(name).iter().any(|value| !is_own(value.as_bytes()))
    };
    is_other(ORIGIN.as_str(), &|origin| origin == format!("http://{host}").as_bytes())
        || is_other("sec-fetch-site", &|site| site == b"none" || site == b"same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 8000;

    fn ask(door: Door, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Guard::new(door, Key::from("secret".to_owned())).admit(PORT, &request.body(()).unwrap())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8000");
    const SIGNED: (&str, &str) = (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=secret/20261124/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
    );
    const BEARER: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn what_the_owner_of_the_key_sends_is_admitted() {
        assert_eq!(ask(Door::Aws, &[HOST, SIGNED]), Ok(()));
        assert_eq!(ask(Door::Aws, &[("host", "localhost:8000"), SIGNED]), Ok(()));
        assert_eq!(ask(Door::Api, &[HOST, BEARER]), Ok(()));
        let own_page = [HOST, BEARER, ("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask(Door::Api, &own_page), Ok(()));
        assert_eq!(ask(Door::Api, &[HOST, BEARER, ("sec-fetch-site", "none")]), Ok(()), "typed by a person");
    }

    #[test]
    fn another_host_is_refused_whatever_else_is_right() {
        for host in [
            "evil.example:8000",
            "127.0.0.1",
            "127.0.0.1:8001",
            "127.0.0.1.evil.example:8000",
            "localhost",
            ":8000",
            "",
        ] {
            assert_eq!(ask(Door::Aws, &[("host", host), SIGNED]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(ask(Door::Aws, &[SIGNED]), Err(Refusal::Host), "none");
        assert_eq!(ask(Door::Aws, &[HOST, ("host", "evil.example:8000"), SIGNED]), Err(Refusal::Host), "two");
        let request = Request::post("http://evil.example:8000/").header("host", HOST.1).header(SIGNED.0, SIGNED.1);
        let guard = Guard::new(Door::Aws, Key::from("secret".to_owned()));
        assert_eq!(guard.admit(PORT, &request.body(()).unwrap()), Err(Refusal::Host), "the line says another");
    }

    #[test]
    fn a_page_of_another_origin_is_refused_whatever_else_is_right() {
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "http://localhost:8000"]
        {
            assert_eq!(ask(Door::Api, &[HOST, BEARER, ("origin", origin)]), Err(Refusal::Page), "{origin}");
        }
        for site in ["cross-site", "same-site", "nonsense"] {
            assert_eq!(ask(Door::Api, &[HOST, BEARER, ("sec-fetch-site", site)]), Err(Refusal::Page), "{site}");
        }
    }

    #[test]
    fn without_the_key_nothing_but_the_description_is_given() {
        assert_eq!(ask(Door::Aws, &[HOST]), Err(Refusal::NoKey));
        assert_eq!(ask(Door::Aws, &[HOST, BEARER]), Err(Refusal::NoKey));
        assert_eq!(ask(Door::Api, &[HOST, SIGNED]), Err(Refusal::NoKey));
        assert_eq!(ask(Door::Api, &[HOST, ("authorization", "Bearer secre")]), Err(Refusal::OtherKey));
        let other =
            "AWS4-HMAC-SHA256 Credential=test/20261124/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(ask(Door::Aws, &[HOST, ("authorization", other)]), Err(Refusal::OtherKey));
        let description = |door| {
            let request = Request::get("/openapi.json").header("host", HOST.1).body(()).unwrap();
            Guard::new(door, Key::random()).admit(PORT, &request)
        };
        assert_eq!(description(Door::Api), Ok(()));
        assert_eq!(description(Door::Aws), Err(Refusal::NoKey));
    }

    #[test]
    fn no_answer_may_be_read_by_other_origins() {
        let response =
            Response::builder().header("access-control-allow-origin", "*").header("content-type", "text/plain");
        let mut response = response.body(()).unwrap();
        keep_to_oneself(&mut response);
        assert_eq!(response.headers().len(), 1);
    }

    #[test]
    fn a_key_is_not_printed_by_accident() {
        let key = Key::random();
        assert!(!format!("{key:?}").contains(key.reveal()));
        assert_eq!(key.reveal().len(), 32);
    }
}
