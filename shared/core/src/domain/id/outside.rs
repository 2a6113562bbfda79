//! Checks of ids that come from outside.

use super::{LimitName, ListId, RouteName, StreamId, TaskId, TrackerId};

/// The longest id a sender may give a task, in bytes.
pub const MAX_TASK_ID_BYTES: usize = 128;

impl TaskId {
    /// Checks an id that came from outside.
    ///
    /// # Errors
    /// Says what is wrong with the id, without repeating it.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        if value.is_empty() {
            return Err("`id` is empty");
        }
        if value.len() > MAX_TASK_ID_BYTES {
            return Err("`id` is longer than 128 bytes");
        }
        if !value.chars().all(|c| c.is_ascii_graphic()) {
            return Err("`id` holds a character that is not visible ASCII");
        }
        Ok(Self(value.to_owned()))
    }
}

impl RouteName {
    /// Checks a name from a routes file.
    ///
    /// # Errors
    /// Says which names are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let rule = "a route's name has 1 to 64 characters out of a-z, 0-9 and -";
        is_written_name(value).then(|| Self(value.to_owned())).ok_or(rule)
    }
}

impl LimitName {
    /// Checks a name from a routes file.
    ///
    /// # Errors
    /// Says which names are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let rule = "a limit's name has 1 to 64 characters out of a-z, 0-9 and -";
        is_written_name(value).then(|| Self(value.to_owned())).ok_or(rule)
    }
}

/// Returns whether a routes file may name something so.
fn is_written_name(value: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&value.len()) && value.chars().all(allowed)
}

/// The longest id of a tracker, in bytes: a group of items still fits one write unit.
pub const MAX_TRACKER_ID_BYTES: usize = 64;
/// The longest id of a list, in bytes.
pub const MAX_LIST_ID_BYTES: usize = 64;
/// The longest id of a stream, in bytes: a group of its events still fits one write unit.
pub const MAX_STREAM_ID_BYTES: usize = 40;

/// Names hold no `:`, so that they can begin an item's id, or an event's.
macro_rules! name {
    ($name:ident, $max_bytes:expr, $rule:literal) => {
        impl $name {
            /// Checks an id that came from outside.
            ///
            /// # Errors
            /// Says which ids are allowed.
            pub fn parse(value: &str) -> Result<Self, &'static str> {
                if is_name(value, $max_bytes) { Ok(Self(value.to_owned())) } else { Err($rule) }
            }
        }
    };
}

name!(TrackerId, MAX_TRACKER_ID_BYTES, "a tracker's id has 1 to 64 characters out of A-Z, a-z, 0-9, - and _");
name!(ListId, MAX_LIST_ID_BYTES, "a list's name has 1 to 64 characters out of A-Z, a-z, 0-9, - and _");
name!(StreamId, MAX_STREAM_ID_BYTES, "a stream's name has 1 to 40 characters out of A-Z, a-z, 0-9, - and _");

/// Whether a value has 1 to `max_bytes` characters out of A-Z, a-z, 0-9, - and _.
fn is_name(value: &str, max_bytes: usize) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=max_bytes).contains(&value.len()) && value.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_200_characters_is_refused() {
        assert!(TaskId::parse(&"x".repeat(200)).is_err());
        assert!(TaskId::parse(&"x".repeat(128)).is_ok());
        assert!(TaskId::parse("").is_err());
        assert!(TaskId::parse("a b").is_err());
    }

    #[test]
    fn a_name_is_as_long_as_allowed_and_holds_nothing_that_separates() {
        for text in ["", "a:b", "a/b", "a b", "ä"] {
            assert!(RouteName::parse(text).is_err() && TrackerId::parse(text).is_err(), "{text}");
            assert!(ListId::parse(text).is_err() && StreamId::parse(text).is_err(), "{text}");
        }
        assert!(RouteName::parse("a-1").is_ok() && TrackerId::parse("A-1_b").is_ok());
        assert!(RouteName::parse("A").is_err() && RouteName::parse("a_b").is_err());
        let [most, more] = [64, 65].map(|length| "x".repeat(length));
        assert!(RouteName::parse(&most).is_ok() && TrackerId::parse(&most).is_ok() && ListId::parse(&most).is_ok());
        assert!(RouteName::parse(&more).is_err() && TrackerId::parse(&more).is_err() && ListId::parse(&more).is_err());
        assert!(StreamId::parse(&most[..40]).is_ok() && StreamId::parse(&most[..41]).is_err());
    }
}
