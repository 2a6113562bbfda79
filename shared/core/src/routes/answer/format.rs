//! The formats of answers, as the JSON that expressions look into.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::unbelievable::{MAX_VALUES, Unbelievable};
use super::xml;
use crate::routes::expression::Data;

/// The format of an answer's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Format {
    /// One JSON value.
    #[default]
    Json,
    /// A JSON value on each line: a list of these.
    Ndjson,
    /// XML: an object with the root element. An element with neither attributes nor elements in it is its text. Any
    /// other is an object: each child's name has the list of those children, `@NAME` an attribute, `#text` the text.
    /// Prefixes of namespaces are left out.
    Xml,
    /// The text as it is.
    Text,
}

/// Returns what a body is that is no JSON.
pub(super) fn not_json(body: &[u8]) -> Unbelievable {
    let begins = String::from_utf8_lossy(body.get(..100).unwrap_or(body)).trim_start().to_ascii_lowercase();
    // A byte order mark, or a character of ASCII.
    let is_wide = |pair: &[u8]| matches!(pair, [0xff, 0xfe] | [0xfe, 0xff]) || pair.contains(&0);
    if body.get(..2).is_some_and(is_wide) {
        Unbelievable::Utf16
    } else if begins.starts_with("<!doctype html") || begins.starts_with("<html") {
        Unbelievable::Html
    } else if begins.starts_with('<') {
        Unbelievable::Xml
    } else if serde_json::from_slice::<IgnoredAny>(body).is_err_and(|error| error.is_eof()) {
        Unbelievable::Cut
    } else {
        Unbelievable::NotJson
    }
}

/// Returns a body as text, without a byte order mark.
pub(super) fn text_of(body: &[u8]) -> Result<&str, Unbelievable> {
    std::str::from_utf8(body).map(|text| text.trim_start_matches('\u{feff}')).map_err(|_| not_json(body))
}

impl Format {
    /// Reads a body.
    pub(super) fn parse(self, body: &[u8]) -> Result<Data, Unbelievable> {
        let text = text_of(body).map_err(|why| match (self, why) {
            (Self::Xml, Unbelievable::Xml) => Unbelievable::NotXml,
            _ => why,
        })?;
        // An expression may make 2 KB of each: not of as many as a megabyte could hold. Those of XML are counted as
        // they are read.
        let is_value = |byte: &u8| matches!((self, byte), (Self::Json | Self::Ndjson, b',' | b'[' | b'{'));
        let is_line = |byte: &u8| self == Self::Ndjson && *byte == b'\n';
        if text.as_bytes().iter().filter(|byte| is_value(byte) || is_line(byte)).count() > MAX_VALUES {
            return Err(Unbelievable::TooLarge);
        }
        let is_page = || not_json(body) == Unbelievable::Html;
        match self {
            Self::Json => Data::parse(text).map_err(|_| not_json(body)),
            Self::Ndjson => ndjson(text),
            Self::Xml => xml::parse(text).map_err(|why| if is_page() { Unbelievable::Html } else { why }),
            Self::Text if is_page() => Err(Unbelievable::Html),
            Self::Text => Ok(Data::text(text)),
        }
    }
}

/// Reads a JSON value from each line. Only the last one may be cut off.
fn ndjson(text: &str) -> Result<Data, Unbelievable> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let read = |(number, line): (usize, &&str)| {
        Data::parse(line).map_err(|_| match not_json(line.as_bytes()) {
            Unbelievable::Cut if number + 1 < lines.len() => Unbelievable::NotJson,
            why => why,
        })
    };
    lines.iter().enumerate().map(read).collect::<Result<_, _>>().map(Data::list)
}
