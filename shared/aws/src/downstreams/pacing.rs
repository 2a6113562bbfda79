//! How long a downstream asks to be left alone.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// A number above this is a time in milliseconds,
const EPOCH_MS: f64 = 1e12;
/// and one above this a time in seconds; a smaller one is a pause. Services disagree on what a reset is.
const EPOCH_S: f64 = 1e9;

/// Returns the longest pause that an answer's headers ask for, in milliseconds.
///
/// A rate limit's reset is a pause only if the limit is used up: many services send it with every answer.
pub(super) fn asked_ms(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let all = |name: &'static str| headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::trim);
    let is_used_up = |name| all(name).any(|left| left == "0");
    let resets = |remaining, reset| {
        let counts = status == StatusCode::TOO_MANY_REQUESTS || is_used_up(remaining);
        all(reset).filter(move |_| counts).filter_map(move |value| until_reset(value, now))
    };
    let asked = all(RETRY_AFTER.as_str())
        .filter_map(|value| seconds(value).or_else(|| until_date(value, now)))
        .chain(all("retry-after-ms").filter_map(|value| Some(seconds(value)? / 1_000)))
        .chain(resets("ratelimit-remaining", "ratelimit-reset"))
        .chain(resets("x-ratelimit-remaining", "x-ratelimit-reset"));
    Some(u64::try_from(asked.max()?.as_millis()).unwrap_or(u64::MAX))
}

/// Reads whole or broken seconds.
fn seconds(value: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(value.parse().ok()?).ok()
}

/// Reads a date as HTTP has it (RFC 9110, section 5.6.7), in any way to say UTC. A date that is past asks for nothing.
fn until_date(value: &str, now: SystemTime) -> Option<Duration> {
    let utc = ["UTC", "+0000", "-0000"].into_iter().find_map(|zone| value.strip_suffix(zone));
    let date = utc.map_or_else(|| value.to_owned(), |date| format!("{date}GMT"));
    Some(httpdate::parse_http_date(&date).ok()?.duration_since(now).unwrap_or_default())
}

/// Reads when a rate limit begins anew: a pause, or a Unix time in seconds or milliseconds.
fn until_reset(value: &str, now: SystemTime) -> Option<Duration> {
    let number: f64 = value.parse().ok()?;
    let at = if number > EPOCH_MS { number / 1_000.0 } else { number };
    let span = Duration::try_from_secs_f64(at).ok()?;
    if at < EPOCH_S {
        return Some(span);
    }
    Some(SystemTime::UNIX_EPOCH.checked_add(span)?.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn asked(status: u16, headers: &[(&'static str, &'static str)]) -> Option<u64> {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let header = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let headers: HeaderMap = headers.iter().copied().map(header).collect();
        asked_ms(StatusCode::from_u16(status).unwrap(), &headers, now)
    }

    #[test]
    fn a_pause_is_read_in_each_form_that_services_send() {
        const DATE: &str = "retry-after";
        for (name, value, wait_ms) in [
            (DATE, "120", Some(120_000)),
            (DATE, " 2.0 ", Some(2_000)),
            (DATE, "0.503", Some(503)),
            (DATE, "Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            (DATE, "Sun, 06 Nov 1994 08:49:47 UTC", Some(10_000)),
            (DATE, "Sun, 06 Nov 1994 08:49:47 +0000", Some(10_000)),
            (DATE, "Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            (DATE, "soon", None),
            (DATE, "-5", None),
            (DATE, "inf", None),
            ("retry-after-ms", "1500", Some(1_500)),
            ("ratelimit-reset", "30", Some(30_000)),
            ("x-ratelimit-reset", "784111787", Some(784_111_787_000)),
            ("x-ratelimit-reset", "1000000000.5", Some(215_888_223_500)),
            ("x-ratelimit-reset", "1000000000500", Some(215_888_223_500)),
        ] {
            assert_eq!(asked(429, &[(name, value)]), wait_ms, "{name}: {value}");
        }
    }

    #[test]
    fn the_longest_pause_counts_and_a_reset_only_if_its_limit_is_used_up() {
        let both = [("retry-after", "7"), ("retry-after", "9"), ("ratelimit-reset", "8")];
        assert_eq!(asked(503, &both), Some(9_000));
        assert_eq!(asked(429, &[("retry-after", "7"), ("ratelimit-reset", "8")]), Some(8_000));
        let reset = ("x-ratelimit-reset", "60");
        assert_eq!(asked(500, &[reset, ("x-ratelimit-remaining", "12")]), None);
        assert_eq!(asked(403, &[reset, ("x-ratelimit-remaining", "0")]), Some(60_000));
    }
}
