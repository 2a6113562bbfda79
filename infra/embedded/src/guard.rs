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
//! A browser sends no key. The console's link holds a pass that follows from the key and ends a day after it was
//! printed. It is exchanged for two others. The cookie opens pages, and reaches each server of this machine that the
//! browser visits. The pass for acts can be read by the console's own pages only.
//!
//! No answer has a CORS header. The key is a bearer secret: it is not signed with, and a process that can read the
//! traffic of the loopback device knows it.

mod key;
mod patience;

use groupage_core::domain::Timestamp;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};

pub use key::{Key, Opens};
pub(crate) use patience::Patience;

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
    #[error("open the console by its link, which works for a day: `groupage console` prints a new one")]
    NoPass,
    /// Its body does not come to an end.
    #[error("the request did not come to its end in time")]
    Slow,
}

/// Who sends a request that is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// A program that brings the key, or a browser that brings a pass.
    Owner,
    /// Somebody who asks for what anybody may read.
    Anybody,
}

/// Who may come through one listener.
#[derive(Clone, Debug)]
pub struct Guard {
    door: Door,
    key: Key,
    pub(crate) patience: Patience,
}

impl Guard {
    /// For a listener of this kind.
    pub fn new(door: Door, key: Key) -> Self {
        Self { door, key, patience: Patience::default() }
    }

    /// Whether a request may come to the listener on this port, and who sends it.
    pub fn admit<B>(&self, port: u16, now: Timestamp, request: &Request<B>) -> Result<Admitted, Refusal> {
        let headers = request.headers();
        let host = host(headers, request.uri()).filter(|host| is_known(host, port)).ok_or(Refusal::Host)?;
        if is_of_another_page(headers, host) {
            return Err(Refusal::Page);
        }
        let path = request.uri().path();
        match self.door {
            Door::Api if path == DESCRIPTION => return Ok(Admitted::Anybody),
            Door::Api if path.strip_prefix(CONSOLE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) => {
                self.check_pass(port, now, request)?;
            }
            Door::Api | Door::Aws => self.check_key(headers)?,
        }
        Ok(Admitted::Owner)
    }

