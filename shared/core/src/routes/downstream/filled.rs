//! The parts of an address or a header that come from its batch and the route's secrets: `{target}`, `{batch}` and
//! `{secrets.NAME}`.
//!
//! A Target is text that a task brought along. So it is percent-encoded, whatever it holds, and stays inside the one
//! segment of the path, or the one value of the query or header, where the route put it. It can change neither scheme,
//! nor host, nor the rest of the path. A Target that is a dot segment cannot be encoded so, and makes no call.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use url::{Position, Url};

use crate::domain::id::{BatchId, Target};
use crate::routes::encoding::urlencode;

/// What a header's value does not hold as it is. Characters beyond ASCII are encoded in any case.
const NOT_IN_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Begins the name of a secret in braces.
const SECRETS: &str = "secrets.";

/// What is filled in.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// For `{batch}`: the key of the call.
    pub batch: &'a BatchId,
    /// For `{target}`: what the batch's tasks are grouped by.
    pub target: &'a Target,
    /// The values for `{secrets.NAME}`, by their names.
    pub secrets: &'a BTreeMap<String, String>,
}

impl<'a> Filling<'a> {
    /// Returns what a name in braces stands for.
    fn value(self, name: &str) -> Option<&'a str> {
        match name {
            "batch" => Some(self.batch.as_str()),
            "target" => Some(self.target.value()),
            _ => self.secrets.get(name.strip_prefix(SECRETS)?).map(String::as_str),
        }
    }
}

/// The Target would be `.` or `..` in the path, which no encoding keeps from being climbed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfillable;

/// A URL whose path and query may hold `{target}` and `{batch}`.
#[derive(Clone, Debug)]
pub struct Address(String);

impl Address {
    /// As the routes file says it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its scheme, host and port, which are the same for every call. A file with another one is refused.
    pub(in crate::routes) fn origin(&self) -> Option<Url> {
        parsed(&self.0, "x").ok()
    }

    /// The URL of one call.
    ///
    /// # Errors
    /// [`Unfillable`].
    pub fn filled(&self, with: Filling<'_>) -> Result<Url, Unfillable> {
        let fill_in = |text: &str| fill(text, |name| with.value(name).map(in_url));
        let path = self.0.split(['?', '#']).next().unwrap_or_default();
        let climbs = |segment: &str| {
            let filled = fill_in(segment);
            filled != segment && matches!(filled.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
        };
        if path.split(['/', '\\']).any(climbs) {
            return Err(Unfillable);
        }
        let url = Url::parse(&fill_in(&self.0)).map_err(|_| Unfillable)?;
        // It holds by what was said so far; a URL's grammar is large enough to look twice.
        let is_same = |other: &Url| {
            let of = |url: &Url| (url[..Position::BeforePath].to_owned(), url.path().matches('/').count());
            of(&url) == of(other)
        };
        if self.origin().is_some_and(|origin| is_same(&origin)) { Ok(url) } else { Err(Unfillable) }
    }
}

/// Encodes what a URL carries of a value.
pub fn in_url(value: &str) -> String {
    urlencode(value)
}

/// A header's value in one call. A secret is sent as it is, so that its form is the downstream's own.
pub fn header(text: &str, with: Filling<'_>) -> String {
    let encoded = |value: &str| utf8_percent_encode(value, NOT_IN_HEADER).to_string();
    fill(text, |name| {
        let value = with.value(name)?;
        Some(if name.starts_with(SECRETS) { value.to_owned() } else { encoded(value) })
    })
}

/// A name in braces that stands for nothing: it is sent as it is.
pub(in crate::routes) fn unknown(text: &str) -> Option<&str> {
    let is_word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    placeholders(text).find(|name| !name.is_empty() && is_word(name) && !matches!(*name, "batch" | "target"))
}

/// Lists what stands in braces.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|after| Some(after.split_once('}')?.0))
}

/// Fills in from the left; what was filled in is not looked at again.
fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let name = from[1..].split_once('}').map_or("", |(name, _)| name);
        rest = match value(name) {
            Some(value) => {
                filled.push_str(&value);
                &from[name.len() + 2..]
            }
            None => {
                filled.push('{');
                &from[1..]
            }
        };
    }
    filled + rest
}

