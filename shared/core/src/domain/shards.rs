//! How many shards a Target has, and to how many of them its home's leader comes.
//!
//! The number is a route's, or it follows the load. Then each process that registers tasks decides for itself over how
//! many shards it spreads them ([`Heat`](super::heat::Heat)). Home's leader must come to all of these. It learns of
//! them by its own lock: an election for tasks in a shard asks for that shard with the write that it makes anyway, its
//! bid or its signal. So a shard that is used costs no write of its own, and a Target that is quiet no read.
//!
//! Nothing is lost if the number falls too early. A task's workflow comes back until the task has moved on. It signals
//! again if home's leader does not come to its shard any more. So a clock only decides which shards are looked at in
//! vain, and for how long.

use std::fmt;

use super::id::Shard;
use super::time::Timestamp;

/// How many shards a Target has at most if their number follows the load: 16 partitions of the index bear 8,000 tasks a
/// second.
pub const MOST_BY_LOAD: u8 = 16;

/// For so long after it was last asked for a shard, in milliseconds, home's leader comes to it; then, for each time as
/// long, to half as many. It outlasts the quiet minute after which a process gives a shard up.
pub const FOLLOWED_MS: u64 = 120_000;

/// How many shards each Target of a route has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// This many.
    Fixed(u8),
    /// As many as its load needs, up to [`MOST_BY_LOAD`].
    ByLoad,
}

/// The shards that home's leader was asked to come to: the first ones, home included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// How many: a power of two.
    pub shards: u8,
    /// Until when all of them are followed.
    pub until: Timestamp,
}

impl Shards {
    /// There are never more.
    pub const fn most(self) -> u8 {
        match self {
            Self::Fixed(count) => count,
            Self::ByLoad => MOST_BY_LOAD,
        }
    }

    /// How many a Target has of which nothing is known.
    pub const fn at_rest(self) -> u8 {
        match self {
            Self::Fixed(count) => count,
            Self::ByLoad => 1,
        }
    }

    /// To how many home's leader comes by a lock with this reach.
    pub fn followed(self, reach: Option<Reach>, now: Timestamp) -> u8 {
        match self {
            Self::Fixed(count) => count,
            Self::ByLoad => Reach::followed(reach, now),
        }
    }

    /// To how many home's leader comes before it gives up a lock with this reach: the workflow that asked for them may
    /// have a clock that differs.
    pub fn promised(self, reach: Option<Reach>) -> u8 {
        self.followed(reach, Timestamp(0))
    }

    /// Whether home's leader comes to this shard by a lock with this reach.
    pub fn follows(self, shard: Shard, reach: Option<Reach>, now: Timestamp) -> bool {
        shard.0 < self.followed(reach, now)
    }

    /// How many shards an election for tasks in this one needs home's leader to come to; `None` if that need not be
    /// asked for.
    pub fn asked_for(self, shard: Shard) -> Option<u8> {
        match self {
            Self::Fixed(_) => None,
            Self::ByLoad => (shard != Shard::HOME).then(|| shard.0.saturating_add(1)),
        }
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(count) => count.fmt(f),
            Self::ByLoad => f.write_str("auto"),
        }
    }
}

impl Reach {
    /// To how many shards home's leader comes: to home at least.
    pub fn followed(reach: Option<Self>, now: Timestamp) -> u8 {
        let Some(Self { shards, until }) = reach else { return 1 };
        if now <= until {
            return shards.max(1);
        }
        let halvings = u32::try_from(now.since(until) / FOLLOWED_MS).unwrap_or(u32::MAX).saturating_add(1);
        shards.checked_shr(halvings).unwrap_or_default().max(1)
    }

    /// The reach that is written beside a signal so that home's leader comes to this many shards; `None` if it stays as
    /// it is. It is renewed by those who need all of it, twice in its time.
    pub fn asked(before: Option<Self>, shards: u8, now: Timestamp) -> Option<Self> {
        let next = Self { shards: shards.next_power_of_two(), until: now.plus_ms(FOLLOWED_MS) };
        let followed = Self::followed(before, now);
        let is_old = before.is_none_or(|before| before.until.since(now) < FOLLOWED_MS / 2);
        (next.shards > followed || (next.shards == followed && is_old)).then_some(next)
    }

