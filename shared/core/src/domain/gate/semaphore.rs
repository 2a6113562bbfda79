//! Semaphore: counted permits with leases (Gray and Cheriton, "Leases", SOSP 1989).
//!
//! A permit names its holder, a batch, and when its lease ends. A worker that dies gives its permit back by time, and
//! the worker that takes its batch over holds the same permit. A renewed lease is later than the one before, so nobody
//! gives back a permit that another worker has renewed.
//!
//! The write that gives a permit back also adds what its lease had left. All leases of calls are about as long, so that
//! sum says how long calls hold their permits, and when the next one comes back. A job's permit is given back without
//! that.

use std::collections::BTreeMap;

use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;

/// The permits of a limiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semaphore {
    /// Until when each holder's lease lasts.
    pub leases: BTreeMap<BatchId, Timestamp>,
    /// Calls that gave their permits back.
    pub returned: u32,
    /// What their leases had left together, in milliseconds.
    pub left_ms: u64,
}

/// After this many calls the older half is forgotten.
const MOST_RETURNED: u32 = 32;
/// From the end of a call to when others see its permit, in milliseconds.
const RETURN_MS: u64 = 10;
/// How long a call takes at least, in milliseconds, as long as none has ended.
const GUESS_MS: u64 = 500;
/// A call that takes longer than usual is looked after at least so often, in milliseconds.
const MOST_LATE_MS: u64 = 5_000;
/// A lease is longer than those of others by this much at most, in milliseconds, unless it is a job's: a batch that
/// waits elsewhere keeps its permit for as long as its message may be delayed, and so does a call that timed out.
const LONGEST_WAIT_MS: u64 = 15 * 60 * 1_000;
/// The shortest pause before another look at a semaphore without permits, in milliseconds.
pub const LOOK_MS: u64 = 15;

impl Semaphore {
    /// Returns until when the permit of `batch` lasts, if its lease is not over.
    #[must_use]
    pub fn lease(&self, batch: &BatchId, now: Timestamp) -> Option<Timestamp> {
        self.leases.get(batch).copied().filter(|lease| *lease > now)
    }

    /// Counts the permits that are free.
    pub(super) fn free(&self, most: usize) -> u64 {
        most.saturating_sub(self.leases.len()) as u64
    }

