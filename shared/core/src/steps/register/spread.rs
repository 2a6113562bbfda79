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
    /// By the shard that tasks were drawn into and that did not take one.
    takers: BTreeMap<Target, Takers>,
}

/// The shards that the tasks of a draw may go to.
#[derive(Debug)]
struct Takers {
    /// The present one first.
    places: Vec<Target>,
    /// Of how many there are.
    of: u8,
}

impl Spread {
    /// Where tasks go that were drawn into this shard.
    pub(super) fn place(&self, drawn: &Target) -> Target {
        let draws = self.lock();
        draws.takers.get(drawn).and_then(|takers| takers.places.first()).unwrap_or(drawn).clone()
    }

    /// Leaves a `place`, of as many `shards` as there are, that did not take one of these tasks; somebody may have done
    /// so already. The last one that is left stays. Says whether they may go to another. There may be more shards than
    /// before. `random` draws numbers in `0.0..1.0`.
    pub(super) fn leave(&self, drawn: &Target, place: &Target, shards: u8, random: impl FnMut() -> f64) -> bool {
        let mut draws = self.lock();
        let alone = || Takers { places: vec![drawn.clone()], of: 1 };
        let Takers { places, of } = draws.takers.entry(drawn.clone()).or_insert_with(alone);
        if shards > *of {
            places.extend(others(drawn, *of, shards, random));
            places.truncate(MOST_SHARDS);
            *of = shards;
        }
        if places.iter().any(|taker| taker != place) {
            places.retain(|taker| taker != place);
        }
        places.first().is_some_and(|taker| taker != place)
    }

    fn lock(&self) -> MutexGuard<'_, Draws> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shards from the `first` ones up to all of this many, but the drawn one, in an order of the event's own, so that
/// not all events leave one for the same other.
fn others(drawn: &Target, first: u8, shards: u8, mut random: impl FnMut() -> f64) -> Vec<Target> {
    // Of a draw that has gone nowhere, the home is another.
    let first = if first == 1 { 0 } else { first };
    let mut others: Vec<Target> = drawn.shards(shards).skip(first.into()).filter(|other| other != drawn).collect();
    let mut order = Vec::new();
    while let Ok(remaining @ 1..) = u8::try_from(others.len()) {
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
        let place = |drawn: &Target| spread.place(drawn);
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
            while spread.leave(&home(), &spread.place(&home()), count, || 0.5) {
                let next = spread.place(&home());
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOST_SHARDS));
            assert_eq!(Some(spread.place(&home())), tried.pop(), "nowhere else to go");
        }
    }

    #[test]
    fn tasks_go_on_to_shards_that_come_into_use_meanwhile() {
        let (spread, shard) = (Spread::default(), |n| home().in_shard(Shard(n)));
        let leave = |shards| spread.leave(&home(), &spread.place(&home()), shards, || 0.0);
        assert!(!leave(1), "there is one");
        assert!(leave(2));
        assert_eq!(spread.place(&home()), shard(1));
        assert!(!leave(2), "the home was left");
        assert!(leave(4) && leave(4));
        assert_eq!(spread.place(&home()), shard(3));
        assert!(!leave(4));
    }
}
