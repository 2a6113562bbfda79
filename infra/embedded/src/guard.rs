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
//! | if it does not bring the key, or for a page of the console what a browser brings instead | another user's program, or one that does not know of this stack |
//!
//! A browser sends no key. The console's link holds a secret that follows from the key, and is exchanged for a cookie
//! that holds another; nobody can tell the key from either.
//!
//! No answer has a CORS header. The key is a bearer secret: it is not signed with, and a process that can read the
//! traffic of the loopback device knows it.

use std::{fmt, sync::Arc};

use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use sha2::{Digest, Sha256};
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

    /// Another secret that follows from this one, for one purpose.
    pub fn derived(&self, purpose: &str) -> Self {
        let digest = Sha256::new().chain_update(purpose).chain_update([0]).chain_update(self.reveal()).finalize();
        Self(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// Whether somebody brought it.
    fn is(&self, brought: &str) -> bool {
        brought.as_bytes().ct_eq(self.reveal().as_bytes()).into()
    }
}

/// What the console's link holds, by what it follows from.
pub const LINK: &str = "the link to the console";
/// What the cookie holds that the link is exchanged for.
pub const COOKIE_OF_LINK: &str = "the console's cookie";
/// What the console's forms hold.
pub const FORM: &str = "the console's forms";

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
    /// The console's pages, below `/console`, are for browsers: they bring the cookie, or at first the link's secret.
    Api,
}

/// Where the API describes itself.
const DESCRIPTION: &str = "/openapi.json";
/// Where the console's pages are.
const CONSOLE: &str = "/console";

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
    /// A page of the console was asked for without its link's secret or cookie.
    #[error("open the console by its link, with the key that `groupage local` or `groupage console` prints")]
    NoPass,
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
        let path = request.uri().path();
        match self.door {
            Door::Api if path == DESCRIPTION => Ok(()),
            Door::Api if path.strip_prefix(CONSOLE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) => {
                self.check_pass(port, request)
            }
            Door::Api | Door::Aws => self.check_key(headers),
        }
    }

    /// What a browser brings. The link's secret opens the console's first page alone, which gives the cookie for it.
    fn check_pass<B>(&self, port: u16, request: &Request<B>) -> Result<(), Refusal> {
        let cookie = self.key.derived(COOKIE_OF_LINK);
        let name = format!("groupage-{port}=");
        let texts = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut brought = texts.flat_map(|text| text.split(';')).filter_map(|one| one.trim().strip_prefix(&name));
        let has_cookie = brought.any(|brought| cookie.is(brought));
        let uri = request.uri();
        let link = uri.query().and_then(|query| query.strip_prefix("key="));
        let has_link = uri.path() == CONSOLE && link.is_some_and(|link| self.key.derived(LINK).is(link));
        if has_cookie || has_link { Ok(()) } else { Err(Refusal::NoPass) }
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
        if self.key.is(brought) { Ok(()) } else { Err(Refusal::OtherKey) }
    }

    /// What a refused request is answered.
    pub fn refuse<B: From<String>>(&self, refusal: Refusal) -> Response<B> {
        let status = match refusal {
            Refusal::Host | Refusal::Page => StatusCode::FORBIDDEN,
            Refusal::NoPass => StatusCode::UNAUTHORIZED,
            Refusal::NoKey | Refusal::OtherKey => match self.door {
                // SDKs show the name of the error and its message.
                Door::Aws => StatusCode::FORBIDDEN,
                Door::Api => StatusCode::UNAUTHORIZED,
            },
        };
        let (media_type, body) = match self.door {
            Door::Aws => (
                "application/x-amz-json-1.0",
                serde_json::json!({ "__type": "UnrecognizedClientException", "message": refusal.to_string() })
                    .to_string(),
            ),
            // A person reads it.
            Door::Api if refusal == Refusal::NoPass => ("text/plain; charset=utf-8", format!("{refusal}\n")),
            Door::Api => (
                "application/problem+json",
                serde_json::json!({
                    "type": "urn:groupage:refused", "title": "The request is refused", "status": status.as_u16(),
                    "detail": refusal.to_string(),
                })
                .to_string(),
            ),
        };
        let mut response = Response::new(B::from(body));
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

    /// Asks for a page of the console.
    fn page(path: &str, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Guard::new(Door::Api, Key::from("secret".to_owned())).admit(PORT, &request.body(()).unwrap())
    }

    #[test]
    fn a_page_of_the_console_is_for_its_link_once_and_for_its_cookie_afterwards() {
        let key = Key::from("secret".to_owned());
        let (link, value) = (key.derived(LINK), key.derived(COOKIE_OF_LINK));
        let own = format!("other=1; groupage-8000={}", value.reveal());
        let cookie = ("cookie", own.as_str());
        assert_eq!(page("/console/overview", &[HOST, cookie]), Ok(()));
        assert_eq!(page(&format!("/console?key={}", link.reveal()), &[HOST]), Ok(()));
        for (path, headers) in [
            ("/console/overview".to_owned(), vec![HOST]),
            ("/console".to_owned(), vec![HOST, BEARER]),
            (format!("/console/overview?key={}", link.reveal()), vec![HOST]),
            ("/console?key=secret".to_owned(), vec![HOST]),
            (format!("/console?key={}", value.reveal()), vec![HOST]),
            ("/console/live/overview".to_owned(), vec![HOST, ("cookie", "groupage-8000=secret")]),
            ("/console/overview".to_owned(), vec![HOST, ("cookie", "groupage-8000=")]),
        ] {
            assert_eq!(page(&path, &headers), Err(Refusal::NoPass), "{path} {headers:?}");
        }
        let of_other_port = own.replace("8000", "8001");
        assert_eq!(page("/console/overview", &[HOST, ("cookie", &of_other_port)]), Err(Refusal::NoPass));
        assert_eq!(page("/tasks/t", &[HOST, cookie]), Err(Refusal::NoKey), "a browser's cookie is no key");
        assert_eq!(page("/consoles", &[HOST, cookie]), Err(Refusal::NoKey));
    }

    #[test]
    fn another_origins_page_does_not_get_in_with_the_cookie() {
        let own = format!("groupage-8000={}", Key::from("secret".to_owned()).derived(COOKIE_OF_LINK).reveal());
        let cookie = ("cookie", own.as_str());
        for site in ["cross-site", "same-site"] {
            assert_eq!(page("/console/overview", &[HOST, cookie, ("sec-fetch-site", site)]), Err(Refusal::Page));
        }
        let rebound = ("host", "evil.example:8000");
        assert_eq!(page("/console/overview", &[rebound, cookie]), Err(Refusal::Host));
    }

    #[test]
    fn what_follows_from_a_key_is_another_secret_for_each_purpose() {
        let key = Key::from("secret".to_owned());
        let [link, cookie, form] = [LINK, COOKIE_OF_LINK, FORM].map(|purpose| key.derived(purpose));
        assert!(link != cookie && cookie != form && form != link && link != key);
        assert_eq!(link.reveal().len(), 32);
        assert_ne!(link, Key::from("other".to_owned()).derived(LINK));
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
