//! The gates before calls: one item per scope, in the lock table beside the locks.

use std::collections::BTreeMap;

use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::id::{BatchId, Revision};
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Gates, Result, Stored};
use serde::{Deserialize, Serialize};

use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, decode, encode, number};
use crate::dynamo::{Dynamo, Key};
use crate::meter::Place;
use crate::tables::locks::{IDLE_MS, TABLE, TARGET};

const REVISION: &str = "Revision";

/// A gate as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredGate {
    target: String,
    revision: Revision,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    in_flight: BTreeMap<BatchId, Timestamp>,
    paused_until: Timestamp,
    next_call: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<BatchId>,
    ttl: u64,
}

impl StoredGate {
    fn of(key: &str, gate: &Gate, now: Timestamp) -> Self {
        // An idle item may expire only after everything in it is over.
        let leases = gate.in_flight.values().copied();
        let last_use = leases.chain([gate.paused_until, gate.next_call]).fold(now, Timestamp::max);
        Self {
            target: key.to_owned(),
            revision: gate.revision,
            in_flight: gate.in_flight.clone(),
            paused_until: gate.paused_until,
            next_call: gate.next_call,
            latest: gate.latest.clone(),
            ttl: last_use.plus_ms(IDLE_MS).as_secs(),
        }
    }
}

pub(crate) fn item_of(key: &str, gate: &Gate, now: Timestamp) -> Result<Item> {
    encode(TABLE, key, &StoredGate::of(key, gate, now))
}

fn gate_of(key: &str, item: Item) -> Result<Gate> {
    let StoredGate { revision, in_flight, paused_until, next_call, latest, .. } = decode(TABLE, key, item)?;
    Ok(Gate { revision, in_flight, paused_until, next_call, latest })
}

impl Dynamo {
    fn gate_key<'a>(&'a self, key: &'a str) -> Key<'a> {
        Key::of(&self.tables.locks, Place::Locks, TARGET, key)
    }
}

impl Gates for Dynamo {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        let key = scope.key();
        let item = self.get("read a gate", self.gate_key(&key)).await?;
        item.map_or_else(|| Ok(Gate::default()), |item| gate_of(&key, item))
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        let key = scope.key();
        let item = item_of(&key, gate, now)?;
        let clause = match gate.revision {
            // Revision 0 is that of an item that is not there.
            Revision(0 | 1) => Clause::Absent(REVISION),
            Revision(revision) => Clause::Equals(REVISION, number(revision - 1)),
        };
        self.replace("write a gate", self.gate_key(&key), (gate, item), &[clause], |old| gate_of(&key, old)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_survives_storage_and_outlives_what_is_in_it() {
        let in_flight = BTreeMap::from([(BatchId::new("b"), Timestamp(9_000)), (BatchId::new("c"), Timestamp(5))]);
        let latest = Some(BatchId::new("c"));
        let gate =
            Gate { revision: Revision(3), in_flight, paused_until: Timestamp(7), next_call: Timestamp(8), latest };
        let stored = StoredGate::of("#route:r", &gate, Timestamp(1_000));
        assert_eq!(stored.ttl, Timestamp(9_000).plus_ms(IDLE_MS).as_secs());
        let item = encode(TABLE, "", &stored).unwrap();
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
        let paused = Gate { paused_until: Timestamp(70_000), ..gate };
        assert!(StoredGate::of("#route:r", &paused, Timestamp(0)).ttl > stored.ttl);
    }

    #[test]
    fn a_gate_without_calls_in_flight_survives_storage() {
        let gate = Gate { revision: Revision(1), ..Gate::default() };
        let item = encode(TABLE, "", &StoredGate::of("#route:r", &gate, Timestamp(0))).unwrap();
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
    }
}
