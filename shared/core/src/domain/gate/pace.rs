//! How fast places in flight become free: what those that wait for one judge by when to come back.

use crate::domain::time::Timestamp;

/// Places that were taken by those that waited, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Since when they are counted: the last time that a place was left for one that had not waited.
    pub since: Timestamp,
    /// How many were taken since then.
    pub entries: u32,
}

/// After this many for each place the older half is forgotten.
const MOST_ENTRIES: usize = 16;
/// This many say more than a guess.
const FEW_ENTRIES: u32 = 8;
/// How long a call takes, in milliseconds, as long as nothing is known of it. A short time: who comes too early waits,
/// who comes too late leaves a place empty.
const CALL_MS: u64 = 250;
/// No guess is longer, so that no place stays empty for long because a first call took long.
const MOST_GUESSED_MS: u64 = 5_000;

impl Pace {
    /// Counts from now on.
    #[must_use]
    pub const fn from(now: Timestamp) -> Self {
        Self { since: now, entries: 0 }
    }

    /// Milliseconds from one place's becoming free to the next one's; rather too few than too many.
    #[must_use]
    pub fn gap_ms(self, places: usize, now: Timestamp) -> u64 {
        let guess_ms = (CALL_MS / places.max(1) as u64).max(1);
        // Counting those under way, too, which may all end at once: an estimate that is too long leaves places empty.
        // So does one that is exact: places that wait for batches would look like calls that take longer.
        let seen_ms = now.since(self.since) * 4 / 5 / (u64::from(self.entries) + places.max(1) as u64);
        if self.since == Timestamp::default() {
            guess_ms
        } else if self.entries < FEW_ENTRIES {
            seen_ms.clamp(guess_ms, MOST_GUESSED_MS)
        } else {
            seen_ms.max(1)
        }
    }

    /// The pace once a place was taken by one that had waited for it.
    #[must_use]
    pub fn taken(self, places: usize, now: Timestamp) -> Self {
        if self.since == Timestamp::default() {
            return Self::from(now);
        }
        let entries = self.entries + 1;
        if entries as usize <= MOST_ENTRIES * places.max(4) {
            return Self { entries, ..self };
        }
        Self { since: self.since.plus_ms(now.since(self.since) / 2), entries: entries / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_what_is_seen_and_is_rather_too_short() {
        let taken = |from: u64, gap_ms: u64, pace: Pace| {
            (1..=1_000).fold(pace, |pace, n| pace.taken(10, Timestamp(from + n * gap_ms)))
        };
        let slow = taken(1_000, 300, Pace::default());
        assert!((200..=300).contains(&slow.gap_ms(10, Timestamp(301_000))), "{slow:?}");
        let fast = taken(301_000, 20, slow);
        assert!((13..=22).contains(&fast.gap_ms(10, Timestamp(321_000))), "{fast:?}");
    }

    #[test]
    fn calls_that_begin_and_end_together_do_not_look_slower_than_they_are() {
        let mut pace = Pace::from(Timestamp(1_000));
        for round in 1..=20 {
            let ends = Timestamp(1_000 + round * 1_000);
            for _ in 0..10 {
                assert!(pace.gap_ms(10, ends) <= 100, "{pace:?}");
                pace = pace.taken(10, ends);
            }
        }
    }

    #[test]
    fn before_much_is_seen_it_is_a_guess_that_grows_while_nothing_comes() {
        let pace = Pace::from(Timestamp(1_000));
        assert_eq!(pace.gap_ms(10, Timestamp(1_001)), CALL_MS / 10);
        assert_eq!(pace.gap_ms(1, Timestamp(4_000)), 2_400);
        assert_eq!(pace.gap_ms(1, Timestamp(31_000)), MOST_GUESSED_MS);
    }
}
