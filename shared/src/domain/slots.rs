//! How many calls a route, or one Target of it, may have in flight.
//!
//! A slot is a lease that names the batch being called, so that a worker which dies gives its slot back by time. All
//! slots of one limit live in one item; who finds it full waits by a delayed copy, which is no failure.

use std::collections::BTreeMap;

use super::id::{BatchId, Revision, RouteName, Target};
use super::time::Timestamp;

/// What a limit counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All calls of a route.
    Route(RouteName),
    /// The calls for one Target.
    Target(Target),
}

impl Scope {
    /// The key of the item that holds this limit's slots. It lies in the lock table; no Target starts with `#`,
    /// because a route's name cannot.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Route(route) => format!("#route:{route}"),
            Self::Target(target) => format!("#target:{target}"),
        }
    }
}

/// The slots of one limit as its item holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Rises with every write.
    pub revision: Revision,
    /// Which batch is in flight, and until when its lease lasts.
    pub taken: BTreeMap<BatchId, Timestamp>,
}

impl Slots {
    /// These slots with one more for `batch`, or `None` if all `limit` are taken. A batch that holds a slot already
    /// has its lease renewed; leases that are over are dropped.
    #[must_use]
    pub fn with(&self, batch: &BatchId, limit: usize, now: Timestamp, until: Timestamp) -> Option<Self> {
        let mut taken = self.taken.clone();
        taken.retain(|_, lease| *lease > now);
        taken.insert(batch.clone(), until);
        (taken.len() <= limit).then(|| Self { revision: self.revision.next(), taken })
    }

    /// These slots without that of `batch`, or `None` if it holds none.
    #[must_use]
    pub fn without(&self, batch: &BatchId) -> Option<Self> {
        let mut taken = self.taken.clone();
        taken.remove(batch)?;
        Some(Self { revision: self.revision.next(), taken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_limit_admits_nobody_until_a_lease_is_over() {
        let (a, b) = (BatchId::new("a"), BatchId::new("b"));
        let one = Slots::default().with(&a, 1, Timestamp(0), Timestamp(10)).expect("free");
        assert_eq!(one.with(&b, 1, Timestamp(9), Timestamp(19)), None);
        let next = one.with(&b, 1, Timestamp(10), Timestamp(20)).expect("lease over");
        assert_eq!(next.taken.keys().collect::<Vec<_>>(), [&b]);
    }

    #[test]
    fn the_same_batch_never_takes_two_slots() {
        let a = BatchId::new("a");
        let one = Slots::default().with(&a, 1, Timestamp(0), Timestamp(10)).expect("free");
        assert!(one.with(&a, 1, Timestamp(5), Timestamp(15)).is_some());
    }
}
