//! Points in time and lengths of time, both in whole milliseconds.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds since the Unix epoch, as some machine's clock saw it.
///
/// Clocks of different machines differ. Leases and windows compare such times and may be off by that skew;
/// nothing that must never happen (two leaders adding members, two acknowledgements) rests on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A day in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// For how long a gate, a lock or a bookmark is kept that nobody uses, in milliseconds.
pub const IDLE_MS: u64 = 7 * DAY_MS;

impl Timestamp {
    /// This moment plus `ms` milliseconds.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads a time as RFC 3339 has it, of any offset; what is finer than a millisecond is dropped.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let at = OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| "must be a time as RFC 3339 has it, like 2026-12-31T23:59:59Z")?;
        let ms = at.unix_timestamp_nanos() / 1_000_000;
        // The last moment that RFC 3339 can show: an offset may lead past it.
        let allowed = 0..=253_402_300_799_999_i128;
        let ms = u64::try_from(ms).ok().filter(|ms| allowed.contains(&i128::from(*ms)));
        ms.map(Self).ok_or("must lie between the years 1970 and 9999")
    }

    /// As RFC 3339 has it, in UTC, to the millisecond.
    pub fn shown(self) -> String {
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.0)).to_string()
    }

    /// Whole seconds since the epoch, as DynamoDB's TTL wants them.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_has_passed_since_a_moment_that_is_still_to_come() {
        assert_eq!(Timestamp(500).since(Timestamp(200)), 300);
        assert_eq!(Timestamp(200).since(Timestamp(500)), 0);
    }

    #[test]
    fn an_offset_is_taken_into_account() {
        let at = Timestamp::parse("2026-01-01T01:00:00.123456+01:00").unwrap();
        assert_eq!(at.shown(), "2026-01-01T00:00:00.123Z");
        assert_eq!(Timestamp::parse(&at.shown()), Ok(at));
    }

    #[test]
    fn what_is_no_time_or_out_of_reach_is_refused() {
        for text in ["", "2026-01-01", "2026-01-01T00:00:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00"] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_to_live_is_told_in_seconds() {
        assert_eq!([0, 999, 1_000, 61_999].map(|ms| Timestamp(ms).as_secs()), [0, 0, 1, 61]);
    }
}
