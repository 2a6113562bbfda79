//! The slots of limits on calls in flight: one item per limit, in the lock table beside the locks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dynamo::{Dynamo, Key, Written};
use super::expression::Clause;
use super::item::{Item, decode, encode, number};
use super::locks::{IDLE_MS, TABLE, TARGET};
use super::meter::Place;
use crate::domain::id::{BatchId, Revision};
use crate::domain::slots::{Scope, Slots};
use crate::domain::time::Timestamp;
use crate::ports::{Result, SlotStore, Stored};

const REVISION: &str = "Revision";

/// A limit's slots as their item says them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredSlots {
    target: String,
    revision: Revision,
    taken: BTreeMap<BatchId, Timestamp>,
    ttl: u64,
}

impl StoredSlots {
    fn of(key: &str, slots: &Slots, now: Timestamp) -> Self {
        // An idle item may expire only after every lease in it is over.
        let last_use = slots.taken.values().copied().fold(now, Timestamp::max);
        Self {
            target: key.to_owned(),
            revision: slots.revision,
            taken: slots.taken.clone(),
            ttl: last_use.plus_ms(IDLE_MS).as_secs(),
        }
    }
}

fn slots_of(key: &str, item: Item) -> Result<Slots> {
    let StoredSlots { revision, taken, .. } = decode(TABLE, key, item)?;
    Ok(Slots { revision, taken })
}

impl Dynamo {
    fn slots_key<'a>(&'a self, key: &'a str) -> Key<'a> {
        Key { table: &self.tables.locks, place: Place::Locks, attribute: TARGET, id: key }
    }
}

impl SlotStore for Dynamo {
    async fn slots(&self, scope: &Scope) -> Result<Slots> {
        let key = scope.key();
        let item = self.get("read a limit's slots", self.slots_key(&key)).await?;
        item.map_or_else(|| Ok(Slots::default()), |item| slots_of(&key, item))
    }

    async fn store_slots(&self, scope: &Scope, slots: &Slots, now: Timestamp) -> Result<Stored> {
        let key = scope.key();
        let item = encode(TABLE, &key, &StoredSlots::of(&key, slots, now))?;
        let clause = match slots.revision {
            // Revision 0 is that of an item that is not there.
            Revision(0 | 1) => Clause::Absent(REVISION),
            Revision(revision) => Clause::Equals(REVISION, number(revision - 1)),
        };
        match self.put("write a limit's slots", self.slots_key(&key), item, &[clause]).await? {
            Written::Done(_) => Ok(Stored::Yes),
            Written::Refused(None) => Ok(Stored::Conflict),
            // The very same content is our own write, whose answer was lost.
            Written::Refused(Some(old)) => {
                Ok(if slots_of(&key, old)? == *slots { Stored::Yes } else { Stored::Conflict })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_survive_storage_and_outlive_their_leases() {
        let taken = BTreeMap::from([(BatchId::new("b"), Timestamp(9_000)), (BatchId::new("c"), Timestamp(5))]);
        let slots = Slots { revision: Revision(3), taken };
        let stored = StoredSlots::of("#route:r", &slots, Timestamp(1_000));
        assert_eq!(stored.ttl, Timestamp(9_000).plus_ms(IDLE_MS).as_secs());
        let item = encode(TABLE, "", &stored).unwrap();
        assert_eq!(slots_of("#route:r", item).unwrap(), slots);
    }

    #[test]
    fn a_limit_without_calls_in_flight_survives_storage() {
        let slots = Slots { revision: Revision(1), taken: BTreeMap::new() };
        let item = encode(TABLE, "", &StoredSlots::of("#route:r", &slots, Timestamp(0))).unwrap();
        assert_eq!(slots_of("#route:r", item).unwrap(), slots);
    }
}
