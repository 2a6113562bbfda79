//! Moments that a sender names: a time, or a delay.

use schemars::JsonSchema;
use serde_json::Number;
use serde_json::value::RawValue;

use super::time::{DAY_MS, Timestamp};

/// The longest delay, in seconds: a year.
pub const MAX_DELAY_S: u64 = 366 * DAY_MS / 1_000;

/// A moment that a sender names; shown as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum When {
    /// This time.
    #[display(r#""{}""#, _0.shown())]
    At(Timestamp),
    /// This number of seconds after the task is registered.
    AfterS(u64),
}

/// A moment: a time, or a delay.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Written {
    /// A time as RFC 3339 has it, of any offset.
    Time(#[schemars(extend("format" = "date-time"))] String),
    /// A delay in seconds, counted from when the task is registered; a year at most.
    Delay(#[schemars(range(min = 0, max = 31_622_400))] u64),
}

impl When {
    /// Reads what a sender wrote.
    ///
    /// # Errors
    /// What it must be instead.
    pub fn parse(raw: &RawValue) -> Result<Self, String> {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            return Timestamp::parse(&text).map(Self::At).map_err(str::to_owned);
        }
        let delay = serde_json::from_str(raw.get()).ok().and_then(|number| whole(&number));
        delay
            .filter(|seconds| *seconds <= MAX_DELAY_S)
            .map(Self::AfterS)
            .ok_or_else(|| format!("must be a time as RFC 3339 has it, or a delay of 0 to {MAX_DELAY_S} whole seconds"))
    }

    /// The moment, for a task that is registered at `now`.
    pub const fn resolved(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::AfterS(seconds) => now.plus_ms(seconds.saturating_mul(1_000)),
        }
    }
}

/// A number of seconds that is whole: to JSON Schema, `5.0` is.
fn whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and within bounds")]
        (0.0..=MAX_DELAY_S as f64).contains(&number).then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<When, String> {
        When::parse(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_moment_is_a_time_or_a_delay_and_is_written_as_it_is_read() {
        let at = When::At(Timestamp(1_767_225_600_123));
        assert_eq!(parse(r#""2026-01-01T01:00:00.1234+01:00""#), Ok(at));
        for whole in ["600", "600.0", "6e2"] {
            assert_eq!(parse(whole), Ok(When::AfterS(600)));
        }
        for when in [at, When::AfterS(0), When::AfterS(MAX_DELAY_S)] {
            assert_eq!(parse(&when.to_string()), Ok(when));
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for json in ["-1", "-1.0", "1.5", "31622401", "31622401.0", "1e300", "true", "{}", r#""tomorrow""#, r#""600""#]
        {
            assert!(parse(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_delay_counts_from_the_registration() {
        assert_eq!(When::AfterS(2).resolved(Timestamp(500)), Timestamp(2_500));
        assert_eq!(When::At(Timestamp(7)).resolved(Timestamp(500)), Timestamp(7));
    }
}
