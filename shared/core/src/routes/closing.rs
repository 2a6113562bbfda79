//! When the windows of a route close, if the clock says so: a crontab expression, and the time zone it is meant in.

use std::borrow::Cow;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::domain::time::Timestamp;

/// The moments at which windows close.
#[derive(Clone, Debug, derive_more::Display)]
#[display("{written}")]
pub struct Closing {
    moments: Crontab,
    written: String,
}

impl Closing {
    fn parse(text: &str) -> Result<Self, String> {
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let moments = cronexpr::parse_crontab_with(text, options).map_err(|error| in_words(&error.to_string()))?;
        let closing = Self { moments, written: text.trim().to_owned() };
        // Within four years of any moment, if there is such a day at all.
        match closing.next(Timestamp(0)) {
            Some(_) => Ok(closing),
            None => Err(format!("`{}` never comes", closing.written)),
        }
    }

    /// The first moment at which a window closes, from this one on.
    pub fn next(&self, from: Timestamp) -> Option<Timestamp> {
        // The search begins in the minute behind the moment that it is given.
        let before = i64::try_from(from.0).ok()?.checked_sub(1)?;
        let next = self.moments.find_next(MakeTimestamp::from_millisecond(before).ok()?).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok().map(Timestamp)
    }
}

/// Two of them are the same if they are written alike.
impl PartialEq for Closing {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Closing {}

/// What the parser says, on one line: it draws the text and points into it.
fn in_words(error: &str) -> String {
    let said = error.lines().last().and_then(|line| line.split(';').next()).unwrap_or("it cannot be read");
    let said = said.trim_start_matches([' ', '^']);
    format!(
        "must be `minute hour day-of-month month day-of-week`, and a time zone if not UTC, such as \
         `0 6 * * 1-5 Europe/Berlin`: {said}"
    )
}

impl<'de> Deserialize<'de> for Closing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Closing {
    fn schema_name() -> Cow<'static, str> {
        "Closing".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["0 * * * *", "0 6 * * 1-5 Europe/Berlin"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(written: &str, from: &str) -> String {
        let next = Closing::parse(written).unwrap().next(Timestamp::parse(from).unwrap());
        next.map_or_else(String::new, Timestamp::shown)
    }

    #[test]
    fn a_window_closes_at_the_next_moment_and_one_that_has_come_counts() {
        for (written, from, closes) in [
            ("0 * * * *", "2026-11-25T20:00:00.001Z", "2026-11-25T21:00:00.000Z"),
            ("0 * * * *", "2026-11-25T21:00:00.000Z", "2026-11-25T21:00:00.000Z"),
            ("0 6 * * * Europe/Berlin", "2026-11-25T04:59:59.999Z", "2026-11-25T05:00:00.000Z"),
            ("0 6 * * * Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T04:00:00.000Z"),
            ("0 6 * * 1-5 UTC", "2026-11-27T06:00:01Z", "2026-11-30T06:00:00.000Z"),
            ("*/15 * * * *", "2026-11-25T20:31:00Z", "2026-11-25T20:45:00.000Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00.000Z"),
        ] {
            assert_eq!(next(written, from), closes, "{written} from {from}");
        }
    }

    /// As crontab has it: what the clocks leave out does not come on that day, and what they repeat comes twice.
    #[test]
    fn the_hour_that_the_clocks_leave_out_does_not_come_and_the_one_they_repeat_comes_twice() {
        let at = "30 2 * * * Europe/Berlin";
        assert_eq!(next(at, "2026-03-28T12:00:00Z"), "2026-03-30T00:30:00.000Z");
        assert_eq!(next(at, "2026-10-24T12:00:00Z"), "2026-10-25T00:30:00.000Z");
        assert_eq!(next(at, "2026-10-25T00:31:00Z"), "2026-10-25T01:30:00.000Z");
        assert_eq!(next("0 * * * * Europe/Berlin", "2026-10-25T00:01:00Z"), "2026-10-25T01:00:00.000Z");
    }

    #[test]
    fn what_is_no_moment_is_refused_in_one_line() {
        for (written, says) in [
            ("", "must be `minute hour"),
            ("0 6 * *", "must be `minute hour"),
            ("61 * * * *", "must be `minute hour"),
            ("H * * * *", "must be `minute hour"),
            ("0 6 * * * Europe/Berln", "Europe/Berln"),
            ("0 6 31 2 *", "`0 6 31 2 *` never comes"),
        ] {
            let error = Closing::parse(written).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{written}: {error}");
        }
    }
}
