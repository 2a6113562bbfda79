//! When places in flight are given back, as far as the calls before say: what those that wait for one judge by when to
//! come back.
//!
//! A place's lease is counted from when it was taken, and all leases of a gate are about as long. So the gate needs not
//! to know when a call began: it knows how much of its lease a call usually leaves. The write that gives a place back
//! adds to that, so learning costs no request.

use super::Gate;
use crate::domain::time::Timestamp;

/// How much of their leases calls had left when they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// How many calls.
    pub calls: u32,
    /// What they had left together, in milliseconds.
    pub left_ms: u64,
}

/// After this many calls the older half is forgotten.
const MOST_CALLS: u32 = 32;
/// From the end of a call to when others see its place free, in milliseconds.
const RETURN_MS: u64 = 10;
/// A call that takes longer than usual is looked after at least so often, in milliseconds.
const MOST_LATE_MS: u64 = 5_000;
/// The shortest pause before another look at a gate that is full, in milliseconds.
pub const LOOK_MS: u64 = 15;

impl Ends {
    /// With one call more, which ended then and had a place until `lease`.
    #[must_use]
    pub fn and(self, lease: Timestamp, ended: Timestamp) -> Self {
        Self { calls: self.calls.saturating_add(1), left_ms: self.left_ms.saturating_add(lease.since(ended)) }
    }

    /// Without what is long ago.
    pub(super) fn recent(self) -> Self {
        let calls = if self.calls > MOST_CALLS { self.calls / 2 } else { self.calls };
        Self { calls, left_ms: self.usual_ms().unwrap_or_default() * u64::from(calls) }
    }

    /// What a call usually leaves of its lease, in milliseconds; `None`: nothing is known.
    fn usual_ms(self) -> Option<u64> {
        self.left_ms.checked_div(self.calls.into())
    }

    /// How long a place is usually held that is taken with a lease of this length, in milliseconds.
    pub(super) fn held_ms(self, lease_ms: u64) -> Option<u64> {
        self.usual_ms().map(|left_ms| lease_ms.saturating_sub(left_ms).max(1))
    }
}

impl Gate {
    /// When a place is free for a batch that needs this many to be given back, of `most` places whose leases are as
    /// long as from now to `lease_until`. A call that takes longer than usual is expected to take half as long again
    /// as it is late, and at most some seconds, so that those that wait look rarely, and not late by much.
    pub(super) fn free_at(&self, missing: u64, most: usize, lease_until: Timestamp, now: Timestamp) -> Timestamp {
        let lease_ms = lease_until.since(now);
        let held_ms = self.ends.held_ms(lease_ms);
        let end = |lease: &Timestamp| {
            let taken = Timestamp(lease.0.saturating_sub(lease_ms));
            let usual = taken.plus_ms(held_ms.map_or(0, |held_ms| held_ms + RETURN_MS));
            // A dead worker's place is free when its lease is over.
            let late_ms = (now.since(usual) / 2).clamp(LOOK_MS, MOST_LATE_MS);
            if usual > now { usual } else { now.plus_ms(late_ms).min(*lease) }
        };
        // As long as nothing is known, the calls under way have shown how long they take at least.
        let seen_ms = || self.in_flight.values().map(|lease| lease_ms.saturating_sub(lease.since(now))).max();
        let round_ms = held_ms.map(|held_ms| held_ms + RETURN_MS).or_else(seen_ms).unwrap_or_default().max(LOOK_MS);
        let free = most.saturating_sub(self.in_flight.len());
        // Those that are free are about to be taken by the tickets before.
        let taken = std::iter::repeat_n(now.plus_ms(round_ms), free);
        let mut ends: Vec<Timestamp> = self.in_flight.values().map(end).chain(taken).collect();
        ends.sort_unstable();
        let nth = missing.saturating_sub(1) + self.in_flight.len().saturating_sub(most) as u64;
        let (rounds, place) = (nth / ends.len().max(1) as u64, nth % ends.len().max(1) as u64);
        let first = usize::try_from(place).ok().and_then(|place| ends.get(place));
        first.copied().unwrap_or(now).plus_ms(rounds.saturating_mul(round_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::BatchId;

    const LEASE_MS: u64 = 60_000;

    fn gate(taken: &[u64], ends: Ends) -> Gate {
        let in_flight = (0..).zip(taken).map(|(n, at)| (BatchId::new(format!("b{n}")), Timestamp(at + LEASE_MS)));
        Gate { in_flight: in_flight.collect(), ends, ..Gate::default() }
    }

    fn free_at(gate: &Gate, missing: u64, most: usize, now: u64) -> u64 {
        gate.free_at(missing, most, Timestamp(now + LEASE_MS), Timestamp(now)).0
    }

    /// Calls that take a second.
    fn seconds() -> Ends {
        (0..10).fold(Ends::default(), |ends, n| ends.and(Timestamp(n + LEASE_MS), Timestamp(n + 1_000)))
    }

    #[test]
    fn places_are_expected_back_in_the_order_in_which_they_were_taken_and_then_anew() {
        let gate = gate(&[10_200, 10_000, 10_100], seconds());
        let expected = [11_010, 11_110, 11_210, 12_020, 12_120, 12_220, 13_030];
        for (missing, at) in (1..).zip(expected) {
            assert_eq!(free_at(&gate, missing, 3, 10_500), at, "{missing}");
        }
        assert_eq!(free_at(&gate, 1, 2, 10_500), 11_110, "one is too many");
    }

    #[test]
    fn who_waits_for_a_call_that_takes_longer_looks_more_rarely_each_time() {
        for (ends, usual) in [(seconds(), 11_010), (Ends::default(), 10_000)] {
            let (gate, mut now, mut looks) = (gate(&[10_000], ends), usual, 0);
            while now < usual + 10_000 {
                let at = free_at(&gate, 1, 1, now);
                assert!(at >= now + LOOK_MS && at <= now.max(usual + 60) + (now - usual) / 2 + LOOK_MS, "{now}: {at}");
                (now, looks) = (at, looks + 1);
            }
            assert!(looks < 20, "{looks}");
        }
    }

    #[test]
    fn a_dead_workers_place_is_expected_when_its_lease_is_over() {
        let gate = gate(&[10_000], seconds());
        assert_eq!([40_000, 66_000, 69_990].map(|now| free_at(&gate, 1, 1, now)), [45_000, 70_000, 70_000]);
    }

    #[test]
    fn what_is_usual_follows_the_calls() {
        let slower =
            (0..200).fold(seconds(), |ends, n| ends.and(Timestamp(n + LEASE_MS), Timestamp(n + 3_000)).recent());
        assert_eq!(slower.held_ms(LEASE_MS), Some(3_000));
        assert_eq!(Ends::default().held_ms(LEASE_MS), None);
    }

    #[test]
    fn places_that_are_free_are_about_to_be_taken_by_those_that_wait_before() {
        let gate = gate(&[10_000], seconds());
        let expected = [11_010, 11_510, 11_510, 12_020];
        assert_eq!([1, 2, 3, 4].map(|missing| free_at(&gate, missing, 3, 10_500)), expected);
        assert_eq!(free_at(&Gate::default(), 3, 2, 1_000), 1_000 + 2 * LOOK_MS, "nothing is known");
    }
}
