//! Which items each ack of a benchmark is for: computed when it is asked for, so that the plan of a large fan-out takes
//! no memory beside what is measured.

use groupage_core::domain::tracker::GROUP_SIZE;

/// A number of acks in random order; some of them are for items that another ack is for, too.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    items: u64,
    chunk: u16,
    /// Acks that are for different items.
    first: u64,
    /// Acks that repeat one of these.
    repeated: u64,
    seed: u64,
}

/// Consecutive items of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub group: u32,
    /// The first item's position in it.
    pub first: u16,
    /// The last item's.
    pub last: u16,
}

/// Each mixes half of a number's bits into the other half. Four make the order look random.
const ROUNDS: u64 = 4;

impl Plan {
    /// Acks for all of `items`, `chunk` consecutive ones in each (fewer at the end of a group), and of every hundred
    /// acks `repeated_percent` more once again.
    pub fn new(items: u64, chunk: u16, repeated_percent: u8, seed: u64) -> Self {
        let group = u64::from(GROUP_SIZE);
        let last = (items % group).div_ceil(u64::from(chunk));
        let first = items / group * per_group(chunk) + last;
        Self { items, chunk, first, repeated: first * u64::from(repeated_percent) / 100, seed }
    }

    pub const fn acks(&self) -> u64 {
        self.first + self.repeated
    }

    /// How many of them repeat another.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The ack at a position; `None` behind the last.
    pub fn ack(&self, position: u64) -> Option<Range> {
        if position >= self.acks() {
            return None;
        }
        let drawn = self.shuffled(position);
        // Those beyond the first ones repeat any of them.
        let number = if drawn < self.first { drawn } else { mix(drawn ^ self.seed) % self.first };
        let (group, place) = (number / per_group(self.chunk), number % per_group(self.chunk));
        let size = (self.items - group * u64::from(GROUP_SIZE)).min(u64::from(GROUP_SIZE));
        let first = place * u64::from(self.chunk);
        let last = (first + u64::from(self.chunk)).min(size) - 1;
        Some(Range {
            group: u32::try_from(group).ok()?,
            first: u16::try_from(first).ok()?,
            last: u16::try_from(last).ok()?,
        })
    }

    /// Where a position goes in a random order of all: a Feistel network permutes the next larger power of four, and is
    /// walked until it is back among the positions that there are.
    fn shuffled(&self, position: u64) -> u64 {
        let half = self.acks().max(2).next_power_of_two().ilog2().div_ceil(2);
        let mask = (1 << half) - 1;
        let mut at = position;
        loop {
            let (mut left, mut right) = (at >> half, at & mask);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ (mix(right ^ mix(self.seed ^ round << 56)) & mask));
            }
            at = left << half | right;
            if at < self.acks() {
                return at;
            }
        }
    }
}

fn per_group(chunk: u16) -> u64 {
    u64::from(GROUP_SIZE.div_ceil(chunk))
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the number.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn acks(plan: &Plan) -> Vec<Range> {
        (0..plan.acks()).map(|position| plan.ack(position).unwrap()).collect()
    }

    #[test]
    fn every_item_is_acked_and_as_many_acks_are_repeated_as_were_asked_for() {
        for (items, chunk, percent) in
            [(1, 1, 100), (7_168, 7_168, 0), (7_169, 100, 5), (20_000, 1, 5), (50_000, 10, 37), (14_336, 3, 0)]
        {
            let plan = Plan::new(items, chunk, percent, 7);
            let mut times: HashMap<(u32, u16), u64> = HashMap::new();
            let mut ranges: HashMap<(u32, u16), u64> = HashMap::new();
            for Range { group, first, last } in acks(&plan) {
                assert!(last < GROUP_SIZE && last - first < chunk);
                *ranges.entry((group, first)).or_default() += 1;
                (first..=last).for_each(|index| *times.entry((group, index)).or_default() += 1);
            }
            assert_eq!(times.len() as u64, items, "every item");
            let group = u64::from(GROUP_SIZE);
            assert!(times.keys().all(|(at, index)| u64::from(*at) * group + u64::from(*index) < items));
            let repeated: u64 = ranges.values().map(|times| times - 1).sum();
            assert_eq!(repeated, plan.repeated());
            assert_eq!(plan.repeated(), (plan.acks() - plan.repeated()) * u64::from(percent) / 100);
            assert_eq!(plan.ack(plan.acks()), None);
        }
    }

    #[test]
    fn the_order_follows_from_the_seed_and_from_nothing_else() {
        let of = |seed| acks(&Plan::new(10_000, 1, 5, seed));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        // In a random order, an ack rarely comes right after its neighbour.
        let neighbours = of(7).windows(2).filter(|pair| pair[1].first == pair[0].first + 1).count();
        assert!(neighbours < 50, "{neighbours} of 10,500");
    }
}
