//! Rate limiter: the generic cell rate algorithm (virtual scheduling; ITU-T I.371, annex A), with reservations.
//!
//! The limiter stores one number: the theoretical arrival time (TAT) of the next call. A call may start when the TAT
//! and its cost are at most a burst ahead, and moves the TAT by its cost. So in any window of `t` milliseconds at most
//! `t / interval` units start, and the burst. A reservation is a start some milliseconds ahead: its caller waits for it
//! in place, and a reservation that no call uses costs its own units only.

use crate::domain::time::Timestamp;

/// A rate, and the burst beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Milliseconds that one unit takes.
    pub interval_ms: u64,
    /// Units that may start at once after a pause, at least 1.
    pub burst: u64,
}

impl Rate {
    const fn takes_ms(self, units: u64) -> u64 {
        self.interval_ms.saturating_mul(units)
    }
}

/// The state of a rate limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimiter {
    /// The theoretical arrival time of the next call.
    pub tat: Timestamp,
}

impl RateLimiter {
    /// Returns when the next call of this cost may start, which may be in the past.
    #[must_use]
    pub const fn earliest(self, rate: Rate, cost: u64) -> Timestamp {
        let after = self.tat.0.saturating_add(rate.takes_ms(cost));
        Timestamp(after.saturating_sub(rate.takes_ms(rate.burst)))
    }

    /// Reserves the next start for a call of this cost.
    pub fn reserve(&mut self, rate: Rate, cost: u64, now: Timestamp) -> Timestamp {
        let start = self.earliest(rate, cost).max(now);
        self.tat = self.tat.max(start).plus_ms(rate.takes_ms(cost));
        start
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_starts_at_once_and_the_rest_at_the_rate() {
        let (mut limiter, rate) = (RateLimiter::default(), Rate { interval_ms: 100, burst: 3 });
        let starts: Vec<u64> = (0..5).map(|_| limiter.reserve(rate, 1, Timestamp(10_000)).0).collect();
        assert_eq!(starts, [10_000, 10_000, 10_000, 10_100, 10_200]);
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_the_limit_and_the_burst(
            calls in proptest::collection::vec((0_u64..2_000, 1_u64..5), 1..100), interval_ms in 1_u64..500, extra in 0_u64..10,
        ) {
            // A cost above the burst is no call of such a limit.
            let rate = Rate { interval_ms, burst: 4 + extra };
            let (mut limiter, mut now, mut starts) = (RateLimiter::default(), 10_000, Vec::new());
            for (wait_ms, cost) in calls {
                now += wait_ms;
                let start = limiter.reserve(rate, cost, Timestamp(now));
                prop_assert!(start.0 >= now);
                starts.push((start.0, cost));
            }
            for (n, (from, _)) in starts.iter().enumerate() {
                let mut units = 0;
                for (start, cost) in &starts[n..] {
                    units += cost;
                    prop_assert!(units <= (start - from) / interval_ms + rate.burst, "{starts:?}");
                }
            }
        }
    }
}
