//! The input, line by line: each is a task, a repeat of an earlier line, or a mistake.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Read};

use groupage_core::domain::id::{MAX_TRACKER_ID_BYTES, TaskId, digest};
use groupage_core::domain::json::compact;
use groupage_core::domain::task_message::{MAX_MESSAGE_BYTES, TaskMessage, parse};

/// The longest line that is looked at. White space may make it longer than a message may be, within reason.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// What an item adds to a message at most, in bytes.
const MAX_ITEM_BYTES: usize = r#","item":"::""#.len() + MAX_TRACKER_ID_BYTES + "4294967295".len() + "7167".len();
/// What the times add that the command line gives, in bytes.
const MAX_TIME_BYTES: usize = 2 * r#","expires_at":"2026-12-31T23:59:59.999Z""#.len();

/// Said of a JSON list, whose lines would all be refused one by one.
const ONE_A_LINE: &str =
    "the input is a JSON list, and must be one JSON object a line: `jq -c '.[]' FILE` writes it so";

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1, blank lines included.
    pub number: u64,
    /// Bytes of input up to its end that no earlier line counted.
    pub bytes: u64,
    /// What it says.
    pub content: Content,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    Task(TaskMessage),
    /// The same task as an earlier line.
    Repeated,
    /// Nothing that could ever become a task, and why.
    Bad(String),
}

/// Reads lines and checks them.
pub struct Lines<R> {
    source: R,
    number: u64,
    /// Bytes read since the last line that was returned.
    bytes: u64,
    /// Every task so far, with its line and the digest of its payload.
    seen: HashMap<TaskId, (u64, String)>,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads from `source`.
    pub fn new(source: R) -> Self {
        Self { source, number: 0, bytes: 0, seen: HashMap::new(), ended: false }
    }

    /// The next line that is not blank.
    fn line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut text = Vec::new();
            let read = (&mut self.source).take(MAX_LINE_BYTES).read_until(b'\n', &mut text)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read;
            if self.number == 1 && text.trim_ascii_start().starts_with(b"[") {
                return Err(io::Error::new(io::ErrorKind::InvalidData, ONE_A_LINE));
            }
            let content = if read == MAX_LINE_BYTES && text.last() != Some(&b'\n') {
                self.bytes += self.source.skip_until(b'\n')? as u64;
                Content::Bad(format!("too_large: the line is over {MAX_LINE_BYTES} bytes"))
            } else {
                match self.content(&text) {
                    Some(content) => content,
                    None => continue,
                }
            };
            return Ok(Some(Line { number: self.number, bytes: std::mem::take(&mut self.bytes), content }));
        }
    }

    /// What a line says; `None` if it is blank.
    fn content(&mut self, line: &[u8]) -> Option<Content> {
        let Ok(text) = std::str::from_utf8(line) else {
            return Some(Content::Bad("not_json: the line is not UTF-8".to_owned()));
        };
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').filter(|_| self.number == 1).unwrap_or(text).trim();
        if text.is_empty() {
            return None;
        }
        // The id of a task that brings none: white space does not make it another task.
        let derived = digest(&[&compact(text)]);
        Some(match parse(text, &derived) {
            Ok(message) => self.task(message),
            Err(rejection) => Content::Bad(rejection.to_string()),
        })
    }

    fn task(&mut self, message: TaskMessage) -> Content {
        // An item's id and times may still come into it.
        if message.body().len() + MAX_ITEM_BYTES + MAX_TIME_BYTES > MAX_MESSAGE_BYTES {
            return Content::Bad(format!("too_large: the message is over {MAX_MESSAGE_BYTES} bytes"));
        }
        let digest = message.digest();
        match self.seen.entry(message.id.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert((self.number, digest));
                Content::Task(message)
            }
            Entry::Occupied(seen) if seen.get().1 == digest => Content::Repeated,
            Entry::Occupied(seen) => {
                Content::Bad(format!("id_conflict: line {} has the same id and another payload", seen.get().0))
            }
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    /// Ends with the input, or after its first error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let line = self.line().transpose();
        self.ended = !matches!(line, Some(Ok(_)));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Line> {
        Lines::new(text).map(Result::unwrap).collect()
    }

    fn why(line: &Line) -> &str {
        match &line.content {
            Content::Bad(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn id(line: &Line) -> &str {
        match &line.content {
            Content::Task(message) => message.id.as_str(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_bad_line_is_told_by_its_number_and_its_neighbours_are_read() {
        let lines = read(b"{\"id\":\"a\",\"payload\":{}}\n\noops\n{\"id\":\"b\",\"payload\":{}}");
        assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!((id(&lines[0]), id(&lines[2])), ("a", "b"));
        assert!(why(&lines[1]).starts_with("not_json"));
    }

    #[test]
    fn every_byte_is_counted_once() {
        let text = b"\n{\"payload\":{}}\r\n\n  \nbad\n";
        let counted: u64 = read(text).iter().map(|line| line.bytes).sum();
        assert_eq!(counted, text.len() as u64);
    }

    #[test]
    fn an_id_follows_from_the_content_and_not_from_its_white_space() {
        let lines =
            read(b"\xef\xbb\xbf{\"payload\":{\"n\":1}}\n{\"payload\":{\"n\":2}}\n{ \"payload\": {\"n\": 1} }\r\n");
        assert_ne!(id(&lines[0]), id(&lines[1]));
        assert_eq!(lines[2].content, Content::Repeated);
    }

    #[test]
    fn the_same_id_with_another_payload_is_a_mistake_that_names_the_first_line() {
        let lines =
            read(b"{\"id\":\"a\",\"payload\":{}}\n{\"id\":\"a\",\"payload\":{\"n\":1}}\n{\"id\":\"a\",\"payload\":{}}");
        assert!(why(&lines[1]).contains("line 1"));
        assert_eq!(lines[2].content, Content::Repeated);
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let mut text = vec![b'x'; 3 * 1024 * 1024];
        text.extend_from_slice(b"\n{\"id\":\"a\",\"payload\":{}}\n\xff\n");
        let lines = read(&text);
        assert!(why(&lines[0]).starts_with("too_large"));
        assert_eq!((lines[1].number, id(&lines[1])), (2, "a"));
        assert!(why(&lines[2]).contains("UTF-8"));
    }

    #[test]
    fn a_message_that_its_id_makes_too_large_is_a_mistake() {
        let filler = "x".repeat(MAX_MESSAGE_BYTES - r#"{"payload":{"a":""}}"#.len());
        let lines = read(format!(r#"{{"payload":{{"a":"{filler}"}}}}"#).as_bytes());
        assert!(why(&lines[0]).starts_with("too_large"));
    }

    #[test]
    fn a_sent_body_reads_as_the_same_task() {
        for item in ["", r#","item":"catalog-7:0:12""#] {
            let message = parse(&format!(r#"{{"id":"quote\"and\\slash","payload":{{"n":1.0}}{item}}}"#), "m").unwrap();
            assert_eq!(parse(&message.body(), "other").unwrap(), message);
        }
    }

    #[test]
    fn a_json_list_is_refused_as_a_whole() {
        let mut lines = Lines::new(&b"[\n {\"id\":\"a\",\"payload\":{}}\n]\n"[..]);
        assert!(lines.next().unwrap().unwrap_err().to_string().contains("one JSON object a line"));
        assert!(lines.next().is_none());
    }

    #[test]
    fn an_input_that_breaks_off_ends_after_its_error() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        let mut lines = Lines::new(io::BufReader::new(Broken));
        assert!(lines.next().unwrap().is_err());
        assert!(lines.next().is_none());
    }
}
