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

/// Where the draws of one event's tasks may go.
#[derive(Debug, Default)]
pub(super) struct Spread(Mutex<Draws>);

#[derive(Debug, Default)]
struct Draws {
    /// By the shard that tasks were drawn into and that did not take one: those that they may go to, the present one
    /// first.
    takers: BTreeMap<Target, Vec<Target>>,
}

impl Spread {
    /// Where tasks go that were drawn into this shard, one of this many `shards`, and whether they may leave it for
    /// another.
    pub(super) fn place(&self, drawn: &Target, shards: u8) -> (Target, bool) {
        let draws = self.lock();
        match draws.takers.get(drawn).map(Vec::as_slice) {
            Some([taker, others @ ..]) => (taker.clone(), !others.is_empty()),
            Some([]) | None => (drawn.clone(), shards > 1),
        }
    }

    /// Leaves a `place`, of as many `shards` as there are, that did not take one of these tasks; somebody may have done
    /// so already. The last one that is left stays. `random` draws numbers in `0.0..1.0`.
    pub(super) fn leave(&self, drawn: &Target, place: &Target, shards: u8, random: impl FnMut() -> f64) {
        let mut draws = self.lock();
        let takers = draws.takers.entry(drawn.clone()).or_insert_with(|| order(drawn, shards, random));
        if takers.iter().any(|taker| taker != place) {
            takers.retain(|taker| taker != place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Draws> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The drawn shard and then others, in an order of the event's own, so that not all events leave one for the same
/// other.
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
        let place = |drawn: &Target| spread.place(drawn, 4).0;
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
            let (spread, mut tried) = (Spread::default(), vec![home()]);
            while let (place, true) = spread.place(&home(), count) {
                spread.leave(&home(), &place, count, || 0.5);
                let (next, _) = spread.place(&home(), count);
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOST_SHARDS));
            let last = tried.pop().unwrap();
            spread.leave(&home(), &last, count, || 0.5);
            assert_eq!(spread.place(&home(), count), (last, false), "nowhere else to go");
        }
    }
}
