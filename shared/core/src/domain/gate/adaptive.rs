//! How many calls may be in flight where the route leaves that to the downstream.
//!
//! The limit follows what calls take, as in Netflix's *concurrency-limits* (its `Gradient2Limit`). While a call takes
//! no longer than usual the limit grows, by its square root. The longer calls take the more it shrinks. A call that is
//! turned away halves it, as in TCP (RFC 5681). It is one number in the gate's item, so all workers share it. It is
//! written with the place that a call gives back: learning costs no request.

use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// Between which numbers of calls in flight a limit may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// It never falls below.
    pub least: usize,
    /// It never rises above.
    pub most: usize,
}

/// How a call fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fared {
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Whether the downstream had no room for it, or no time.
    pub turned_away: bool,
}

/// A limit that follows what calls take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Adaptive {
    /// Calls in flight, in thousandths.
    limit: u64,
    /// What a call usually takes, in thousandths of a millisecond; 0 as long as nothing is known.
    usual: u64,
    /// Calls that are heard of since the limit changed.
    calls: u32,
    /// What they took together, in milliseconds.
    took_ms: u64,
    /// Whether all places were taken when one of them ended. If not, calls say nothing about a higher limit.
    was_full: bool,
    /// Calls that ended before say nothing more of being turned away: they were under way when the limit was halved.
    halved_until: Timestamp,
}

/// Calls in flight that a limit begins with.
const FIRST: usize = 8;
/// Calls may take so much longer than usual before the limit shrinks, in hundredths.
const TOLERATED: u64 = 150;
/// It aims at half of what it was at least, however long calls took, in thousandths.
const MOST_SHRUNK: u64 = 500;
/// A round's share in the new limit, and in what is usual, in hundredths.
const SHARE: u64 = 20;
const USUAL_SHARE: u64 = 5;
/// The fewest calls of a round.
const FEWEST: u32 = 4;

impl Adaptive {
    /// How many calls may be in flight.
    #[must_use]
    pub fn limit(&self, bounds: Bounds) -> usize {
        let limit = if self.limit == 0 { FIRST } else { usize::try_from(self.limit / 1_000).unwrap_or(usize::MAX) };
        limit.clamp(bounds.least, bounds.most.max(bounds.least))
    }

    /// The limit once a call has ended; `in_flight` calls were under way, itself included.
    #[must_use]
    pub fn heard(self, fared: Fared, in_flight: usize, bounds: Bounds, now: Timestamp) -> Self {
        let limit = self.limit(bounds);
        let known = if self.limit == 0 { limit as u64 * 1_000 } else { self.limit };
        let mut next = Self { limit: known, ..self }.within(bounds);
        if fared.turned_away {
            if now < self.halved_until {
                return next;
            }
            let halved_until = now.plus_ms((self.usual / 1_000).max(fared.took_ms));
            return Self { limit: next.limit / 2, halved_until, ..next.a_new_round() }.within(bounds);
        }
        next.calls += 1;
        next.took_ms = next.took_ms.saturating_add(fared.took_ms);
        next.was_full |= in_flight >= limit;
        // As many calls as there are places is one round.
        if (next.calls as usize) < limit.max(FEWEST as usize) {
            return next;
        }
        let took = (next.took_ms * 1_000 / u64::from(next.calls)).max(1);
        let usual = if next.usual == 0 { took } else { mean(next.usual, took, USUAL_SHARE) };
        // Calls that take much less than usual: what was usual was a jam.
        next.usual = if usual > 2 * took { usual * 95 / 100 } else { usual };
        let gradient = (next.usual.saturating_mul(TOLERATED * 10) / took).clamp(MOST_SHRUNK, 1_000);
        let room = (next.limit * 1_000).isqrt();
        let aim = next.limit * gradient / 1_000 + room;
        if next.was_full || aim < next.limit {
            next.limit = mean(next.limit, aim, SHARE);
        }
        next.a_new_round().within(bounds)
    }

    fn a_new_round(self) -> Self {
        Self { calls: 0, took_ms: 0, was_full: false, ..self }
    }

    fn within(self, bounds: Bounds) -> Self {
        let [least, most] = [bounds.least, bounds.most.max(bounds.least)].map(|bound| bound as u64 * 1_000);
        Self { limit: self.limit.clamp(least, most), ..self }
    }
}

/// The mean of an old value and a new one, which has this share in it, in hundredths.
const fn mean(old: u64, new: u64, share: u64) -> u64 {
    (old * (100 - share) + new * share) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least: 2, most: 50 };

    /// The limits after rounds of calls that take so long, each with all places taken.
    fn rounds(mut adaptive: Adaptive, took_ms: u64, count: usize) -> (Adaptive, usize) {
        for _ in 0..count {
            let limit = adaptive.limit(BOUNDS);
            for _ in 0..limit.max(FEWEST as usize) {
                let fared = Fared { took_ms, turned_away: false };
                adaptive = adaptive.heard(fared, limit, BOUNDS, Timestamp(0));
            }
        }
        (adaptive, adaptive.limit(BOUNDS))
    }

    #[test]
    fn it_grows_while_calls_take_as_long_as_usual_up_to_its_ceiling() {
        let (after_few, few) = rounds(Adaptive::default(), 200, 5);
        assert!((10..16).contains(&few), "{few}");
        assert_eq!(rounds(after_few, 200, 200).1, 50);
    }

    #[test]
    fn it_shrinks_while_calls_take_longer_and_grows_again_when_that_is_usual() {
        let (usual, before) = rounds(Adaptive::default(), 200, 20);
        let (slow, after) = rounds(usual, 2_000, 8);
        assert!(after < before * 3 / 4, "{before}, then {after}");
        let (used_to_it, least) = rounds(slow, 2_000, 10);
        let grown = rounds(used_to_it, 2_000, 60).1;
        assert!(least >= 2 && grown > least, "{least}, then {grown}");
    }

    #[test]
    fn it_halves_once_for_all_calls_that_were_under_way() {
        let (usual, before) = rounds(Adaptive::default(), 200, 20);
        let away = Fared { took_ms: 10, turned_away: true };
        let once = usual.heard(away, before, BOUNDS, Timestamp(1_000));
        assert_eq!(once.limit(BOUNDS), before / 2);
        let meanwhile = once.heard(away, before, BOUNDS, Timestamp(1_100));
        assert_eq!(meanwhile.limit(BOUNDS), before / 2);
        let later = (0..10).fold(meanwhile, |now, n| now.heard(away, before, BOUNDS, Timestamp(2_000 + n * 1_000)));
        assert_eq!(later.limit(BOUNDS), 2, "and never below its floor");
    }

    #[test]
    fn calls_that_leave_places_free_say_nothing_of_a_higher_limit() {
        let fared = Fared { took_ms: 200, turned_away: false };
        let idle = (0..100).fold(Adaptive::default(), |now, _| now.heard(fared, 1, BOUNDS, Timestamp(0)));
        assert_eq!(idle.limit(BOUNDS), FIRST);
    }

    #[test]
    fn new_bounds_hold_at_once() {
        let (usual, _) = rounds(Adaptive::default(), 200, 200);
        assert_eq!(usual.limit(Bounds { least: 1, most: 5 }), 5);
        assert_eq!(Adaptive::default().limit(Bounds { least: 20, most: 30 }), 20);
    }
}
