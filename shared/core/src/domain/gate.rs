//! When a call may start: how many may be in flight, how many a second, and not during a pause.
//!
//! One gate for each scope, one item for each gate, so one conditional write admits a call. A place in flight is a lease
//! that names the batch being called, so a worker that dies gives its place back by time, and whoever takes its batch over
//! takes its place over too. A rate reserves the time of each call in advance; a reservation that nobody uses is lost,
//! never used twice. A pause is what the downstream asked for with `Retry-After`, written down for all workers.
//!
//! Waiting at a gate is no failure: no attempt is counted.

use std::collections::BTreeMap;

use super::id::{BatchId, Revision, RouteName, Target};
use super::time::Timestamp;

/// What a gate stands before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All calls of a route.
    Route(RouteName),
    /// The calls for one Target.
    Target(Target),
}

impl Scope {
    /// The key of the gate's item. It lies in the lock table; no Target starts with `#`, because a route's name cannot.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Route(route) => format!("#route:{route}"),
            Self::Target(target) => format!("#target:{target}"),
        }
    }
}

/// What a gate lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight; `None` is no limit.
    pub in_flight: Option<usize>,
    /// Milliseconds from one call's start to the next; `None` is no limit.
    pub gap_ms: Option<u64>,
}

/// A gate as its item holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Rises with every write.
    pub revision: Revision,
    /// Which batch is in flight, and until when its lease lasts.
    pub in_flight: BTreeMap<BatchId, Timestamp>,
    /// No call starts before.
    pub paused_until: Timestamp,
    /// All call times before this one are taken.
    pub next_call: Timestamp,
    /// Whose call took the latest time: without it, two who reserve one time would write the same, and each would take
    /// the other's write for its own.
    pub latest: Option<BatchId>,
}

/// What a gate says to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call may start at this time, once the gate is written; `None`: nothing is limited, so nothing is written.
    Admitted(Option<Gate>, Timestamp),
    /// As many calls as allowed are in flight.
    Full,
    /// Not before this time: a pause lasts, or earlier calls fill the rate until then.
    NotBefore(Timestamp),
}

/// A call's time is reserved at most so far ahead, in milliseconds: whoever has it waits in place. Anybody later comes
/// back instead.
pub const MAX_AHEAD_MS: u64 = 1_000;

impl Gate {
    /// What this gate says to `batch`. A batch that is in flight already has its lease renewed; leases that are over are
    /// dropped.
    #[must_use]
    pub fn admit(&self, batch: &BatchId, limits: Limits, now: Timestamp, lease_until: Timestamp) -> Admission {
        if self.paused_until > now {
            return Admission::NotBefore(self.paused_until);
        }
        let mut next = Self { revision: self.revision.next(), ..self.clone() };
        if let Some(limit) = limits.in_flight {
            next.in_flight.retain(|_, lease| *lease > now);
            next.in_flight.insert(batch.clone(), lease_until);
            if next.in_flight.len() > limit {
                return Admission::Full;
            }
        }
        let start = match limits.gap_ms {
            None => now,
            Some(gap_ms) => {
                let start = now.max(self.next_call);
                if start.since(now) > MAX_AHEAD_MS {
                    return Admission::NotBefore(Timestamp(start.0 - MAX_AHEAD_MS));
                }
                next.next_call = start.plus_ms(gap_ms);
                next.latest = Some(batch.clone());
                start
            }
        };
        Admission::Admitted((limits != Limits::default()).then_some(next), start)
    }

    /// Whether `batch` is in flight.
    #[must_use]
    pub fn counts(&self, batch: &BatchId) -> bool {
        self.in_flight.contains_key(batch)
    }

    /// This gate without the place that `batch` has until `lease`, or `None` if it has none, or a later one: somebody
    /// else, who has the batch now, took that.
    #[must_use]
    pub fn left(&self, batch: &BatchId, lease: Timestamp) -> Option<Self> {
        self.in_flight.get(batch).filter(|until| **until <= lease)?;
        self.without(batch)
    }

    /// This gate without `batch` in flight, or `None` if it is not.
    #[must_use]
    pub fn without(&self, batch: &BatchId) -> Option<Self> {
        let mut next = Self { revision: self.revision.next(), ..self.clone() };
        next.in_flight.remove(batch)?;
        Some(next)
    }

