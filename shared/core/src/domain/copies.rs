//! What ends a message that would copy itself without end.
//!
//! Waiting goes by copies, hundreds of them, so AWS must not cut the chain (`RecursiveLoop: Allow`). This is the guard
//! in its place. Each copy costs two seconds of a credit, which time gives back. Healthy chains wait for at least two
//! seconds on average, so they may go on for days. A chain that has used up its credit is braked: its copies stay
//! hidden for as long as a queue can hide them. It goes on, so nothing is lost, but by at most four copies an hour.
//! A chain that gets on, to its next batch or to a call, begins anew.

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// By when a message's copies are paid for: each moves it on by two seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Copies(Timestamp);

/// What a copy costs, in milliseconds: chains that wait for at least so long each time may go on for ever.
const EACH_MS: u64 = 2_000;
/// The credit, in copies. A leader looks after its open batch each second for up to five minutes, which takes 150.
const MOST: u64 = 500;
/// How long a braked copy stays hidden, in milliseconds: as long as a queue hides a message.
const BRAKED_MS: u64 = 15 * 60 * 1_000;

impl Copies {
    /// None was made yet.
    pub const NONE: Self = Self(Timestamp(0));

    /// Whether none was made yet.
    pub const fn is_none(&self) -> bool {
        self.0.0 == 0
    }

    /// With another copy that is to stay hidden for `delay_ms`; says for how long it does.
    #[must_use]
    pub fn and_one(self, delay_ms: u64, now: Timestamp) -> (Self, u64) {
        let paid = Self(self.0.max(now).plus_ms(EACH_MS));
        if !paid.is_braked(now) {
            return (paid, delay_ms);
        }
        let delay_ms = delay_ms.max(BRAKED_MS);
        // It stays braked: what it waits for the brake is no patience of its own.
        (Self(now.plus_ms(delay_ms + 2 * MOST * EACH_MS)), delay_ms)
    }

    /// Whether the message has used up its credit.
    pub fn is_braked(&self, now: Timestamp) -> bool {
        self.0.since(now) > MOST * EACH_MS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The number of copies after which a chain is braked that waits for so long each time, and when that is.
    fn braked_after(pause_ms: u64, most: u64) -> Option<(u64, u64)> {
        let (mut copies, mut now) = (Copies::NONE, Timestamp(1_000));
        (1..=most).find_map(|count| {
            let (next, delay_ms) = copies.and_one(pause_ms, now);
            let braked = delay_ms > pause_ms;
            assert_eq!(braked, next.is_braked(now.plus_ms(delay_ms)), "it is seen by its reader");
            copies = next;
            now = now.plus_ms(delay_ms);
            braked.then_some((count, now.0))
        })
    }

    #[test]
    fn a_chain_that_waits_for_two_seconds_each_time_is_never_braked() {
        assert_eq!(braked_after(2_000, 1_000_000), None);
    }

    #[test]
    fn a_chain_that_waits_for_nothing_is_braked_after_its_credit() {
        assert_eq!(braked_after(0, 1_000_000).map(|(count, _)| count), Some(MOST + 1));
        assert_eq!(braked_after(1_000, 1_000_000).map(|(count, _)| count), Some(2 * MOST));
    }

    proptest! {
        #[test]
        fn a_braked_chain_stays_so_and_makes_four_copies_an_hour(late in 0_u64..900_000, wants in 0_u64..10_000) {
            let now = Timestamp(1_000);
            let mut braked = (Copies::NONE, 0);
            while braked.1 < BRAKED_MS {
                braked = braked.0.and_one(0, now);
            }
            let mut now = now;
            for _ in 0..100 {
                now = now.plus_ms(braked.1 + late);
                prop_assert!(braked.0.is_braked(now));
                braked = braked.0.and_one(wants, now);
                prop_assert_eq!(braked.1, BRAKED_MS);
            }
        }
    }
}
