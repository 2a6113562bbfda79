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
//!
//! The item must stay small, so the stretches are bounded. A ticket that finds no room for one of its own lies at the
//! end of the line, as a ticket does where nobody shares: in the stretch that ends last. A Target that comes often, but
//! less often than its turns, begins a stretch for almost each ticket, and each is past after some seconds. So there
//! may be no room although few Targets wait.

use std::collections::BTreeMap;

use crate::domain::id::digest;

/// Whose tickets are to lie together, and how many turns they get for one of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    key: u64,
    weight: u64,
    /// It begins no stretch where there are as many.
    most: usize,
}

impl Share {
    /// The share of this name with this weight, which begins no stretch where there are this many.
    pub(super) fn of(name: &[&str], weight: u64, most: usize) -> Self {
        let hash = digest(name);
        let hash = hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
        Self { key: 1 + hash % (KEYS - 1), weight: weight.clamp(1, UNIT), most }
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

/// The largest weight of a Target.
pub const MOST_WEIGHT: u64 = 1_000;
/// Stretches that a line has, at most. Each is some 50 bytes of an item that is written with every ticket.
pub(super) const MOST_STRETCHES: usize = 96;
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

    /// Where its next ticket would be.
    const fn end(&self) -> u64 {
        self.at(self.tickets)
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
        let end = self.0.values().map(|stretch| stretch.end()).max().unwrap_or_default();
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rank(u64::MAX, middle) >= settled { high = middle } else { low = middle + 1 }
        }
        low + 1
    }

    /// Where the next ticket of `share` would be: in this stretch, or in a new one that begins there, without tickets.
    fn next(&self, share: Share, next: u64, open: u64) -> (u64, Stretch) {
        let open_from = self.open_from(open.saturating_sub(next.saturating_sub(self.tickets())));
        let has_room = self.0.len() < share.most;
        let own = self.last(share.key);
        let goes_on = |own: &Stretch| own.end() >= open_from && (own.stride == share.stride() || !has_room);
        let ends_last = || self.0.iter().max_by_key(|(_, stretch)| stretch.end()).map(|(id, last)| (*id, *last));
        let joined = own.filter(|(_, own)| goes_on(own)).or_else(|| (!has_room).then(ends_last).flatten());
        joined.unwrap_or_else(|| {
            let first = share.key << COUNT_BITS | next & ((1 << COUNT_BITS) - 1);
            let id = own.map_or(first, |(id, own)| id + own.tickets);
            let from = own.map_or(open_from, |(_, own)| own.end().max(open_from));
            (id, Stretch { tickets: 0, from, stride: share.stride() })
        })
    }

    /// The slot that the next ticket of `share` would have.
    pub(super) fn next_slot(&self, share: Share, next: u64, open: u64) -> u64 {
        let (id, stretch) = self.next(share, next, open);
        next.saturating_sub(self.tickets()) + self.rank(id, stretch.end())
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
        Share::of(&[target], weight, MOST_STRETCHES)
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
    fn a_line_has_no_more_stretches_than_it_may_however_many_targets_of_whatever_weight_wait() {
        let (mut shares, mut known) = (Shares::default(), Vec::new());
        let mut without_room = 0;
        for n in 0..5_000 {
            let target = n * 7 % 300;
            let own = share(&format!("t{target}"), 1 + target % 9);
            let (next, open) = (1_000 + n, 1_000 + n / 2);
            let (had_room, before) = (shares.0.len() < MOST_STRETCHES, shares.last(own.key));
            let expected = shares.next_slot(own, next, open);
            assert!((open..=next).contains(&expected), "{expected} is none of the slots that are open");
            if !had_room && before.is_none() {
                assert_eq!(expected, next, "a ticket without room is the last one");
                without_room += 1;
            }
            known.push((expected, shares.take(own, next, open)));
            let (is_more, begins) = (shares.0.len(), had_room && before.is_none());
            assert!(is_more <= MOST_STRETCHES, "{is_more} stretches");
            assert!(
                !begins || shares.last(own.key).is_some(),
                "where there is room a Target begins a stretch of its own"
            );
        }
        assert_eq!((shares.0.len(), shares.tickets()), (MOST_STRETCHES, 5_000));
        assert!(without_room > 1_000, "{without_room}: most Targets find no room");
        // Each ticket has a slot of its own, and none has an earlier one than it had at first.
        let slots: Vec<u64> = known
            .iter()
            .map(|(expected, number)| match shares.find(*number, 6_000) {
                Found::At(slot) if slot >= *expected => slot,
                other => panic!("{number}, first in {expected}, is {other:?}"),
            })
            .collect();
        let all: std::collections::BTreeSet<u64> = slots.iter().copied().collect();
        assert_eq!(all, (1_000..6_000).collect());
        // Those that come no more leave their room to others.
        shares.forget(6_000, 6_000);
        assert!(shares.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_ticket_has_a_slot_of_its_own_and_moves_to_later_ones_only(
            events in proptest::collection::vec((0_u64..150, 1_u64..4, 0_u64..30, 0_u8..8), 1..250),
        ) {
            let (mut shares, mut next, mut first, mut open) = (Shares::default(), 500, 500, 500);
            let mut known: Vec<(u64, u64)> = Vec::new();
            for (event, (target, weight, settled, forgets)) in events.into_iter().enumerate() {
                // Some come often.
                let target = if settled % 4 == 0 { target % 6 } else { target };
                let own = share(&target.to_string(), weight);
                open = (first + settled).clamp(open, next);
                if forgets == 0 {
                    first = (first + settled / 4).min(next);
                    shares.forget(next, first);
                } else {
                    let expected = shares.next_slot(own, next, open);
                    let number = shares.take(own, next, open);
                    next += 1;
                    prop_assert_eq!(shares.find(number, next), Found::At(expected));
                    prop_assert!(expected >= open, "{} is before {}", expected, open);
                    known.push((number, expected));
                }
                prop_assert!(shares.0.len() <= MOST_STRETCHES);
                known.retain(|(_, slot)| *slot >= first);
                if event % 10 != 9 {
                    continue;
                }
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
