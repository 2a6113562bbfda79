//! The shards that an event's tasks are put into.
//!
//! All tasks of a Target in one event are drawn into one shard, so that one election message is enough. If that shard
//! does not take a task, those that are left go to another: two shards may lie on one partition of the index, which then
//! bears half of what others do. Leaving it alone is also what lets its leaders move tasks out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::{Shard, Target};

/// How many shards of a Target an event leaves, and so how often a put is repeated, before tasks come again by their records.
const MOVES: usize = 3;

/// Which shards an event's tasks have left, and for which.
#[derive(Debug, Default)]
pub(super) struct Spread(Mutex<BTreeMap<Target, Vec<(Target, Target)>>>);

impl Spread {
    /// Where tasks go that were drawn into this shard.
    pub(super) fn place(&self, drawn: &Target) -> Target {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let moves = left.get(&drawn.whole()).map(Vec::as_slice).unwrap_or_default();
        moves.iter().fold(drawn.clone(), |place, (from, to)| if place == *from { to.clone() } else { place })
    }

    /// Leaves a shard that did not take a task for another of the `count` there are, by `draw`, a number in `0.0..1.0`.
    /// Somebody may have left it already. False if the tasks have nowhere to go.
    pub(super) fn leave(&self, shard: &Target, count: u8, draw: f64) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let moves = left.entry(shard.whole()).or_default();
        let has_left = |shard: &Target| moves.iter().any(|(from, _)| from == shard);
        if has_left(shard) {
            return true;
        }
        let others: Vec<Target> = shard.shards(count).filter(|other| other != shard && !has_left(other)).collect();
        let at = usize::from(Shard::drawn(u8::try_from(others.len()).unwrap_or(u8::MAX), draw).0);
        match others.get(at) {
            Some(other) if moves.len() < MOVES => {
                moves.push((shard.clone(), other.clone()));
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
    fn all_tasks_of_a_target_move_together_and_others_stay() {
        let (spread, other) = (Spread::default(), Target::new("parcels:u"));
        assert!(spread.leave(&home(), 4, 0.0));
        let next = spread.place(&home());
        assert_eq!(next, home().in_shard(Shard(1)));
        assert!(spread.leave(&home(), 4, 0.9), "somebody else who was refused there");
        assert_eq!(spread.place(&home()), next);
        assert_eq!(spread.place(&other), other);
        assert!(spread.leave(&next, 4, 0.9));
        assert_eq!(spread.place(&home()), home().in_shard(Shard(3)));
    }

    #[test]
    fn no_shard_is_tried_twice_and_few_are_tried() {
        for count in 1..=64 {
            let (spread, mut tried) = (Spread::default(), vec![home()]);
            while let Some(last) = tried.last().filter(|last| spread.leave(last, count, 0.5)) {
                let next = spread.place(last);
                assert!(!tried.contains(&next), "{count} shards: {tried:?}, then {next}");
                tried.push(next);
            }
            assert_eq!(tried.len(), usize::from(count).min(MOVES + 1));
        }
    }
}
