//! The shards that an event's tasks are put into.
//!
//! The tasks of a Target that come alone in one event are drawn into one shard, so that one election message is enough. If
//! a shard does not take a task, those of the same draw that are left go to another: two shards may lie on one partition of
//! the index, which then bears half of what others do. Leaving it alone is also what lets its leaders move tasks out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::{Shard, Target};

/// How many other shards are tried, and so how often a put is repeated, before tasks come again by their records.
const MOVES: usize = 3;

/// By the shard that tasks were drawn into: the others that were tried for them, the present one last.
#[derive(Debug, Default)]
pub(super) struct Spread(Mutex<BTreeMap<Target, Vec<Target>>>);

impl Spread {
    /// Where tasks go that were drawn into this shard.
    pub(super) fn place(&self, drawn: &Target) -> Target {
        let tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tried.get(drawn).and_then(|tried| tried.last()).unwrap_or(drawn).clone()
    }

    /// Leaves the `place` of such tasks, which did not take one, for another of the `count` shards there are, by `draw`, a
    /// number in `0.0..1.0`. Somebody may have left it already. False if they have nowhere to go.
    pub(super) fn leave(&self, drawn: &Target, place: &Target, count: u8, draw: f64) -> bool {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = tried.entry(drawn.clone()).or_default();
        if tried.last().unwrap_or(drawn) != place {
            return true;
        }
        let others: Vec<Target> =
            drawn.shards(count).filter(|other| other != drawn && !tried.contains(other)).collect();
        let at = usize::from(Shard::drawn(u8::try_from(others.len()).unwrap_or(u8::MAX), draw).0);
        match others.get(at) {
            Some(other) if tried.len() < MOVES => {
                tried.push(other.clone());
                true
            }
            Some(_) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Target {
        Target::new("parcels:t")
    }

    #[test]
    fn all_tasks_of_a_draw_move_together_and_others_stay() {
        let (spread, others) = (Spread::default(), [Target::new("parcels:u"), home().in_shard(Shard(1))]);
        assert!(spread.leave(&home(), &home(), 4, 0.0));
        let next = spread.place(&home());
        assert_eq!(next, home().in_shard(Shard(1)));
        assert!(spread.leave(&home(), &home(), 4, 0.9), "somebody else who was refused there");
        assert_eq!(spread.place(&home()), next);
        assert!(spread.leave(&home(), &next, 4, 0.9));
        assert_eq!(spread.place(&home()), home().in_shard(Shard(3)));
        for other in others {
            assert_eq!(spread.place(&other), other);
        }
    }

    #[test]
    fn no_shard_is_tried_twice_and_few_are_tried() {
        for count in 1..=64 {
            let (spread, mut tried) = (Spread::default(), vec![home()]);
            while tried.last().is_some_and(|last| spread.leave(&home(), last, count, 0.5)) {
                let next = spread.place(&home());
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOVES + 1));
        }
    }
}