    /// What a browser brings. The link's pass opens the console's first page alone, which gives the others for it.
    fn check_pass<B>(&self, port: u16, now: Timestamp, request: &Request<B>) -> Result<(), Refusal> {
        // Browsers say of every form where it comes from.
        if request.method() != Method::GET && !request.headers().contains_key(ORIGIN) {
            return Err(Refusal::Page);
        }
        let name = format!("groupage-{port}=");
        let texts = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut brought = texts.flat_map(|text| text.split(';')).filter_map(|one| one.trim().strip_prefix(&name));
        let has_cookie = brought.any(|brought| self.key.admits(Opens::Pages, brought, now));
        let uri = request.uri();
        let link = uri.query().and_then(|query| query.strip_prefix("key="));
        let has_link = uri.path() == CONSOLE && link.is_some_and(|link| self.key.admits(Opens::Console, link, now));
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
            Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
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
    const NOW: Timestamp = Timestamp(1_000);

    fn ask(door: Door, headers: &[(&'static str, &str)]) -> Result<Admitted, Refusal> {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Guard::new(door, Key::from("secret".to_owned())).admit(PORT, NOW, &request.body(()).unwrap())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8000");
    const SIGNED: (&str, &str) = (
        "authorization",
        "AWS4-HMAC-SHA256 Credential=secret/20261124/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
    );
    const BEARER: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn what_the_owner_of_the_key_sends_is_admitted() {
        assert_eq!(ask(Door::Aws, &[HOST, SIGNED]), Ok(Admitted::Owner));
        assert_eq!(ask(Door::Aws, &[("host", "localhost:8000"), SIGNED]), Ok(Admitted::Owner));
        assert_eq!(ask(Door::Api, &[HOST, BEARER]), Ok(Admitted::Owner));
        let own_page = [HOST, BEARER, ("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask(Door::Api, &own_page), Ok(Admitted::Owner));
        assert_eq!(
            ask(Door::Api, &[HOST, BEARER, ("sec-fetch-site", "none")]),
            Ok(Admitted::Owner),
            "typed by a person"
        );
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
        assert_eq!(guard.admit(PORT, NOW, &request.body(()).unwrap()), Err(Refusal::Host), "the line says another");
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
            Guard::new(door, Key::random()).admit(PORT, NOW, &request)
        };
        assert_eq!(description(Door::Api), Ok(Admitted::Anybody));
        assert_eq!(description(Door::Aws), Err(Refusal::NoKey));
    }

    /// Asks for a page of the console, or sends one of its forms.
    fn page(method: Method, path: &str, headers: &[(&'static str, &str)]) -> Result<Admitted, Refusal> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Guard::new(Door::Api, Key::from("secret".to_owned())).admit(PORT, NOW, &request.body(()).unwrap())
    }

    /// A pass of the key that `page` asks with.
    fn pass(opens: Opens, until: Timestamp) -> String {
        Key::from("secret".to_owned()).pass(opens, until)
    }

    fn cookie() -> String {
        format!("other=1; groupage-8000={}", pass(Opens::Pages, NOW.plus_ms(1)))
    }

    #[test]
    fn a_page_of_the_console_is_for_its_link_once_and_for_its_cookie_afterwards() {
        let (link, own) = (pass(Opens::Console, NOW.plus_ms(1)), cookie());
        let cookie = ("cookie", own.as_str());
        let get = |path: &str, headers: &[(&'static str, &str)]| page(Method::GET, path, headers);
        assert_eq!(get("/console/overview", &[HOST, cookie]), Ok(Admitted::Owner));
        assert_eq!(get(&format!("/console?key={link}"), &[HOST]), Ok(Admitted::Owner));
        let ended = format!("groupage-8000={}", pass(Opens::Pages, NOW));
        for (path, headers) in [
            ("/console/overview".to_owned(), vec![HOST]),
            ("/console".to_owned(), vec![HOST, BEARER]),
            (format!("/console/overview?key={link}"), vec![HOST]),
            ("/console?key=secret".to_owned(), vec![HOST]),
            (format!("/console?key={}", pass(Opens::Console, NOW)), vec![HOST]),
            (format!("/console?key={}", pass(Opens::Acts, NOW.plus_ms(1))), vec![HOST]),
            ("/console/overview".to_owned(), vec![HOST, ("cookie", &ended)]),
            ("/console/live/overview".to_owned(), vec![HOST, ("cookie", "groupage-8000=secret")]),
            ("/console/overview".to_owned(), vec![HOST, ("cookie", "groupage-8000=")]),
        ] {
            assert_eq!(get(&path, &headers), Err(Refusal::NoPass), "{path} {headers:?}");
        }
        let of_other_port = own.replace("8000", "8001");
        assert_eq!(get("/console/overview", &[HOST, ("cookie", &of_other_port)]), Err(Refusal::NoPass));
        assert_eq!(get("/tasks/t", &[HOST, cookie]), Err(Refusal::NoKey), "a browser's cookie is no key");
        assert_eq!(get("/consoles", &[HOST, cookie]), Err(Refusal::NoKey));
    }

    #[test]
    fn another_origins_page_does_not_get_in_with_the_cookie() {
        let own = cookie();
        let cookie = ("cookie", own.as_str());
        for site in ["cross-site", "same-site"] {
            let headers = [HOST, cookie, ("sec-fetch-site", site)];
            assert_eq!(page(Method::GET, "/console/overview", &headers), Err(Refusal::Page));
        }
        let rebound = ("host", "evil.example:8000");
        assert_eq!(page(Method::GET, "/console/overview", &[rebound, cookie]), Err(Refusal::Host));
        for origin in [None, Some("http://127.0.0.1:8001"), Some("null")] {
            let headers: Vec<_> = [HOST, cookie].into_iter().chain(origin.map(|origin| ("origin", origin))).collect();
            assert_eq!(page(Method::POST, "/console/act", &headers), Err(Refusal::Page), "{origin:?}");
        }
        let form = [HOST, cookie, ("origin", "http://127.0.0.1:8000")];
        assert_eq!(page(Method::POST, "/console/act", &form), Ok(Admitted::Owner));
    }

    #[test]
    fn no_answer_may_be_read_by_other_origins() {
        let response =
            Response::builder().header("access-control-allow-origin", "*").header("content-type", "text/plain");
        let mut response = response.body(()).unwrap();
        keep_to_oneself(&mut response);
        assert_eq!(response.headers().len(), 1);
    }
}
