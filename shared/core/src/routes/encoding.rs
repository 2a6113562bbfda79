//! Text as other formats write it.

use base64::prelude::{BASE64_STANDARD, Engine};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that a URL's part may hold as they are: RFC 3986's unreserved ones.
const IN_URL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text for a URL's part, a query or a form: all but RFC 3986's unreserved characters.
pub(super) fn urlencode(text: &str) -> String {
    utf8_percent_encode(text, IN_URL).to_string()
}

/// Encodes a text's bytes in Base64.
pub(super) fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// Escapes a text for an element or an attribute of XML.
pub(super) fn xmlescape(text: &str) -> String {
    // XML has no way to say these characters.
    let is_none = |c: char| matches!(c, '\0'..'\t' | '\u{b}' | '\u{c}' | '\u{e}'..' ' | '\u{fffe}' | '\u{ffff}');
    let text = text.replace(is_none, "\u{fffd}");
    quick_xml::escape::escape(&text).into_owned()
}
