//! Points in time and lengths of time, both in whole milliseconds.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, as some machine's clock saw it.
///
/// Clocks of different machines differ. Leases and windows compare such times and may be off by that skew;
/// nothing that must never happen (two leaders adding members, two acknowledgements) rests on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A day in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

impl Timestamp {
    /// This moment plus `ms` milliseconds.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
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
    fn a_time_to_live_is_told_in_seconds() {
        assert_eq!([0, 999, 1_000, 61_999].map(|ms| Timestamp(ms).as_secs()), [0, 0, 1, 61]);
    }
}
