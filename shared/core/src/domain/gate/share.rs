//! Who waits for whom: the Targets of a route share its line.
//!
//! A ticket has a *slot*: its place in the line, which knows the slot's time. Where Targets do not share, a ticket's
//! number is its slot. Where they do, each Target's tickets have numbers of their own, and the slots follow from the
//! tickets of all: each Target's lie one *stride* apart on a common scale, and their order on it is that of the slots
//! (stride scheduling: Waldspurger and Weihl, 1995). A Target with twice the weight has half the stride.
//!
//! So a gate remembers one [`Stretch`] for each Target that waits, however many batches it has. A Target that begins to
//! wait starts on the scale right behind the slots that may be waited for in place. So a ticket moves to later slots
//! only, never to an earlier one, and a batch that was told a time is never late for it.

use std::collections::BTreeMap;

use crate::domain::id::{Target, digest};

/// Whose tickets are to lie together, and how many turns they get for one of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    key: u64,
    weight: u64,
}

impl Share {
    /// The share of a Target with this weight.
    #[must_use]
    pub fn of(target: &Target, weight: u64) -> Self {
        let hash = digest(&["share", target.as_str()]);
        let hash = hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
        Self { key: 1 + hash % (KEYS - 1), weight: weight.clamp(1, MOST_WEIGHT) }
    }

    const fn stride(self) -> u64 {
        UNIT / self.weight
    }
}

/// Tickets of one Target that follow each other at one distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// How many.
    pub tickets: u64,
    /// Where on the scale the first one is.
    pub from: u64,
    /// How far it is from one to the next.
    pub stride: u64,
}

/// The stretches of a line, each by the number of its first ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(pub BTreeMap<u64, Stretch>);

/// Where a ticket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In this slot.
    At(u64),
    /// Its time is long past; others of its Target wait.
    Past,
    /// It is none of this line.
    Nowhere,
}

/// The largest weight.
pub const MOST_WEIGHT: u64 = 1_000;
/// Targets that wait at once, each with a stretch of its own. One more shares the stretch of another.
const MOST_TARGETS: usize = 64;
/// The stride of a Target with the weight 1.
const UNIT: u64 = 1 << 20;
/// A ticket's number begins with its Target's key; the lower bits count. Key 0 is that of lines which nobody shares.
const COUNT_BITS: u32 = 44;
const KEYS: u64 = 1 << (u64::BITS - COUNT_BITS);

const fn key_of(number: u64) -> u64 {
    number >> COUNT_BITS
}

impl Stretch {
    const fn at(&self, place: u64) -> u64 {
        self.from.saturating_add(self.stride.saturating_mul(place))
    }

    /// How many of its tickets are before this point of the scale, or at it, if `with` those.
    fn before(&self, point: u64, with: bool) -> u64 {
        let (stride, distance) = (self.stride.max(1), point.saturating_sub(self.from));
        let count = match (point >= self.from, with) {
            (false, _) => 0,
            (true, true) => distance / stride + 1,
            (true, false) => distance.div_ceil(stride),
        };
        count.min(self.tickets)
    }
}

impl Shares {
    /// Whether nobody waits that shares.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tickets of all stretches; the last slots of the line are theirs.
    fn tickets(&self) -> u64 {
        self.0.values().map(|stretch| stretch.tickets).sum()
    }

    fn rank(&self, id: u64, point: u64) -> u64 {
        self.0.iter().map(|(other, stretch)| stretch.before(point, *other < id)).sum()
    }

    /// The slot of a ticket, in a line whose next slot is this one.
    pub(super) fn find(&self, number: u64, next: u64) -> Found {
        let base = next.saturating_sub(self.tickets());
        let (key, before) = (key_of(number), self.0.range(..=number).next_back());
        match before.filter(|(id, _)| key_of(**id) == key) {
            Some((id, stretch)) if number - id < stretch.tickets => {
                Found::At(base + self.rank(*id, stretch.at(number - id)))
            }
            Some(_) => Found::Nowhere,
            None if key == 0 && number < base => Found::At(number),
            None if self.last(key).is_some() => Found::Past,
            None => Found::Nowhere,
        }
    }

