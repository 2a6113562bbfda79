//! The shards that an event's tasks are put into.
//!
//! The tasks of a Target that come alone in one event are drawn into one shard, so that one election is enough. If
//! a shard does not take a task, those of the same draw that are left go to another: two shards may lie on one partition of
//! the index, which then bears half of what others do. Leaving it alone is also what lets its leaders move tasks out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::{Shard, Target};

/// At most so many shards are tried for the tasks of one draw. If they all are throttled, it is the tables that take no tasks,
/// and further tries only cost time.
const MOST_SHARDS: usize = 16;

/// By the shard that tasks were drawn into and that did not take one: the shards that they may go to, the present one first.
#[derive(Debug, Default)]
pub(super) struct Spread(Mutex<BTreeMap<Target, Vec<Target>>>);

impl Spread {
    /// Where tasks go that were drawn into this shard.
    pub(super) fn place(&self, drawn: &Target) -> Target {
        let draws = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        draws.get(drawn).and_then(|takers| takers.first()).unwrap_or(drawn).clone()
    }

    /// Leaves a `place`, of as many `shards` as there are, that did not take one of these tasks; somebody may have done so
    /// already. False if no other is left. `random` draws numbers in `0.0..1.0`.
    pub(super) fn leave(&self, drawn: &Target, place: &Target, shards: u8, random: impl FnMut() -> f64) -> bool {
        let mut draws = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let takers = draws.entry(drawn.clone()).or_insert_with(|| order(drawn, shards, random));
        let has_other = takers.iter().any(|taker| taker != place);
        if has_other {
            takers.retain(|taker| taker != place);
        }
        has_other
    }
}

/// The drawn shard and then others, in an order of the event's own, lest all events leave one for the same other.
fn order(drawn: &Target, shards: u8, mut random: impl FnMut() -> f64) -> Vec<Target> {
    let mut others: Vec<Target> = drawn.shards(shards).filter(|other| other != drawn).collect();
    let mut order = vec![drawn.clone()];
    while order.len() < MOST_SHARDS
        && let Ok(remaining @ 1..) = u8::try_from(others.len())
    {
        order.push(others.swap_remove(usize::from(Shard::drawn(remaining, random()).0)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Target {
        Target::new("parcels:t")
    }

    #[test]
    fn all_tasks_of_a_draw_move_together_and_others_stay() {
        let spread = Spread::default();
        let (leave, shard) = (|place: &Target| spread.leave(&home(), place, 4, || 0.0), |n| home().in_shard(Shard(n)));
        assert_eq!(spread.place(&home()), home());
        assert!(leave(&home()));
        assert_eq!(spread.place(&home()), shard(1));
        assert!(leave(&home()), "somebody else who was refused there");
        assert_eq!(spread.place(&home()), shard(1));
        assert!(leave(&shard(1)));
        assert_eq!(spread.place(&home()), shard(3));
        for other in [shard(1), Target::new("parcels:u")] {
            assert_eq!(spread.place(&other), other);
        }
    }

    #[test]
    fn no_shard_is_tried_twice_and_each_may_be_unless_there_are_many() {
        for count in 1..=64 {
            let (spread, mut tried) = (Spread::default(), vec![home()]);
            while tried.last().is_some_and(|last| spread.leave(&home(), last, count, || 0.5)) {
                let next = spread.place(&home());
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOST_SHARDS));
        }
    }
}
