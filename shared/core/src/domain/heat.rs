//! Over how many shards one process spreads the tasks of a Target whose number of shards follows its load.
//!
//! A throttled put is the evidence, and the only one. A partition of the index says itself what it bears: that is more
//! than 1,000 write units a second after a quiet time, and less if two keys share it. A pace that is measured here
//! would be that of one process out of many, and a leader's pace is that of what reaches it.
//!
//! No process asks another, and none reads anything. Each doubles its number when it is throttled, and halves it after
//! each quiet minute. They need not agree: home's leader comes to all shards that any of them uses.

use super::shards::MOST_BY_LOAD;
use super::time::Timestamp;

/// For so long after the number has doubled, in milliseconds, it does not double again: puts that were under way are
/// still refused.
const SETTLES_MS: u64 = 1_000;
/// After each time without a refusal that is so long, in milliseconds, the number halves.
const QUIET_MS: u64 = 60_000;

/// What a process knows of one Target's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heat {
    /// Over how many shards it spread tasks when it was last refused; a power of two.
    shards: u8,
    /// When the number doubled.
    doubled: Timestamp,
    /// When a put was last refused.
    refused: Timestamp,
}

impl Heat {
    /// What is known once a put was refused; before the first one it is nothing.
    #[must_use]
    pub fn refused(before: Option<Self>, now: Timestamp) -> Self {
        let shards = before.map_or(1, |before| before.shards(now));
        match before {
            Some(before) if shards > 1 && now.since(before.doubled) < SETTLES_MS => {
                Self { shards, refused: now, ..before }
            }
            Some(_) | None => {
                let shards = shards.saturating_mul(2).min(MOST_BY_LOAD);
                Self { shards, doubled: now, refused: now }
            }
        }
    }

    /// The same of a process that was not refused itself, and hears that tasks have yielded so often in a row: each
    /// time, some process had no other shard to go to.
    #[must_use]
    pub fn heard(before: Option<Self>, times: u8, now: Timestamp) -> Self {
        let heard = 1_u8.checked_shl(times.into()).unwrap_or(MOST_BY_LOAD).min(MOST_BY_LOAD);
        match before {
            Some(before) if before.shards(now) >= heard => before,
            Some(_) | None => Self { shards: heard, doubled: now, refused: now },
        }
    }

    /// Over how many shards tasks are spread now.
    pub fn shards(&self, now: Timestamp) -> u8 {
        let halvings = u32::try_from(now.since(self.refused) / QUIET_MS).unwrap_or(u32::MAX);
        self.shards.checked_shr(halvings).unwrap_or_default().max(1)
    }

    /// Whether the Target is as good as quiet.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.shards(now) == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn the_number_doubles_once_in_a_while_and_ends_at_the_most() {
        let first = Heat::refused(None, NOW);
        assert_eq!(first.shards(NOW), 2);
        let under_way = Heat::refused(Some(first), NOW.plus_ms(SETTLES_MS - 1));
        assert_eq!(under_way.shards(NOW), 2, "one refusal is news, not all of a moment");
        let mut heat = under_way;
        let numbers = [1, 2, 3, 4].map(|times| {
            heat = Heat::refused(Some(heat), NOW.plus_ms(times * SETTLES_MS));
            heat.shards(NOW.plus_ms(times * SETTLES_MS))
        });
        assert_eq!(numbers, [4, 8, 16, 16]);
    }

    #[test]
    fn each_quiet_minute_halves_it_until_it_is_one_again() {
        let heat = Heat { shards: 8, doubled: NOW, refused: NOW };
        let after = |ms| heat.shards(NOW.plus_ms(ms));
        let times = [QUIET_MS - 1, QUIET_MS, 2 * QUIET_MS, 3 * QUIET_MS, u64::MAX / 2];
        assert_eq!(times.map(after), [8, 4, 2, 1, 1]);
        assert!(!heat.is_over(NOW.plus_ms(2 * QUIET_MS)) && heat.is_over(NOW.plus_ms(3 * QUIET_MS)));
        let again = Heat::refused(Some(heat), NOW.plus_ms(QUIET_MS));
        assert_eq!(again.shards(NOW.plus_ms(QUIET_MS)), 8, "it was four by then");
    }

    #[test]
    fn what_others_heard_raises_the_number_and_never_lowers_it() {
        assert_eq!([1, 2, 4, 9, u8::MAX].map(|times| Heat::heard(None, times, NOW).shards(NOW)), [2, 4, 16, 16, 16]);
        let own = Heat { shards: 8, doubled: NOW, refused: NOW };
        assert_eq!(Heat::heard(Some(own), 2, NOW.plus_ms(5)), own);
    }

    proptest! {
        #[test]
        fn it_is_always_a_number_of_shards_that_there_are(
            steps in proptest::collection::vec((0_u64..200_000, proptest::option::of(0_u8..20)), 1..40),
        ) {
            let (mut heat, mut now): (Option<Heat>, Timestamp) = (None, NOW);
            for (pause_ms, heard) in steps {
                now = now.plus_ms(pause_ms);
                let before = heat.map_or(1, |heat| heat.shards(now));
                let next = heard.map_or_else(|| Heat::refused(heat, now), |times| Heat::heard(heat, times, now));
                prop_assert!(next.shards(now) >= before, "a refusal does not cool it");
                prop_assert!((1..=MOST_BY_LOAD).contains(&next.shards(now)));
                heat = Some(next);
            }
        }
    }
}
