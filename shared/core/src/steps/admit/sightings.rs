//! Gates as a process saw them a moment ago.
//!
//! A batch that has to wait by such a sight waits: [`Gate::foretells`] says how long that costs at most. A batch goes
//! by a gate as it is only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::gate::{Gate, Scope};
use crate::domain::time::Timestamp;

/// Gates, and when they were seen so.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<HashMap<Scope, (Gate, Timestamp)>>);

/// A sight that is older says nothing, in milliseconds.
const STALE_MS: u64 = 60_000;
/// More gates are not kept in mind.
const MOST: usize = 100;

impl Sightings {
    /// A gate that was seen a moment ago, and when.
    pub(super) fn recent(&self, scope: &Scope, now: Timestamp) -> Option<(Gate, Timestamp)> {
        self.lock().get(scope).filter(|(_, at)| now.since(*at) <= STALE_MS).cloned()
    }

    /// Keeps a gate in mind as it was at this time. One that is seen later may have been asked for earlier.
    pub fn note(&self, scope: &Scope, gate: &Gate, at: Timestamp) {
        let mut known = self.lock();
        let is_older = |(old, seen): &(Gate, Timestamp)| gate.revision < old.revision && at.since(*seen) <= STALE_MS;
        if known.get(scope).is_some_and(is_older) {
            return;
        }
        if known.len() >= MOST && !known.contains_key(scope) {
            let oldest = known.iter().min_by_key(|(_, (_, seen))| *seen).map(|(scope, _)| scope.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(scope.clone(), (gate.clone(), at));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, (Gate, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{Revision, RouteName};

    fn scope(n: usize) -> Scope {
        Scope::Route(RouteName::new(format!("r{n}")))
    }

    #[test]
    fn a_sight_is_kept_for_a_minute() {
        let (sightings, gate) = (Sightings::default(), Gate { turn: 7, ..Gate::default() });
        sightings.note(&scope(0), &gate, Timestamp(5));
        let seen = |at| sightings.recent(&scope(0), Timestamp(at));
        assert_eq!((seen(5 + STALE_MS), seen(6 + STALE_MS)), (Some((gate, Timestamp(5))), None));
        assert_eq!(sightings.recent(&scope(1), Timestamp(5)), None);
    }

    #[test]
    fn an_answer_that_comes_late_does_not_make_a_sight_older() {
        let (sightings, gate) = (Sightings::default(), |n| Gate { revision: Revision(n), ..Gate::default() });
        let seen = |at| sightings.recent(&scope(0), Timestamp(at)).map(|(gate, at)| (gate.revision.0, at.0));
        for (revision, at, known) in [(7, 50, (7, 50)), (6, 55, (7, 50)), (7, 60, (7, 60)), (8, 58, (8, 58))] {
            sightings.note(&scope(0), &gate(revision), Timestamp(at));
            assert_eq!(seen(60), Some(known));
        }
        let later = 59 + STALE_MS;
        sightings.note(&scope(0), &gate(1), Timestamp(later));
        assert_eq!(seen(later), Some((1, later)), "its item was forgotten, and begins anew");
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_the_oldest_makes_room() {
        let sightings = Sightings::default();
        let note = |n, at| sightings.note(&scope(n), &Gate { turn: at, ..Gate::default() }, Timestamp(at));
        let seen = |n| sightings.recent(&scope(n), Timestamp(500)).map(|(gate, _)| gate.turn);
        (0..MOST).for_each(|n| note(n, 5 + n as u64));
        note(0, 300);
        note(MOST, 301);
        assert_eq!([seen(0), seen(1), seen(2), seen(MOST)], [Some(300), None, Some(7), Some(301)]);
        assert_eq!(sightings.lock().len(), MOST);
    }
}