    /// The stretch to which new tickets of a key belong.
    fn last(&self, key: u64) -> Option<(u64, Stretch)> {
        let last = self.0.range(key << COUNT_BITS..=(key << COUNT_BITS | ((1 << COUNT_BITS) - 1))).next_back();
        last.map(|(id, stretch)| (*id, *stretch))
    }

    /// Whether new tickets go to this stretch.
    #[must_use]
    pub fn is_last(&self, id: u64) -> bool {
        self.last(key_of(id)).is_some_and(|(last, _)| last == id)
    }

    /// Where on the scale a stretch may begin so that it leaves the first slots to the tickets that have them.
    fn open_from(&self, settled: u64) -> u64 {
        let settled = settled.min(self.tickets());
        let first = self.0.values().map(|stretch| stretch.from).min().unwrap_or_default();
        if settled == 0 {
            return first;
        }
        let end = self.0.values().map(|stretch| stretch.at(stretch.tickets)).max().unwrap_or_default();
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rank(u64::MAX, middle) >= settled { high = middle } else { low = middle + 1 }
        }
        low + 1
    }

    /// Where the next ticket of `share` would be: in this stretch, or in a new one that begins there; as a stretch of
    /// one ticket.
    fn next(&self, share: Share, next: u64, open: u64) -> (u64, Stretch) {
        let base = next.saturating_sub(self.tickets());
        let open_from = self.open_from(open.saturating_sub(base));
        let key = self.key_for(share);
        let stride = if key == share.key { share.stride() } else { UNIT };
        match self.last(key) {
            Some((id, last)) if last.at(last.tickets) >= open_from && last.stride == stride => (id, last),
            Some((id, last)) => {
                let from = last.at(last.tickets).max(open_from);
                (id + last.tickets, Stretch { tickets: 0, from, stride })
            }
            None => {
                let count = next & ((1 << COUNT_BITS) - 1);
                (key << COUNT_BITS | count, Stretch { tickets: 0, from: open_from, stride })
            }
        }
    }

    /// Its own key; of two others that of the stretch which ends first if very many wait.
    fn key_for(&self, share: Share) -> u64 {
        let mut keys: Vec<u64> = self.0.keys().map(|id| key_of(*id)).collect();
        keys.dedup();
        if keys.len() < MOST_TARGETS || keys.contains(&share.key) {
            return share.key;
        }
        let count = keys.len() as u64;
        let others = [share.key % count, (share.key / count) % count];
        let others = others.into_iter().filter_map(|at| keys.get(usize::try_from(at).ok()?).copied());
        let end = |key: &u64| self.last(*key).map(|(_, last)| last.at(last.tickets));
        others.min_by_key(end).unwrap_or(share.key)
    }

    /// The slot that the next ticket of `share` would have.
    pub(super) fn next_slot(&self, share: Share, next: u64, open: u64) -> u64 {
        let (id, stretch) = self.next(share, next, open);
        next.saturating_sub(self.tickets()) + self.rank(id, stretch.at(stretch.tickets))
    }

    /// Hands out the next ticket of `share`, and says its number. The line's next slot was this one.
    pub(super) fn take(&mut self, share: Share, next: u64, open: u64) -> u64 {
        let (id, stretch) = self.next(share, next, open);
        self.0.insert(id, Stretch { tickets: stretch.tickets + 1, ..stretch });
        id + stretch.tickets
    }

    /// Adds a ticket to a stretch; says its number.
    pub(super) fn add(&mut self, id: u64) -> Option<u64> {
        let is_last = self.is_last(id);
        let stretch = self.0.get_mut(&id).filter(|_| is_last)?;
        stretch.tickets += 1;
        Some(id + stretch.tickets - 1)
    }

    /// The stretch whose next ticket disturbs nobody, since it follows the others there and is not before slot `open`.
    pub(super) fn following(&self, share: Share, next: u64, open: u64) -> Option<u64> {
        let (id, stretch) = self.next(share, next, open);
        (stretch.tickets > 0 && self.next_slot(share, next, open) >= open).then_some(id)
    }

    /// Forgets the stretches all of whose slots are before this one. The tickets that are left keep theirs.
    pub(super) fn forget(&mut self, next: u64, first: u64) {
        let base = next.saturating_sub(self.tickets());
        let is_past = |(id, stretch): (&u64, &Stretch)| {
            base + self.rank(*id, stretch.at(stretch.tickets.saturating_sub(1))) < first
        };
        let past: Vec<u64> = self.0.iter().filter(|stretch| is_past(*stretch)).map(|(id, _)| *id).collect();
        for id in past {
            self.0.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(target: &str, weight: u64) -> Share {
        Share::of(&Target::new(target), weight)
    }

    /// The slots in which each of these Targets has its tickets, if it takes that many, all of one after another.
    fn slots(all: &[(&str, u64, u64)]) -> Vec<Vec<u64>> {
        let (mut shares, mut next) = (Shares::default(), 1_000);
        let take = |shares: &mut Shares, next: &mut u64, (target, weight, _): (&str, u64, u64)| {
            let number = shares.take(share(target, weight), *next, 0);
            *next += 1;
            number
        };
        let numbers: Vec<Vec<u64>> =
            all.iter().map(|of| (0..of.2).map(|_| take(&mut shares, &mut next, *of)).collect()).collect();
        let slot = |number: &u64| match shares.find(*number, next) {
            Found::At(slot) => slot - 1_000,
            other => panic!("{other:?}"),
        };
        numbers.iter().map(|numbers| numbers.iter().map(slot).collect()).collect()
    }

    #[test]
    fn a_target_with_one_batch_comes_after_one_turn_of_each_other() {
        let slots = slots(&[("a", 1, 10_000), ("b", 1, 10_000), ("c", 1, 1)]);
        assert!(slots[2][0] <= 2, "{:?}", slots[2]);
    }

    #[test]
    fn ten_targets_share_by_their_weights() {
        let names: Vec<String> = (1..=10).map(|n| format!("t{n}")).collect();
        let all: Vec<(&str, u64, u64)> = (1..=10).map(|n| (names[n as usize - 1].as_str(), n, 1_000)).collect();
        for (weight, slots) in (1..).zip(slots(&all)) {
            let share = slots.iter().filter(|slot| **slot < 1_100).count() as f64 / 1_100.0;
            let due = f64::from(weight) / 55.0;
            assert!((share / due - 1.0).abs() < 0.05, "{weight}: {share} of {due}");
        }
    }

    #[test]
    fn targets_beyond_those_with_a_stretch_of_their_own_share_one() {
        let (mut shares, mut next) = (Shares::default(), 1_000);
        for n in 0..300 {
            for _ in 0..3 {
                shares.take(share(&format!("t{n}"), 1), next, 0);
                next += 1;
            }
        }
        assert_eq!(shares.0.len(), MOST_TARGETS);
        let most = shares.0.values().map(|stretch| stretch.tickets).max();
        assert!(most < Some(40), "no stretch gets many more than the others: {most:?}");
    }

    proptest! {
        #[test]
        fn every_ticket_has_a_slot_of_its_own_and_moves_to_later_ones_only(
            events in proptest::collection::vec((0_u64..6, 1_u64..12, 0_u64..30, any::<bool>()), 1..150),
        ) {
            let (mut shares, mut next, mut first) = (Shares::default(), 500, 500);
            let mut known: Vec<(u64, u64)> = Vec::new();
            for (target, weight, settled, forgets) in events {
                if forgets {
                    first = (first + settled / 4).min(next);
                    shares.forget(next, first);
                } else {
                    let open = (first + settled).min(next);
                    let expected = shares.next_slot(share(&target.to_string(), weight), next, open);
                    let number = shares.take(share(&target.to_string(), weight), next, open);
                    next += 1;
                    prop_assert_eq!(shares.find(number, next), Found::At(expected));
                    prop_assert!(expected >= open, "{} is before {}", expected, open);
                    known.push((number, expected));
                }
                known.retain(|(_, slot)| *slot >= first);
                let mut all = Vec::new();
                for (number, slot) in &mut known {
                    let Found::At(now) = shares.find(*number, next) else { panic!("{number} has no slot") };
                    prop_assert!(now >= *slot && now < next);
                    *slot = now;
                    all.push(now);
                }
                all.sort_unstable();
                prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", all);
            }
        }
    }
}