    /// This gate, closed until then, or `None` if it is closed for as long already.
    #[must_use]
    pub fn paused(&self, until: Timestamp) -> Option<Self> {
        (until > self.paused_until).then(|| Self {
            revision: self.revision.next(),
            paused_until: until,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Limits = Limits { in_flight: Some(1), gap_ms: None };

    fn admitted(gate: &Gate, batch: &BatchId, limits: Limits, now: u64) -> (Gate, Timestamp) {
        match gate.admit(batch, limits, Timestamp(now), Timestamp(now + 10)) {
            Admission::Admitted(Some(gate), start) => (gate, start),
            other => panic!("not admitted: {other:?}"),
        }
    }

    #[test]
    fn a_full_gate_admits_nobody_until_a_lease_is_over() {
        let (a, b) = (BatchId::new("a"), BatchId::new("b"));
        let (one, _) = admitted(&Gate::default(), &a, ONE, 0);
        assert_eq!(one.admit(&b, ONE, Timestamp(9), Timestamp(19)), Admission::Full);
        let (next, _) = admitted(&one, &b, ONE, 10);
        assert_eq!(next.in_flight.keys().collect::<Vec<_>>(), [&b]);
    }

    #[test]
    fn nobody_gives_a_place_back_that_somebody_else_has_taken_over() {
        let a = BatchId::new("a");
        let (first, _) = admitted(&Gate::default(), &a, ONE, 0);
        let (second, _) = admitted(&first, &a, ONE, 5);
        assert_eq!(second.left(&a, Timestamp(10)), None);
        assert!(second.left(&a, Timestamp(15)).is_some_and(|gate| !gate.counts(&a)));
    }

    #[test]
    fn the_same_batch_never_takes_two_places() {
        let a = BatchId::new("a");
        let (one, _) = admitted(&Gate::default(), &a, ONE, 0);
        assert_eq!(admitted(&one, &a, ONE, 5).0.in_flight.len(), 1);
    }

    #[test]
    fn two_who_reserve_one_time_do_not_write_the_same() {
        let (a, b) = (BatchId::new("a"), BatchId::new("b"));
        let paced = Limits { in_flight: None, gap_ms: Some(100) };
        let ((mine, start), (theirs, same)) =
            (admitted(&Gate::default(), &a, paced, 0), admitted(&Gate::default(), &b, paced, 0));
        assert_eq!(start, same);
        assert_ne!(mine, theirs);
    }

    #[test]
    fn nobody_passes_during_a_pause_and_a_shorter_one_does_not_end_it() {
        let a = BatchId::new("a");
        let paused = Gate::default().paused(Timestamp(100)).expect("open before");
        assert_eq!(paused.paused(Timestamp(50)), None);
        let said = paused.admit(&a, Limits::default(), Timestamp(99), Timestamp(199));
        assert_eq!(said, Admission::NotBefore(Timestamp(100)));
        let said = paused.admit(&a, Limits::default(), Timestamp(100), Timestamp(200));
        assert_eq!(said, Admission::Admitted(None, Timestamp(100)));
    }

    #[test]
    fn each_gate_has_a_key_of_its_own_and_none_that_a_target_has() {
        let route = RouteName::new("r");
        let scopes = [Scope::Route(route.clone()), Scope::Target(Target::of(&route, ""))];
        assert_eq!(scopes.map(|scope| scope.key()), ["#route:r", "#target:r:"]);
    }

    #[test]
    fn a_place_that_is_given_back_changes_nothing_else() {
        let (a, b) = (BatchId::new("a"), BatchId::new("b"));
        let (taken, _) = admitted(&Gate::default(), &a, ONE, 0);
        let paused = taken.paused(Timestamp(50)).unwrap();
        assert!(paused.counts(&a) && !paused.counts(&b));
        assert_eq!((paused.paused(Timestamp(50)), paused.without(&b)), (None, None));
        let left = paused.without(&a).unwrap();
        assert_eq!((left.paused_until, left.in_flight.len()), (Timestamp(50), 0));
        let revisions = [&Gate::default(), &taken, &paused, &left].map(|gate| gate.revision);
        assert!(revisions.is_sorted_by(|before, after| before < after), "each is a write");
    }

    #[test]
    fn a_batch_that_comes_too_early_is_back_just_when_its_time_may_be_reserved() {
        let paced = Limits { in_flight: None, gap_ms: Some(100) };
        let busy = Gate { next_call: Timestamp(5_000), ..Gate::default() };
        let ask = |now| busy.admit(&BatchId::new("a"), paced, Timestamp(now), Timestamp(now));
        assert_eq!(ask(0), Admission::NotBefore(Timestamp(5_000 - MAX_AHEAD_MS)));
        assert!(matches!(ask(5_000 - MAX_AHEAD_MS), Admission::Admitted(Some(_), Timestamp(5_000))));
    }

    proptest! {
        #[test]
        fn calls_keep_their_distance_whenever_they_come(
            arrivals in proptest::collection::vec(0_u64..3_000, 1..50), gap_ms in 1_u64..700,
        ) {
            let limits = Limits { in_flight: None, gap_ms: Some(gap_ms) };
            let (mut gate, mut now, mut starts) = (Gate::default(), 0, Vec::new());
            for wait in arrivals {
                now += wait / 10;
                match gate.admit(&BatchId::new("a"), limits, Timestamp(now), Timestamp(now + 9)) {
                    Admission::Admitted(Some(next), start) => {
                        prop_assert!(start.0 >= now && start.0 <= now + MAX_AHEAD_MS);
                        starts.push(start.0);
                        gate = next;
                    }
                    Admission::NotBefore(at) => prop_assert!(at.0 > now),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= gap_ms));
        }
    }
}
