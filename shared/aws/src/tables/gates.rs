//! The gates before calls: one item per scope, in the lock table beside the locks.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ReturnValue;
use groupage_core::domain::gate::{
    Breaker, Flow, Gate, OutageOutbox, Pauses, RateLimiter, Scope, Semaphore, Unit, WaitQueue,
};
use groupage_core::domain::time::IDLE_MS;
use groupage_core::domain::{BatchId, Revision, Timestamp};
use groupage_core::ports::{Error, Gates, Result, Stored};
use serde::{Deserialize, Serialize};

use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number};
use crate::dynamo::{Dynamo, Key, Written};
use crate::meter::Place;
use crate::tables::locks::{TABLE, TARGET};

const REVISION: &str = "Revision";
const PERMITS: &str = "Permits";
const FLOWS: &str = "Flows";
const LAST: &str = "L";
const RETURNED: &str = "Returned";
const LEFT_MS: &str = "LeftMs";
const MOVED: &str = "Moved";
/// There only if calls failed or recover.
pub(crate) const BREAKER: &str = "Breaker";

/// A gate as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredGate {
    target: String,
    revision: Revision,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    permits: BTreeMap<BatchId, Timestamp>,
    paused_until: Timestamp,
    /// The rate limiter's theoretical arrival times: unit, window in milliseconds, time in microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tats: Vec<(Unit, u64, u64)>,
    #[serde(default, skip_serializing_if = "is_zero")]
    mean_size: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    served: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    moved: Timestamp,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    flows: BTreeMap<String, StoredFlow>,
    /// Calls that gave their permits back, and how much of their leases these had left together.
    #[serde(default, skip_serializing_if = "is_zero")]
    returned: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    left_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    breaker: Breaker,
    #[serde(default, skip_serializing_if = "is_zero")]
    pauses: Pauses,
    #[serde(default, skip_serializing_if = "is_zero")]
    outbox: OutageOutbox,
    ttl: u64,
}

/// Short names: there may be many.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredFlow {
    #[serde(rename = "F")]
    first: u64,
    #[serde(rename = "L")]
    last: u64,
    #[serde(rename = "S")]
    stride: u64,
}

