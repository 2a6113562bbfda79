//! What tasks are grouped and ordered by.

use super::{LaneId, RouteName, Shard, Target};

/// The longest value a `target` expression may give, in bytes: with its route it stays inside the 2,048 bytes that
/// DynamoDB allows a partition key, and keeps a lock inside one write unit.
pub const MAX_TARGET_BYTES: usize = 512;

impl LaneId {
    /// The stored form of the order key that `route` computed.
    pub fn of(route: &RouteName, key: &str) -> Self {
        Self(format!("{route}:{key}"))
    }

    /// The route that orders these tasks.
    pub fn route(&self) -> RouteName {
        RouteName(self.0.split_once(':').map_or(self.0.as_str(), |(route, _)| route).to_owned())
    }

    /// The order key.
    pub fn key(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, key)| key)
    }
}

impl Shard {
    /// The shard that every Target has: it is named by the Target itself.
    pub const HOME: Self = Self(0);

    /// One of `count` shards by `draw`, a number in `0.0..1.0`.
    pub fn drawn(count: u8, draw: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a number of eight bits")]
        let shard = (draw.clamp(0.0, 1.0) * f64::from(count)) as u8;
        Self(shard.min(count.saturating_sub(1)))
    }
}

impl Target {
    /// The stored form of `value` as computed by `route`.
    pub fn of(route: &RouteName, value: &str) -> Self {
        Self(format!("{route}:{value}"))
    }

    /// The route that computed this Target.
    pub fn route(&self) -> RouteName {
        RouteName(self.split().0.to_owned())
    }

    /// What the route's `target` expression gave.
    pub fn value(&self) -> &str {
        self.split().2
    }

    /// Which shard of the Target this is.
    pub fn shard(&self) -> Shard {
        self.split().1
    }

    /// The Target without its shard: its name for people, and the key of its home.
    pub fn whole(&self) -> Self {
        self.in_shard(Shard::HOME)
    }

    /// This shard of the Target.
    pub fn in_shard(&self, shard: Shard) -> Self {
        let (route, _, value) = self.split();
        Self(if shard == Shard::HOME { format!("{route}:{value}") } else { format!("{route}/{shard}:{value}") })
    }

    /// The first `count` shards of the Target, its home first.
    pub fn shards(&self, count: u8) -> impl Iterator<Item = Self> {
        (0..count.max(1)).map(|shard| self.in_shard(Shard(shard)))
    }

    /// Whether this shard is led for itself alone, if its route has `count` shards: the Target's home is, and so is a
    /// shard that is left from a time when there were more, which home's leader does not come to any more.
    pub fn stands_alone(&self, count: u8) -> bool {
        let shard = self.shard();
        shard == Shard::HOME || shard.0 >= count
    }

    /// Route, shard and value. A route's name holds neither `:` nor `/`, so there is one way to read it.
    fn split(&self) -> (&str, Shard, &str) {
        let (place, value) = self.0.split_once(':').unwrap_or((&self.0, ""));
        match place.split_once('/') {
            None => (place, Shard::HOME, value),
            Some((route, shard)) => (route, Shard(shard.parse().unwrap_or_default()), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stored_target_gives_back_its_route_and_value() {
        let target = Target::of(&RouteName::new("parcels"), "truck:7");
        assert_eq!(target.as_str(), "parcels:truck:7");
        assert_eq!(target.route(), RouteName::new("parcels"));
        assert_eq!(target.value(), "truck:7");
    }

    #[test]
    fn a_target_without_shards_is_stored_as_it_always_was() {
        let target = Target::of(&RouteName::new("parcels"), "truck-7");
        assert_eq!(target.in_shard(Shard(3)).as_str(), "parcels/3:truck-7");
        assert_eq!(target.in_shard(Shard::HOME), target);
        assert_eq!(target.shard(), Shard::HOME);
    }

    #[test]
    fn a_value_may_look_like_a_shard() {
        let target = Target::of(&RouteName::new("r"), "a/5:b");
        assert_eq!((target.shard(), target.value()), (Shard::HOME, "a/5:b"));
        assert_eq!(target.in_shard(Shard(2)).whole(), target);
    }

    #[test]
    fn a_lanes_id_gives_back_its_route_and_key() {
        let lane = LaneId::of(&RouteName::new("parcels"), "truck:7");
        assert_eq!((lane.route(), lane.key()), (RouteName::new("parcels"), "truck:7"));
    }

    #[test]
    fn every_shard_is_drawn_from_an_equal_part() {
        let drawn = |draw| Shard::drawn(4, draw);
        assert_eq!([0.0, 0.24, 0.25, 0.5, 0.75, 1.0].map(drawn), [0, 0, 1, 2, 3, 3].map(Shard));
    }

    #[test]
    fn a_shard_is_led_with_its_home_as_long_as_the_route_has_it() {
        let target = Target::of(&RouteName::new("r"), "t");
        let shards: Vec<Target> = target.shards(3).collect();
        assert_eq!(shards, [0, 1, 2].map(|shard| target.in_shard(Shard(shard))));
        assert_eq!(target.shards(0).count(), 1, "its home is always there");
        let alone = |count| shards.iter().map(|shard| shard.stands_alone(count)).collect::<Vec<_>>();
        assert_eq!(alone(3), [true, false, false]);
        assert_eq!(alone(2), [true, false, true], "there were three once");
    }

    proptest! {
        #[test]
        fn every_shard_is_a_key_of_its_own_and_gives_its_target_back(
            route in "[a-z0-9-]{1,64}", value in ".{0,64}", a in 0_u8..64, b in 0_u8..64,
        ) {
            let target = Target::of(&RouteName::new(&route), &value);
            let shard = target.in_shard(Shard(a));
            prop_assert_eq!(shard.shard(), Shard(a));
            prop_assert_eq!(shard.route(), RouteName::new(&route));
            prop_assert_eq!(shard.value(), &value);
            prop_assert_eq!(shard.whole(), target.clone());
            prop_assert_eq!(target.in_shard(Shard(b)) == shard, a == b);
        }

        #[test]
        fn tasks_are_drawn_into_shards_that_there_are(count in 1_u8..=64, draw in 0.0..=1.0) {
            prop_assert!(Shard::drawn(count, draw).0 < count);
        }
    }
}