    /// Takes the permits back whose leases are over.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.leases.retain(|_, lease| *lease > now);
    }

    /// Acquires a permit for `batch`, or renews the one it has. The lease is then later than before, except for one
    /// more call of the same worker: another delivery of the batch may know the former one, and give it back.
    pub(super) fn acquire(&mut self, batch: &BatchId, lease_until: Timestamp, is_same_worker: bool) {
        let renewed = |lease: &Timestamp| if is_same_worker { *lease } else { lease.plus_ms(1) };
        let least = self.leases.get(batch).map_or(lease_until, renewed);
        if !self.leases.contains_key(batch) && self.returned > MOST_RETURNED {
            self.left_ms = self.left_ms / u64::from(self.returned) * u64::from(self.returned / 2);
            self.returned /= 2;
        }
        self.leases.insert(batch.clone(), least.max(lease_until));
    }

    /// Gives back the permit that `batch` has until `lease` or earlier; says whether there was one. If its call has
    /// ended then, its hold time counts.
    pub(super) fn release(&mut self, batch: &BatchId, lease: Timestamp, ended: Option<Timestamp>) -> bool {
        if self.leases.get(batch).is_none_or(|until| *until > lease) {
            return false;
        }
        self.leases.remove(batch);
        if let Some(ended) = ended {
            self.returned = self.returned.saturating_add(1);
            self.left_ms = self.left_ms.saturating_add(lease.since(ended));
        }
        true
    }

    /// Returns how long a permit is held that is acquired with a lease of this length; `None`: no call has ended.
    fn held_ms(&self, lease_ms: u64) -> Option<u64> {
        let left_ms = self.left_ms.checked_div(self.returned.into())?;
        Some(lease_ms.saturating_sub(left_ms).max(1))
    }

    /// Estimates when the `nth` permit from now is free, of `most` whose leases are as long as from now to
    /// `lease_until`. A call that takes longer than usual is expected to take half as long again as it is late, so that
    /// those that wait ask rarely, and not late by much.
    pub(super) fn free_at(&self, nth: u64, most: usize, lease_until: Timestamp, now: Timestamp) -> Timestamp {
        let lease_ms = lease_until.since(now);
        let held_ms = self.held_ms(lease_ms);
        // A job keeps its permit for hours. Those that wait share the others, unless there is none.
        let is_usual = |lease: &&Timestamp| lease.since(now) <= lease_ms + LONGEST_WAIT_MS;
        let usual: Vec<Timestamp> = self.leases.values().filter(is_usual).copied().collect();
        let jobs = self.leases.len() - usual.len();
        let (leases, most) =
            if jobs < most { (usual, most - jobs) } else { (self.leases.values().copied().collect(), most) };
        let end = |lease: &Timestamp| {
            let acquired = Timestamp(lease.0.saturating_sub(lease_ms));
            let usual = acquired.plus_ms(held_ms.map_or(0, |held_ms| held_ms + RETURN_MS));
            let late_ms = (now.since(usual) / 2).clamp(LOOK_MS, MOST_LATE_MS);
            if usual > now { usual } else { now.plus_ms(late_ms).min(*lease) }
        };
        // As long as no call has ended, the calls under way have shown how long they take at least.
        let seen_ms = || leases.iter().map(|lease| lease_ms.saturating_sub(lease.since(now))).max();
        let guessed_ms = || seen_ms().unwrap_or_default().max(GUESS_MS);
        let round_ms = held_ms.map_or_else(guessed_ms, |held_ms| held_ms + RETURN_MS);
        // Those that are free are about to be acquired by the tickets before.
        let acquired = std::iter::repeat_n(now.plus_ms(round_ms), most.saturating_sub(leases.len()));
        let mut ends: Vec<Timestamp> = leases.iter().map(end).chain(acquired).collect();
        ends.sort_unstable();
        let nth = nth.saturating_sub(1) + leases.len().saturating_sub(most) as u64;
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

    /// A semaphore with permits that were acquired then, after calls that took so long.
    fn semaphore(acquired: &[u64], held_ms: Option<u64>) -> Semaphore {
        let mut semaphore = Semaphore::default();
        for n in 0..held_ms.map_or(0, |_| 10) {
            called(&mut semaphore, n, held_ms.unwrap_or_default());
        }
        for (n, at) in acquired.iter().enumerate() {
            semaphore.acquire(&BatchId::new(format!("b{n}")), Timestamp(at + LEASE_MS), false);
        }
        semaphore
    }

    fn called(semaphore: &mut Semaphore, at: u64, held_ms: u64) {
        let (batch, lease) = (BatchId::new("before"), Timestamp(at + LEASE_MS));
        semaphore.acquire(&batch, lease, false);
        assert!(semaphore.release(&batch, lease, Some(Timestamp(at + held_ms))));
    }

    fn free_at(semaphore: &Semaphore, nth: u64, most: usize, now: u64) -> u64 {
        semaphore.free_at(nth, most, Timestamp(now + LEASE_MS), Timestamp(now)).0
    }

    #[test]
    fn permits_are_expected_back_in_the_order_in_which_they_were_acquired_and_then_anew() {
        let semaphore = semaphore(&[10_200, 10_000, 10_100], Some(1_000));
        let expected = [11_010, 11_110, 11_210, 12_020, 12_120, 12_220, 13_030];
        for (missing, at) in (1..).zip(expected) {
            assert_eq!(free_at(&semaphore, missing, 3, 10_500), at, "{missing}");
        }
        assert_eq!(free_at(&semaphore, 1, 2, 10_500), 11_110, "one is too many");
    }

    #[test]
    fn who_waits_for_a_call_that_takes_longer_looks_more_rarely_each_time() {
        for (held_ms, usual) in [(Some(1_000), 11_010), (None, 10_000)] {
            let (semaphore, mut now, mut looks) = (semaphore(&[10_000], held_ms), usual, 0);
            while now < usual + 10_000 {
                let at = free_at(&semaphore, 1, 1, now);
                assert!(at >= now + LOOK_MS && at <= now.max(usual + 60) + (now - usual) / 2 + LOOK_MS, "{now}: {at}");
                (now, looks) = (at, looks + 1);
            }
            assert!(looks < 20, "{looks}");
        }
    }

    #[test]
    fn a_dead_workers_permit_is_expected_when_its_lease_is_over() {
        let semaphore = semaphore(&[10_000], Some(1_000));
        assert_eq!([40_000, 66_000, 69_990].map(|now| free_at(&semaphore, 1, 1, now)), [45_000, 70_000, 70_000]);
    }

    #[test]
    fn the_hold_time_follows_the_calls() {
        let mut slower = semaphore(&[], Some(1_000));
        (0..200).for_each(|n| called(&mut slower, n, 3_000));
        assert!(slower.held_ms(LEASE_MS).is_some_and(|held_ms| held_ms.abs_diff(3_000) < 20));
        assert_eq!(Semaphore::default().held_ms(LEASE_MS), None);
    }

    #[test]
    fn a_jobs_permit_is_expected_by_nobody_who_has_another_to_wait_for() {
        let mut semaphore = semaphore(&[10_000], Some(1_000));
        semaphore.acquire(&BatchId::new("job"), Timestamp(86_400_000), false);
        assert_eq!([1, 2, 3].map(|nth| free_at(&semaphore, nth, 2, 10_500)), [11_010, 12_020, 13_030]);
        semaphore.leases.remove(&BatchId::new("b0"));
        assert_eq!(free_at(&semaphore, 1, 1, 10_500), 86_400_000 - LEASE_MS + 1_010, "there is no other");
    }

    #[test]
    fn permits_that_are_free_are_about_to_be_acquired_by_those_that_wait_before() {
        let semaphore = semaphore(&[10_000], Some(1_000));
        let expected = [11_010, 11_510, 11_510, 12_020];
        assert_eq!([1, 2, 3, 4].map(|missing| free_at(&semaphore, missing, 3, 10_500)), expected);
        assert_eq!(free_at(&Semaphore::default(), 3, 2, 1_000), 1_000 + 2 * GUESS_MS, "nothing is known");
    }
}