    /// The reach of a lock that changes hands, to a workflow that needs its leader to come to this many shards, or to
    /// none in particular.
    pub fn inherited(before: Option<Self>, shards: Option<u8>, now: Timestamp) -> Option<Self> {
        let asked = shards.and_then(|shards| Self::asked(before, shards, now));
        asked.or_else(|| before.filter(|_| Self::followed(before, now) > 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn reach(shards: u8, until: Timestamp) -> Option<Reach> {
        Some(Reach { shards, until })
    }

    #[test]
    fn a_fixed_number_is_followed_whatever_the_lock_says_and_asks_for_nothing() {
        for lock in [None, reach(16, NOW), reach(2, Timestamp(0))] {
            assert_eq!(Shards::Fixed(4).followed(lock, NOW), 4);
        }
        assert_eq!(Shards::Fixed(4).asked_for(Shard(3)), None);
        assert_eq!((Shards::Fixed(4).most(), Shards::ByLoad.most()), (4, MOST_BY_LOAD));
        assert_eq!([Shards::Fixed(4), Shards::ByLoad].map(|shards| shards.to_string()), ["4", "auto"]);
    }

    #[test]
    fn a_quiet_target_is_its_home_and_asks_for_nothing() {
        assert_eq!(Shards::ByLoad.followed(None, NOW), 1);
        assert_eq!(Shards::ByLoad.asked_for(Shard::HOME), None);
        assert_eq!(Shards::ByLoad.asked_for(Shard(5)), Some(6));
    }

    #[test]
    fn a_reach_that_nobody_renews_halves_again_and_again() {
        let lock = reach(16, NOW);
        let after = |ms| Reach::followed(lock, NOW.plus_ms(ms));
        let times = [0, 1, FOLLOWED_MS - 1, FOLLOWED_MS, 3 * FOLLOWED_MS, 4 * FOLLOWED_MS, u64::MAX / 2];
        assert_eq!(times.map(after), [16, 8, 8, 4, 1, 1, 1]);
    }

    #[test]
    fn it_is_renewed_by_those_who_need_all_of_it_and_not_each_time() {
        let lock = reach(8, NOW.plus_ms(FOLLOWED_MS));
        let asked = |shards, after_ms| Reach::asked(lock, shards, NOW.plus_ms(after_ms));
        let until = |after_ms| NOW.plus_ms(after_ms + FOLLOWED_MS);
        assert_eq!(asked(8, FOLLOWED_MS / 2), None, "it was just written");
        assert_eq!(asked(5, FOLLOWED_MS / 2 + 1), reach(8, until(FOLLOWED_MS / 2 + 1)));
        assert_eq!(asked(4, FOLLOWED_MS / 2 + 1), None, "half of it is enough");
        assert_eq!(asked(9, 0), reach(16, until(0)));
        let late = 2 * FOLLOWED_MS - 1;
        assert_eq!(asked(4, late), reach(4, until(late)), "it has fallen to just that");
    }

    #[test]
    fn a_lock_that_changes_hands_keeps_its_reach_while_that_lasts() {
        let lock = reach(4, NOW);
        assert_eq!(Reach::inherited(lock, None, NOW), lock);
        assert_eq!(Reach::inherited(lock, None, NOW.plus_ms(2 * FOLLOWED_MS)), None);
        assert_eq!(Reach::inherited(lock, Some(2), NOW), lock);
        assert_eq!(Reach::inherited(None, Some(3), NOW), reach(4, NOW.plus_ms(FOLLOWED_MS)));
    }

    proptest! {
        #[test]
        fn a_shard_that_was_asked_for_is_followed(
            before in proptest::option::of((0_u32..=4, 0_u64..2_000_000)),
            shard in 0_u8..MOST_BY_LOAD,
            now in 0_u64..2_000_000,
        ) {
            let before = before.map(|(power, until)| Reach { shards: 1 << power, until: Timestamp(until) });
            let (now, shard) = (Timestamp(now), Shard(shard));
            let asked_for = Shards::ByLoad.asked_for(shard);
            let signalled = asked_for.and_then(|shards| Reach::asked(before, shards, now)).or(before);
            prop_assert!(Shards::ByLoad.follows(shard, signalled, now));
            prop_assert!(Shards::ByLoad.follows(shard, Reach::inherited(before, asked_for, now), now));
            prop_assert!(Reach::followed(signalled, now) <= MOST_BY_LOAD);
        }

        #[test]
        fn what_others_ask_for_never_takes_a_shard_away(
            power in 0_u32..=4, until in 0_u64..2_000_000, shards in 1_u8..=MOST_BY_LOAD, now in 0_u64..2_000_000,
        ) {
            let (before, now) = (reach(1 << power, Timestamp(until)), Timestamp(now));
            let followed = Reach::followed(before, now);
            prop_assert!(Reach::followed(Reach::asked(before, shards, now).or(before), now) >= followed);
            prop_assert!(Reach::followed(Reach::inherited(before, Some(shards), now), now) >= followed);
        }
    }
}