impl StoredFlow {
    fn read(self, key: &str, id: &str) -> Result<(u64, Flow)> {
        let Self { first, last, stride } = self;
        let number = id.parse().map_err(|_| nonsense(TABLE, key, FLOWS, "is by no number".to_owned()))?;
        Ok((number, Flow { first, last, stride }))
    }
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl StoredGate {
    fn of(key: &str, gate: &Gate, now: Timestamp) -> Self {
        Self {
            target: key.to_owned(),
            revision: gate.revision,
            permits: gate.permits.leases.clone(),
            paused_until: gate.paused_until,
            tats: gate.rate.tats_us.iter().map(|(&(of, per_ms), &tat_us)| (of, per_ms, tat_us)).collect(),
            mean_size: gate.rate.mean_size,
            served: gate.queue.served,
            moved: gate.queue.moved,
            flows: gate
                .queue
                .flows
                .iter()
                .map(|(id, &Flow { first, last, stride })| (id.to_string(), StoredFlow { first, last, stride }))
                .collect(),
            returned: gate.permits.returned.into(),
            left_ms: gate.permits.left_ms,
            latest: gate.latest.clone(),
            breaker: gate.breaker.clone(),
            pauses: gate.pauses.clone(),
            outbox: gate.outbox.clone(),
            ttl: gate.lasts_until(now).plus_ms(IDLE_MS).as_secs(),
        }
    }
}

pub(crate) fn item_of(key: &str, gate: &Gate, now: Timestamp) -> Result<Item> {
    encode(TABLE, key, &StoredGate::of(key, gate, now))
}

/// A gate that was found in its table, and whose it is.
pub(crate) fn told_of(item: Item) -> Result<(Scope, Gate)> {
    let key = id_in(&item, TARGET);
    let scope = Scope::of_key(&key);
    let scope = scope.ok_or_else(|| nonsense(TABLE, &key, TARGET, "names no gate".to_owned()))?;
    Ok((scope, gate_of(&key, item)?))
}

fn gate_of(key: &str, item: Item) -> Result<Gate> {
    let stored: StoredGate = decode(TABLE, key, item)?;
    let flows = stored.flows.into_iter().map(|(id, flow)| flow.read(key, &id)).collect::<Result<_>>()?;
    let tats_us = stored.tats.into_iter().map(|(of, per_ms, tat_us)| ((of, per_ms), tat_us)).collect();
    Ok(Gate {
        revision: stored.revision,
        permits: Semaphore {
            leases: stored.permits,
            // The table adds without end.
            returned: u32::try_from(stored.returned).unwrap_or(u32::MAX),
            left_ms: stored.left_ms,
        },
        paused_until: stored.paused_until,
        rate: RateLimiter { tats_us, mean_size: stored.mean_size },
        queue: WaitQueue { served: stored.served, moved: stored.moved, flows },
        latest: stored.latest,
        breaker: stored.breaker,
        pauses: stored.pauses,
        outbox: stored.outbox,
    })
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

    async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>> {
        const WHAT: &str = "take a ticket of a gate";
        let (key, flow) = (scope.key(), flow.to_string());
        // It writes no `Ttl`: a person may have paused the gate since it was read, and a pause lasts for years.
        let change = Change::default().increase_within([FLOWS, &flow, LAST], number(behind)).add(REVISION, number(1));
        let waits = [Clause::PresentWithin(FLOWS, flow.clone())];
        match self.update(WHAT, self.gate_key(&key), change, &waits, ReturnValue::AllNew).await? {
            Written::Done(Some(new)) => gate_of(&key, new).map(Some),
            Written::Done(None) => Err(Error::Broken { what: WHAT, why: "the answer has no item".to_owned() }),
            Written::Refused(_) => Ok(None),
        }
    }

    async fn give_back(
        &self,
        scope: &Scope,
        batch: &BatchId,
        lease: Timestamp,
        ended: Option<Timestamp>,
    ) -> Result<Stored> {
        let key = scope.key();
        let mut change = Change::default().remove_within([PERMITS, batch.as_str()]).add(REVISION, number(1));
        if let Some(ended) = ended {
            change =
                change.add(RETURNED, number(1)).add(LEFT_MS, number(lease.since(ended))).set(MOVED, number(ended.0));
        }
        let assumes = [Clause::AtMostWithin(PERMITS, batch.as_str().to_owned(), number(lease.0))];
        let written = self.update("leave a gate", self.gate_key(&key), change, &assumes, ReturnValue::None).await?;
        Ok(Stored::when(matches!(written, Written::Done(_))))
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::gate::{Admission, Asks, BreakerPolicy, Event, Limits, Sent};
    use groupage_core::domain::outcome::{Failure, Fault, Reason};

    use super::*;

    #[test]
    fn a_gate_survives_storage_and_outlives_what_is_in_it() {
        let leases = BTreeMap::from([(BatchId::new("b"), Timestamp(9_000)), (BatchId::new("c"), Timestamp(5))]);
        let flow = |last| Flow { first: 5, last, stride: 7 };
        let gate = Gate {
            revision: Revision(3),
            permits: Semaphore { leases, returned: 2, left_ms: 50_000 },
            paused_until: Timestamp(7),
            rate: RateLimiter { tats_us: [((Unit::Weight, 60_000), 4_001)].into(), mean_size: 500 },
            queue: WaitQueue { served: 3, moved: Timestamp(2), flows: [(0, flow(5)), (1 << 40, flow(19))].into() },
            latest: Some("c".to_owned()),
            ..Gate::default()
        };
        let stored = StoredGate::of("#route:r", &gate, Timestamp(1_000));
        assert_eq!(stored.ttl, Timestamp(9_000).plus_ms(IDLE_MS).as_secs());
        let item = encode(TABLE, "", &stored).unwrap();
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
        let paused = Gate { paused_until: Timestamp(70_000), ..gate };
        assert!(StoredGate::of("#route:r", &paused, Timestamp(0)).ttl > stored.ttl);
    }

    #[test]
    fn what_an_outage_and_a_person_leave_at_a_gate_survives_storage_until_it_is_told_or_ended() {
        let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: Some(7), fault: Fault::Ours };
        let (a, b) = (BatchId::new("a"), BatchId::new("b"));
        let policy = BreakerPolicy { longest_pause_ms: 5, notifies: true };
        let open = Gate::default().failed((&a, &a), &failure, policy, Timestamp(1)).0.unwrap();
        let (limits, later) = (Limits::default(), Timestamp(100_000));
        let Admission::Admitted(Some(probed), _) = open.admit(&b, Asks::Anew, limits, later, Timestamp(200_000)) else {
            panic!("it may probe")
        };
        let closed = probed.answered(&b, later).unwrap();
        let held = closed.held(Some("a deployment".to_owned()), later).unwrap();
        let tell = |gate: &Gate, event| {
            let sent = [Sent { since: Timestamp(1), event, is_sent: true }];
            gate.notified(&sent, later).unwrap()
        };
        let told = tell(&tell(&closed, Event::Began), Event::Ended);
        for gate in [&open, &probed, &closed, &held, &told] {
            let item = encode(TABLE, "", &StoredGate::of("#route:r", gate, later)).unwrap();
            assert_eq!(gate_of("#route:r", item).unwrap(), *gate);
        }
        let years = later.plus_ms(5 * 365 * 24 * 60 * 60 * 1_000).as_secs();
        assert!(StoredGate::of("#route:r", &held, later).ttl > years);
        let ttl = |gate: &Gate| StoredGate::of("#route:r", gate, later).ttl;
        assert_eq!(ttl(&closed), later.plus_ms(14 * 24 * 60 * 60 * 1_000 + IDLE_MS).as_secs(), "it is to be told yet");
        assert_eq!(ttl(&told), later.plus_ms(IDLE_MS).as_secs());
        let heard = tell(&open, Event::Began);
        assert_eq!(ttl(&heard), later.plus_ms(IDLE_MS).as_secs(), "an outage of which people know");
    }

    #[test]
    fn a_gate_without_calls_in_flight_survives_storage() {
        let gate = Gate { revision: Revision(1), ..Gate::default() };
        let item = encode(TABLE, "", &StoredGate::of("#route:r", &gate, Timestamp(0))).unwrap();
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
    }
}
