//! What comes back from a downstream, before a route says what it means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::{Reason, outage};

/// The largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// What a downstream answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's status code; 200 for a Lambda function that returned.
    pub status: u16,
    /// What `Retry-After` asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// HTTP's headers, by their names in lower case. Values of one name are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// Set if the body is known not to be whole: it stalled, broke off, was too large or could not be decoded. Only an
    /// answer that is no 2xx is given all the same.
    pub is_cut: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection was refused or reset, before or within the answer.
    Connection,
    /// No complete answer within the route's timeout.
    Timeout,
    /// The answer is larger than any answer may be.
    TooLarge,
    /// The answer came in a form that no route's settings can read.
    Unreadable(Reason),
    /// The call could not be made as it is configured, for example for want of a secret: no call of its route can.
    Misconfigured(Reason),
    /// The called side says that it failed, and nothing of the members: a command's exit code.
    Failed(Reason),
    /// This call is refused for good, before or by the downstream, which has no status to say so.
    Refused(Reason),
    /// This call is larger than the downstream takes; parts of it may not be.
    Oversized(Reason),
    /// Anything else.
    Other(Reason),
}

/// The beginning of an answer to a call that failed, for people who look into that. It may quote a payload: it is shown
/// to a person who asks for the failed task, and never logged or sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Excerpt {
    /// HTTP's status code.
    pub status: u16,
    /// Printable text, in one line.
    pub text: String,
}

/// HTTP's status for a call that is larger than the downstream takes.
const CONTENT_TOO_LARGE: u16 = 413;

/// Whether calls of fewer members may do better: the call, or its answer, was too large.
pub fn is_oversized(answer: &Result<Answer, NoAnswer>) -> bool {
    match answer {
        Ok(answer) => answer.status == CONTENT_TOO_LARGE,
        Err(NoAnswer::Oversized(_) | NoAnswer::TooLarge) => true,
        Err(
            NoAnswer::Connection
            | NoAnswer::Timeout
            | NoAnswer::Unreadable(_)
            | NoAnswer::Misconfigured(_)
            | NoAnswer::Failed(_)
            | NoAnswer::Refused(_)
            | NoAnswer::Other(_),
        ) => false,
    }
}

/// The longest excerpt, in bytes. Two hundred say what is wrong, and keep a task of a few hundred bytes in its write
/// unit.
pub const MAX_EXCERPT_BYTES: usize = 200;
/// Reasons of one batch of which an excerpt is kept: few, so that the largest batch stays inside its item.
const MAX_EXCERPTS: usize = 4;

impl Answer {
    /// What is kept of it, if the call failed.
    pub fn excerpt(&self) -> Excerpt {
        Excerpt { status: self.status, text: printable(&self.body) }
    }
}

/// The first printable characters, with each run of all others as one space.
fn printable(body: &[u8]) -> String {
    // A character has four bytes at most, and much of the beginning may be white space.
    let beginning = String::from_utf8_lossy(body.get(..8 * MAX_EXCERPT_BYTES).unwrap_or(body));
    let is_shown = |c: char| !c.is_control() && !c.is_whitespace() && c != char::REPLACEMENT_CHARACTER;
    let mut text = String::new();
    for word in beginning.split(|c: char| !is_shown(c)).filter(|word| !word.is_empty()) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text.truncate(text.floor_char_boundary(MAX_EXCERPT_BYTES));
    text
}

/// What a batch's calls were answered, by the reasons for which its members fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Excerpts(BTreeMap<Reason, Excerpt>);

impl Excerpts {
    /// With what was said last for this reason. Of more than a few reasons the first ones count.
    pub fn with(mut self, reason: Reason, excerpt: Excerpt) -> Self {
        if self.0.len() < MAX_EXCERPTS || self.0.contains_key(&reason) {
            self.0.insert(reason, excerpt);
        }
        self
    }

    /// What was said for this reason, or for the last failure of the outage that it is.
    pub fn of(&self, reason: &Reason) -> Option<&Excerpt> {
        let ended = |(last, _): &(&Reason, &Excerpt)| outage(last) == *reason;
        self.0.get(reason).or_else(|| self.0.iter().find(ended).map(|(_, excerpt)| excerpt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(body: &[u8]) -> String {
        Answer { status: 422, body: body.to_vec(), ..Answer::default() }.excerpt().text
    }

    #[test]
    fn an_excerpt_is_short_printable_and_in_one_line() {
        assert_eq!(excerpt(b"\x1b[31mtoo\r\n\theavy\0"), "[31mtoo heavy");
        assert_eq!(excerpt(b"\xff\xfe ok"), "ok");
        assert_eq!(excerpt("é".repeat(5_000).as_bytes()).len(), MAX_EXCERPT_BYTES);
        assert_eq!(excerpt(b""), "");
    }

    #[test]
    fn a_batch_keeps_few_excerpts_and_the_last_of_each_reason() {
        let reason = |n: u16| Reason::new(format!("http_{n}"));
        let text = |n: u16| Excerpt { status: n, text: n.to_string() };
        let many = (400..410).fold(Excerpts::default(), |kept, n| kept.with(reason(n), text(n)));
        assert_eq!((many.of(&reason(403)), many.of(&reason(404))), (Some(&text(403)), None));
        assert_eq!(many.of(&outage(&reason(403))), Some(&text(403)), "a task that is given up in an outage");
        let again = many.with(reason(400), text(999));
        assert_eq!(again.of(&reason(400)), Some(&text(999)));
    }
}