fn parsed(written: &str, value: &str) -> Result<Url, url::ParseError> {
    let is_known = |name: &str| matches!(name, "batch" | "target") || name.starts_with(SECRETS);
    Url::parse(&fill(written, |name| is_known(name).then(|| value.to_owned())))
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let no_url = |error| de::Error::custom(format!("`{written}` is no URL: {error}"));
        let (one, other) = (parsed(&written, "x").map_err(no_url)?, parsed(&written, "y").map_err(no_url)?);
        if !(written.starts_with("https://") || written.starts_with("http://")) || !one.has_host() {
            return Err(de::Error::custom(format!("`{written}` must begin with http:// or https://")));
        }
        if one[..Position::BeforePath] != other[..Position::BeforePath] || one.fragment() != other.fragment() {
            let what = "may stand in its path and query only: every call goes to the same host";
            let names = "`{target}`, `{batch}` and `{secrets.NAME}`";
            return Err(de::Error::custom(format!("in `{written}`, {names} {what}")));
        }
        Ok(Self(written))
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::RouteName;

    fn address(written: &str) -> Result<Address, String> {
        let written = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(written);
        Address::deserialize(written).map_err(|error| error.to_string())
    }

    fn filled(written: &str, target: &str) -> Result<String, Unfillable> {
        let (batch, target) = (BatchId::new("b1.1-2"), Target::of(&RouteName::new("r"), target));
        let secrets = BTreeMap::from([("key".to_owned(), "a b/..".to_owned())]);
        let with = Filling { batch: &batch, target: &target, secrets: &secrets };
        address(written).unwrap().filled(with).map(String::from)
    }

    #[test]
    fn a_target_is_one_segment_or_one_value() {
        for (written, target, url) in [
            ("https://a.example/t/{target}/load", "truck 7", "https://a.example/t/truck%207/load"),
            ("https://a.example/t/{target}/load", "../../admin", "https://a.example/t/..%2F..%2Fadmin/load"),
            ("https://a.example/t/{target}", "a?b=c#d", "https://a.example/t/a%3Fb%3Dc%23d"),
            ("https://a.example/t/{target}", "a\\..\\b", "https://a.example/t/a%5C..%5Cb"),
            ("https://a.example/t/{target}", "%2e%2e", "https://a.example/t/%252e%252e"),
            ("https://a.example/t/{target}", "é\r\n\0", "https://a.example/t/%C3%A9%0D%0A%00"),
            ("https://a.example/t-{target}", "..", "https://a.example/t-.."),
            ("https://a.example/?t={target}&b={batch}", "a&b=c+d", "https://a.example/?t=a%26b%3Dc%2Bd&b=b1.1-2"),
            ("https://a.example/{target}", "@evil.example", "https://a.example/%40evil.example"),
            ("https://a.example/{target}", "/evil.example", "https://a.example/%2Fevil.example"),
            ("https://a.example/{target}", "{batch}", "https://a.example/%7Bbatch%7D"),
            ("https://a.example/x", "..", "https://a.example/x"),
            ("https://a.example/{secrets.key}?k={secrets.key}", "t", "https://a.example/a%20b%2F..?k=a%20b%2F.."),
            ("https://a.example/?t={target}", "{secrets.key}", "https://a.example/?t=%7Bsecrets.key%7D"),
        ] {
            assert_eq!(filled(written, target).as_deref(), Ok(url), "{written} with {target}");
        }
    }

    #[test]
    fn a_target_that_would_climb_makes_no_call() {
        for (written, target) in [
            ("https://a.example/t/{target}/load", ".."),
            ("https://a.example/t/{target}", "."),
            ("https://a.example/t/.{target}", "."),
            ("https://a.example/t/%2e{target}?q", "."),
            ("https://a.example/t/{target}{target}", "."),
            ("https://a.example\\{target}\\x", ".."),
        ] {
            assert_eq!(filled(written, target), Err(Unfillable), "{written} with {target}");
        }
    }

    #[test]
    fn only_path_and_query_are_filled() {
        for written in [
            "https://{target}/",
            "https://a.{target}/",
            "https://{target}@a.example/",
            "https://a.example:{batch}/",
            "https://a.example/#{target}",
            "https://{secrets.key}.example/",
            "https://{secrets.key}@a.example/",
            "{target}://a.example/",
            "ftp://a.example/{target}",
        ] {
            assert!(address(written).is_err(), "{written}");
        }
        let told = address("https://{target}.example/").unwrap_err();
        assert!(told.contains("path and query only"), "{told}");
    }

    #[test]
    fn a_header_holds_no_line_feed_and_says_what_it_was() {
        let (batch, target) = (BatchId::new("b1"), Target::of(&RouteName::new("r"), "a b%\r\nX-Evil: é"));
        let secrets = BTreeMap::from([("key".to_owned(), "a %{batch}".to_owned())]);
        let with = Filling { batch: &batch, target: &target, secrets: &secrets };
        assert_eq!(header("{batch}/{target}/{other}", with), "b1/a%20b%25%0D%0AX-Evil:%20%C3%A9/{other}");
        assert_eq!(header("Key {secrets.key}{secrets.other}", with), "Key a %{batch}{secrets.other}");
        assert!(http::HeaderValue::from_str(&header("{target}", with)).is_ok());
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_found() {
        assert_eq!(unknown("{batch}/{tarrget}"), Some("tarrget"));
        for fine in ["", "{target}", "{\"a\": 1}", "{", "{}", "a}{"] {
            assert_eq!(unknown(fine), None, "{fine}");
        }
    }

    proptest! {
        /// Whatever a Target is called: the same host, the same number of segments, and the Target comes out again.
        #[test]
        fn no_target_leaves_its_segment(target in "\\PC{1,20}|[./\\\\%?#@:a]{1,8}|[\\x00-\\x7f]{1,8}") {
            let url = match filled("https://a.example:8443/t/{target}/x?t={target}", &target) {
                Ok(url) => Url::parse(&url).unwrap(),
                Err(Unfillable) => {
                    prop_assert!(matches!(target.as_str(), "." | ".."));
                    return Ok(());
                }
            };
            prop_assert_eq!((url.scheme(), url.host_str(), url.port()), ("https", Some("a.example"), Some(8443)));
            let segments: Vec<&str> = url.path_segments().unwrap().collect();
            prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "t", "x"));
            let decoded = percent_encoding::percent_decode_str(segments[1]).decode_utf8().unwrap();
            prop_assert_eq!(decoded.as_ref(), target.as_str());
            let pairs: Vec<_> = url.query_pairs().collect();
            prop_assert_eq!(pairs.len(), 1);
            prop_assert_eq!(pairs[0].1.as_ref(), target.as_str());
            prop_assert_eq!(url.fragment(), None);
        }
    }
}
