//! The shards that an event's tasks are put into.
//!
//! The tasks of a Target that come alone in one event are drawn into one shard, so that one election is enough. If
//! a shard does not take a task, those of the same draw that are left go to another: two shards may lie on one
//! partition of the index, which then bears half of what others do. Leaving it alone is also what lets its leaders move
//! tasks out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::id::{Shard, Target};

/// At most this many shards are tried for the tasks of one draw. If they all are throttled, it is the tables that take
/// no tasks, and further tries only cost time.
const MOST_SHARDS: usize = 16;

/// The router of one event's tasks: by the shard that tasks were drawn into and that did not take one, the shards that
/// they may go to, the present one first.
#[derive(Debug, Default)]
pub(super) struct ShardRouter(Mutex<BTreeMap<Target, Vec<Target>>>);

impl ShardRouter {
    /// Returns the shard for tasks that were drawn into this one.
    pub(super) fn place(&self, drawn: &Target) -> Target {
        self.lock().get(drawn).and_then(|takers| takers.first()).unwrap_or(drawn).clone()
    }

    /// Leaves a `place`, of as many `shards` as there are, that did not take one of these tasks; another task may have
    /// left it already. The last one that is left stays. Returns whether they may go to another. `random` draws numbers
    /// in `0.0..1.0`.
    pub(super) fn leave(&self, drawn: &Target, place: &Target, shards: u8, random: impl FnMut() -> f64) -> bool {
        let mut draws = self.lock();
        let takers = draws.entry(drawn.clone()).or_insert_with(|| takers(drawn, shards, random));
        if takers.len() > 1 {
            takers.retain(|taker| taker != place);
        }
        takers.first().is_some_and(|taker| taker != place)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Target, Vec<Target>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The drawn shard, and others of this many in an order of the event's own, so that not all events leave one for the
/// same other.
fn takers(drawn: &Target, shards: u8, mut random: impl FnMut() -> f64) -> Vec<Target> {
    let mut others: Vec<Target> = drawn.shards(shards).filter(|other| other != drawn).collect();
    let mut takers = vec![drawn.clone()];
    while let Ok(remaining @ 1..) = u8::try_from(others.len()) {
        takers.push(others.swap_remove(usize::from(Shard::drawn(remaining, random()).0)));
    }
    takers.truncate(MOST_SHARDS);
    takers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Target {
        Target::new("parcels:t")
    }

    #[test]
    fn all_tasks_of_a_draw_move_together_and_others_stay() {
        let router = ShardRouter::default();
        let (leave, shard) = (|place: &Target| router.leave(&home(), place, 4, || 0.0), |n| home().in_shard(Shard(n)));
        let place = |drawn: &Target| router.place(drawn);
        assert_eq!(place(&home()), home());
        leave(&home());
        assert_eq!(place(&home()), shard(1));
        // Somebody else who was refused there.
        leave(&home());
        assert_eq!(place(&home()), shard(1));
        leave(&shard(1));
        assert_eq!(place(&home()), shard(3));
        for other in [shard(1), Target::new("parcels:u")] {
            assert_eq!(place(&other), other);
        }
    }

    #[test]
    fn no_shard_is_tried_twice_and_each_may_be_unless_there_are_many() {
        for count in 1..=64 {
            let (router, mut tried) = (ShardRouter::default(), vec![home()]);
            while router.leave(&home(), &router.place(&home()), count, || 0.5) {
                let next = router.place(&home());
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOST_SHARDS));
            assert_eq!(Some(router.place(&home())), tried.pop(), "nowhere else to go");
        }
    }
}
