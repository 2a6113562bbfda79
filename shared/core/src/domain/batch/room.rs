//! How much fits into one call.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;

/// How much one call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members.
    pub max_items: usize,
    /// Bytes of payloads, all members together.
    pub max_bytes: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    pub wait_ms: u64,
    /// A batch with this many members, or more, does not wait for the end of its window.
    pub min_items: Option<usize>,
    /// A batch to which nothing has come for so long, in milliseconds, does not wait for the end of its window.
    pub quiet_ms: Option<u64>,
}

impl Default for Limits {
    /// What a route has that says nothing of them.
    fn default() -> Self {
        Self { max_items: 100, max_bytes: 1_000_000, wait_ms: 1_000, min_items: None, quiet_ms: None }
    }
}

/// Room left in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Members that still fit.
    pub items: usize,
    /// Bytes that still fit.
    pub bytes: u64,
    /// Whether the batch has no member yet: it then takes one task of any size, so that a limit which was lowered
    /// after a task's registration cannot keep it waiting for ever.
    pub empty: bool,
}

impl Limits {
    /// The room of an empty batch.
    pub const fn room(&self) -> Room {
        Room { items: self.max_items, bytes: self.max_bytes, empty: true }
    }

    /// Carves batches that wait for nobody from the front of `candidates`, in their order: full ones, and a last one
    /// that is large enough. Who is in none of them is left for a batch that waits for more. A batch is full as a
    /// leader's is ([`Room::take`]).
    pub fn carve(&self, candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
        let mut queue = VecDeque::from(candidates);
        let mut batches = Vec::new();
        loop {
            let (taken, full) = self.room().take(&mut queue);
            let is_enough = self.quiet_ms.is_none() && self.min_items.is_some_and(|least| taken.len() >= least);
            if taken.is_empty() || !(full || is_enough) {
                return batches;
            }
            batches.push(taken);
        }
    }

    /// How long a batch waits for more, of which `joined` members have come, the latest one at `last`, and whose window
    /// is over at `until`.
    pub fn waits_until(&self, joined: usize, last: Timestamp, until: Timestamp) -> Timestamp {
        if self.min_items.is_some_and(|least| joined < least) {
            return until;
        }
        match (self.quiet_ms, self.min_items) {
            (Some(quiet_ms), _) => until.min(last.plus_ms(quiet_ms)),
            (None, Some(_)) => until.min(last),
            (None, None) => until,
        }
    }

    /// For how long a task may wait for others before a leader is elected for it, in milliseconds.
    pub fn patience_ms(&self) -> u64 {
        self.quiet_ms.map_or(self.wait_ms, |quiet_ms| quiet_ms.min(self.wait_ms))
    }

    /// The room left beside `joined` members with `bytes` of payloads.
    pub const fn room_beside(&self, joined: usize, bytes: u64) -> Room {
        Room {
            items: self.max_items.saturating_sub(joined),
            bytes: self.max_bytes.saturating_sub(bytes),
            empty: joined == 0,
        }
    }
}

impl Room {
    /// What is left of this room beside `candidates`.
    pub fn beside(&self, candidates: &[Candidate]) -> Self {
        let bytes: u64 = candidates.iter().map(|candidate| u64::from(candidate.bytes)).sum();
        Self {
            items: self.items.saturating_sub(candidates.len()),
            bytes: self.bytes.saturating_sub(bytes),
            empty: self.empty && candidates.is_empty(),
        }
    }

    /// Takes candidates from the front of `queue` while they fit. Returns them, and whether the batch is now full:
    /// no items are left, or the next candidate does not fit in the bytes.
    pub fn take(&self, queue: &mut VecDeque<Candidate>) -> (Vec<Candidate>, bool) {
        let mut taken = Vec::new();
        let mut bytes = 0_u64;
        while let Some(next) = queue.front() {
            let size = u64::from(next.bytes);
            let fits = bytes + size <= self.bytes || (self.empty && taken.is_empty());
            if taken.len() == self.items || !fits {
                return (taken, true);
            }
            bytes += size;
            taken.extend(queue.pop_front());
        }
        let full = taken.len() >= self.items;
        (taken, full)
    }
}

/// A delayed message knows whole seconds.
const SECOND_MS: u64 = 1_000;
/// How fast tasks came before the present batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// This many tasks.
    pub members: usize,
    /// In this many milliseconds.
    pub ms: u64,
}

impl Pace {
    /// Nothing is known of before. What comes to a leader first has gathered for about so long or somewhat longer: it
    /// is what one of five processes of the task queue's mapping received within its window. Too early a look costs
    /// little.
    pub const UNKNOWN: Self = Self { members: 0, ms: SECOND_MS / 5 };
}

