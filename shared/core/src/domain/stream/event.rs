//! The ids of events, and what they leave behind: where each was, and what it held.

use serde::{Deserialize, Serialize};

use super::{Life, MAX_NUMBER};
use crate::domain::id::{self, StreamId, TaskId, stored_as_text};
use crate::domain::time::Timestamp;

/// One event of a stream, as `stream:opened:number`: the stream's opening, in milliseconds since 1970, goes in, since
/// its name may be used again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
#[serde(try_from = "String", into = "String")]
#[display("{}:{}:{number}", life.id, life.opened_at.0)]
pub struct EventId {
    /// Which stream.
    pub life: Life,
    /// Its number there, counted from 0 in the source's order.
    pub number: u64,
}

/// A text is no event's id; says which rule it breaks, without repeating it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoEvent(pub &'static str);

/// A position in a source, opaque: only the source knows what it means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
#[serde(try_from = "String", into = "String")]
pub struct Offset(String);

/// The longest offset, in bytes.
pub const MAX_OFFSET_BYTES: usize = 128;

/// Consecutive events that one call fed: where each was in the source, and what tells a repeat of it from another
/// event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The first one's number.
    pub start: u64,
    /// What is known of them, in order.
    pub traces: Vec<Trace>,
}

/// What a fed event leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its position in the source.
    pub offset: Offset,
    /// The first 64 bits of a digest of offset and content.
    pub digest: u64,
}

impl EventId {
    /// Reads an event's id.
    pub fn parse(text: &str) -> Result<Self, NoEvent> {
        const SHAPE: NoEvent = NoEvent("an event's id is stream:opened:number");
        let mut parts = text.split(':');
        let (Some(stream), Some(opened_at), Some(number), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SHAPE);
        };
        let id = StreamId::parse(stream).map_err(NoEvent)?;
        // Digits alone: parsing would take a sign as well.
        let digits =
            |text: &str| !text.is_empty() && text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
        if ![opened_at, number].into_iter().all(digits) {
            return Err(SHAPE);
        }
        let opened_at = Timestamp(opened_at.parse().map_err(|_| SHAPE)?);
        let number = number.parse().ok().filter(|number| *number < MAX_NUMBER);
        let number = number.ok_or(NoEvent("the number is beyond those that any stream has"))?;
        Ok(Self { life: Life { id, opened_at }, number })
    }

    /// The id of its task, if the task brings none of its own: the same however often the event is fed.
    pub fn task(&self) -> TaskId {
        TaskId::new(self.to_string())
    }
}

impl Offset {
    /// Checks an offset that came from outside.
    ///
    /// # Errors
    /// Says what offsets may be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if (1..=MAX_OFFSET_BYTES).contains(&text.len()) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err("an offset has 1 to 128 bytes and no control characters")
        }
    }

    /// The offset as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Trace {
    /// What an event leaves whose task is written like this.
    pub fn of(offset: Offset, body: &str) -> Self {
        let digest = id::digest(&[offset.as_str(), body]);
        // Sixteen hex digits always are a number.
        let digest = digest.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
        Self { offset, digest }
    }
}

impl Page {
    /// The number after the last one's.
    pub const fn end(&self) -> u64 {
        self.start + self.traces.len() as u64
    }

    /// What is known of an event, if it is one of these.
    pub fn trace(&self, number: u64) -> Option<&Trace> {
        self.traces.get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }
}

stored_as_text!(EventId, NoEvent);
stored_as_text!(Offset, &'static str);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_event_is_refused() {
        for text in
            ["", "s", "s:1", "s:1:2:3", ":1:2", "s::2", "s:1:", "s:-1:2", "s:1:+2", "a b:1:2", "s:1:999999999999999"]
        {
            assert!(EventId::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_event_has_a_number_beyond_those_that_three_levels_hold() {
        assert!(EventId::parse(&format!("s:1:{}", MAX_NUMBER - 1)).is_ok());
        assert!(EventId::parse(&format!("s:1:{MAX_NUMBER}")).is_err());
        assert!(EventId::parse("s:0000000000000001:2").is_err(), "sixteen digits are more than any time has");
    }

    #[test]
    fn an_offset_is_stored_as_the_source_wrote_it() {
        let offset = Offset::parse(&"ä".repeat(64)).unwrap();
        assert_eq!((offset.as_str(), offset.to_string()), ("ä".repeat(64).as_str(), "ä".repeat(64)));
    }

    #[test]
    fn a_page_knows_its_own_events_and_no_others() {
        let traces = ["a", "b"].map(|offset| Trace::of(Offset::parse(offset).unwrap(), "{}"));
        let page = Page { start: 5, traces: traces.to_vec() };
        assert_eq!(page.end(), 7);
        let offset = |number| page.trace(number).map(|trace| trace.offset.as_str());
        assert_eq!([4, 5, 6, 7].map(offset), [None, Some("a"), Some("b"), None]);
    }

    #[test]
    fn what_is_no_offset_is_refused() {
        for text in ["", "a\nb", &"x".repeat(129)] {
            assert!(Offset::parse(text).is_err());
        }
        assert!(Offset::parse("0/16B3748 ä").is_ok());
    }

    #[test]
    fn another_offset_or_content_leaves_another_trace() {
        let trace = |offset: &str, body| Trace::of(Offset::parse(offset).unwrap(), body).digest;
        assert_eq!(trace("1", "{}"), trace("1", "{}"));
        assert_ne!(trace("1", "{}"), trace("2", "{}"));
        assert_ne!(trace("1", "{}"), trace("1", "{ }"));
    }

    proptest! {
        #[test]
        fn an_events_id_round_trips(stream in "[A-Za-z0-9_-]{1,40}", opened in 0..10_u64.pow(13), number in 0..MAX_NUMBER) {
            let life = Life { id: StreamId::new(stream), opened_at: Timestamp(opened) };
            let event = EventId { life, number };
            prop_assert_eq!(EventId::parse(&event.to_string()), Ok(event.clone()));
            prop_assert!(TaskId::parse(event.task().as_str()).is_ok());
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            let _ = EventId::parse(&text);
        }
    }
}
