//! Points in time as RFC 3339 has them.

use std::time::{Duration, UNIX_EPOCH};

use groupage_core::domain::time::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time in UTC, to the millisecond.
pub fn shown(at: Timestamp) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(at.0)).to_string()
}

/// Reads a time of any offset; what is finer than a millisecond is dropped.
pub fn parse(text: &str) -> Result<Timestamp, &'static str> {
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "must be a time as RFC 3339 has it, like 2026-12-31T23:59:59Z")?;
    let ms = at.unix_timestamp_nanos() / 1_000_000;
    // The last moment that RFC 3339 can show: an offset may lead past it.
    let allowed = 0..=253_402_300_799_999_i128;
    let ms = u64::try_from(ms).ok().filter(|ms| allowed.contains(&i128::from(*ms)));
    ms.map(Timestamp).ok_or("must lie between the years 1970 and 9999")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_taken_into_account() {
        let at = parse("2026-01-01T01:00:00.123456+01:00").unwrap();
        assert_eq!(shown(at), "2026-01-01T00:00:00.123Z");
        assert_eq!(parse(&shown(at)), Ok(at));
    }

    #[test]
    fn what_is_no_time_or_out_of_reach_is_refused() {
        for text in ["", "2026-01-01", "2026-01-01T00:00:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