/// A leader does not look more often than this, in milliseconds.
const SHORTEST_LOOK_MS: u64 = 30;
/// A leader whose batch should be full within this many milliseconds stays and looks again and again: a message would
/// be late. Twice the task queue's window: tasks come in lumps, and who has just taken one sees few for a while.
const NEAR_MS: u64 = 4 * SECOND_MS;
/// As long as that, it looks as often as this at least, in milliseconds: tasks come in lumps, as mappings gather them.
const LONGEST_LOOK_MS: u64 = 50;
/// But between two looks a batch gets older by this part at least, so that one whose last tasks do not come is looked
/// at fewer and fewer times.
const AGES_BY: u64 = 40;

/// In how long a batch should be looked at again, in milliseconds, whose window began `open_ms` ago, that has `joined`
/// members and `room` for more, and waits for `left_ms` at most; `before` is how fast the batch before it filled.
///
/// When it would be full if tasks came as fast as so far, in whole seconds (a delayed message knows no less, and too
/// early is better than too late); but after half of what is left at the latest, for a rate that rises. Shortly before,
/// after half of the time that it should take, and a twentieth of a second at most. Except at
/// that half, never before the batch is older by a fortieth. So each look changes what is left, or the age, by a
/// factor, and their number grows with the window's logarithm.
pub fn next_look_ms(left_ms: u64, open_ms: u64, joined: usize, room: usize, before: Pace) -> u64 {
    let (so_far_ms, came) = (open_ms + before.ms, joined + before.members);
    let full_in_ms = so_far_ms.saturating_mul(room as u64) / (came.max(1) as u64);
    let halfway_ms = (left_ms / 2).max(SECOND_MS);
    let aged_ms = open_ms / AGES_BY;
    let whole_seconds = |ms: u64| ms - ms % SECOND_MS;
    let look_in_ms = match full_in_ms {
        0..NEAR_MS => (full_in_ms / 2).clamp(SHORTEST_LOOK_MS, LONGEST_LOOK_MS).max(aged_ms),
        _ if full_in_ms < halfway_ms => whole_seconds(full_in_ms.max(aged_ms)),
        _ => halfway_ms,
    };
    look_in_ms.min(left_ms)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::{Round, TaskId};

    fn candidate(n: u32, bytes: u32) -> Candidate {
        Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes }
    }

    #[test]
    fn a_batch_is_looked_at_when_it_should_be_full_and_halfway_at_the_latest() {
        // Open for a moment, with what a fifth of a second brought.
        assert_eq!(next_look_ms(6_000, 0, 50, 50, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(6_000, 0, 20, 80, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(6_000, 0, 5, 2, Pace::UNKNOWN), 40, "half of the 80 ms that it should take");
        assert_eq!(next_look_ms(6_000, 0, 5, 95, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(20_000, 0, 4, 96, Pace::UNKNOWN), 4_000);
        assert_eq!(next_look_ms(6_000, 0, 4, 96, Pace::UNKNOWN), 3_000);
        assert_eq!(next_look_ms(6_000, 0, 1, 99, Pace::UNKNOWN), 3_000);
        assert_eq!(next_look_ms(6_000, 0, 99, 1, Pace::UNKNOWN), 30);
        // Nothing came: the same rate, over a longer time.
        assert_eq!(next_look_ms(300_000, 1_000, 20, 80, Pace::UNKNOWN), 4_000);
        assert_eq!(next_look_ms(297_000, 3_600, 20, 80, Pace::UNKNOWN), 15_000);
        // Little is left over from the batch before, which filled within a second.
        let before = Pace { members: 100, ms: 1_000 };
        assert_eq!(next_look_ms(6_000, 0, 3, 97, before), 50);
        // A minute without the last one: not twenty times a second any more.
        assert_eq!(next_look_ms(240_000, 60_000, 99, 1, Pace::UNKNOWN), 1_500);
        // Never after the window.
        assert_eq!(next_look_ms(20, 5_980, 99, 1, Pace::UNKNOWN), 20);
        assert_eq!(next_look_ms(700, 5_300, 1, 99, Pace::UNKNOWN), 700);
    }

    #[test]
    fn a_batch_whose_last_tasks_do_not_come_is_looked_at_less_and_less() {
        for (joined, room) in [(999, 1), (99, 1), (97, 3), (50, 50), (1, 99)] {
            let looks_in = |window_ms: u64| {
                let (mut open_ms, mut looks) = (0, 0);
                while open_ms < window_ms {
                    open_ms += next_look_ms(window_ms - open_ms, open_ms, joined, room, Pace::UNKNOWN);
                    looks += 1;
                }
                looks
            };
            let (minutes, hours) = (looks_in(300_000), looks_in(10 * 3_600_000));
            assert!(minutes <= 300, "{minutes} looks in five minutes with {joined} of {}", joined + room);
            assert!(hours <= 600, "{hours} looks in ten hours with {joined} of {}", joined + room);
        }
    }

    #[test]
    fn a_batch_waits_for_its_window_until_it_is_large_enough_or_nothing_comes() {
        let (last, until) = (Timestamp(3_000), Timestamp(9_000));
        let waits = |min_items, quiet_ms, joined| {
            Limits { min_items, quiet_ms, ..Limits::default() }.waits_until(joined, last, until)
        };
        assert_eq!(waits(None, None, 99), until);
        assert_eq!((waits(Some(10), None, 9), waits(Some(10), None, 10)), (until, last));
        assert_eq!(waits(None, Some(500), 1), Timestamp(3_500));
        assert_eq!(waits(None, Some(60_000), 1), until, "the window is the longest wait");
        assert_eq!((waits(Some(10), Some(500), 9), waits(Some(10), Some(500), 10)), (until, Timestamp(3_500)));
    }

    #[test]
    fn a_rest_that_is_large_enough_is_a_batch_unless_others_may_come_soon() {
        let sizes = |limits: Limits, count| {
            limits.carve((0..count).map(|n| candidate(n, 1)).collect()).iter().map(Vec::len).collect::<Vec<_>>()
        };
        let limits = Limits { max_items: 10, min_items: Some(4), ..Limits::default() };
        assert_eq!((sizes(limits, 23), sizes(limits, 24)), (vec![10, 10], vec![10, 10, 4]));
        assert_eq!(sizes(Limits { quiet_ms: Some(500), ..limits }, 24), [10, 10]);
    }

    #[test]
    fn an_empty_batch_takes_one_task_that_is_larger_than_the_limit() {
        let mut queue = VecDeque::from([candidate(1, 600), candidate(2, 1)]);
        let (taken, full) = Room { items: 9, bytes: 500, empty: true }.take(&mut queue);
        assert_eq!((taken.len(), full), (1, true));
    }

    #[test]
    fn only_a_batch_without_a_member_takes_one_that_is_too_large() {
        let limits = Limits { max_items: 5, max_bytes: 100, ..Limits::default() };
        assert_eq!(limits.room(), Room { items: 5, bytes: 100, empty: true });
        assert_eq!(limits.room_beside(0, 0), limits.room());
        let beside_one = Room { items: 4, bytes: 90, empty: false };
        assert_eq!(limits.room_beside(1, 10), beside_one);
        assert_eq!(limits.room().beside(&[candidate(1, 10)]), beside_one);
        assert_eq!(limits.room().beside(&[]), limits.room());
        assert!(!beside_one.beside(&[]).empty);
    }

    proptest! {
        #[test]
        fn carved_batches_are_full_and_in_order_and_the_rest_is_not(
            sizes in proptest::collection::vec(0_u32..100, 0..60), max_items in 1_usize..20, max_bytes in 1_u64..500,
        ) {
            let limits = Limits { max_items, max_bytes, ..Limits::default() };
            let all: Vec<_> = sizes.iter().zip(0..).map(|(size, n)| candidate(n, *size)).collect();
            let batches = limits.carve(all.clone());
            let carved: Vec<_> = batches.iter().flatten().cloned().collect();
            prop_assert_eq!(&all[..carved.len()], &carved[..]);
            let bytes = |batch: &[Candidate]| batch.iter().map(|c| u64::from(c.bytes)).sum::<u64>();
            let mut behind = 0;
            for batch in &batches {
                behind += batch.len();
                prop_assert!(batch.len() <= max_items && (batch.len() == 1 || bytes(batch) <= max_bytes));
                let next = all.get(behind).map_or(0, |next| u64::from(next.bytes));
                prop_assert!(batch.len() == max_items || bytes(batch) + next > max_bytes);
            }
            let rest = &all[carved.len()..];
            prop_assert!(rest.len() < max_items && (rest.len() <= 1 || bytes(rest) <= max_bytes));
        }

        #[test]
        fn what_is_taken_fits_and_nothing_that_fits_is_left_in_front(
            sizes in proptest::collection::vec(0_u32..100, 0..50), items in 0_usize..20, bytes in 0_u64..500,
        ) {
            let mut queue: VecDeque<_> = sizes.iter().zip(0..).map(|(size, n)| candidate(n, *size)).collect();
            let before = queue.len();
            let (taken, full) = Room { items, bytes, empty: false }.take(&mut queue);
            let total: u64 = taken.iter().map(|c| u64::from(c.bytes)).sum();
            prop_assert!(taken.len() <= items && total <= bytes);
            prop_assert_eq!(taken.len() + queue.len(), before);
            if !full {
                prop_assert!(queue.is_empty() && taken.len() < items);
            }
        }
    }
}
