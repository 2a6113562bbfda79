//! The gates before calls: one item per scope, in the lock table beside the locks.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ReturnValue;
use groupage_core::domain::gate::{Ends, Gate, Health, IN_PLACE_MS, Line, Pace, Scope, Shares, Shift, Stretch};
use groupage_core::domain::time::IDLE_MS;
use groupage_core::domain::{BatchId, Revision, Timestamp};
use groupage_core::ports::{Error, Gates, Result, Stored};
use serde::{Deserialize, Serialize};

use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number};
use crate::dynamo::{Dynamo, Key, Written};
use crate::meter::Place;
use crate::tables::locks::{TABLE, TARGET, TTL};

const REVISION: &str = "Revision";
const NEXT_CALL: &str = "NextCall";
const NEXT_TICKET: &str = "NextTicket";
const GAP_MS: &str = "GapMs";
const IN_FLIGHT: &str = "InFlight";
const SHARES: &str = "Shares";
const ENDS: &str = "Ends";
const LEFT_MS: &str = "LeftMs";
/// There only if there is something to tell.
pub(crate) const HEALTH: &str = "Health";

/// A gate as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredGate {
    target: String,
    revision: Revision,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    in_flight: BTreeMap<BatchId, Timestamp>,
    paused_until: Timestamp,
    /// The time of the next ticket.
    next_call: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    next_ticket: u64,
    /// Tickets before this one are past.
    #[serde(default, skip_serializing_if = "is_zero")]
    first_ticket: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    gap_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shifts: Vec<StoredShift>,
    /// The stretches that new tickets go to, each by the number of its first ticket.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shares: BTreeMap<String, StoredStretch>,
    /// Those that others of the same Target have followed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ended_shares: BTreeMap<String, StoredStretch>,
    #[serde(default, skip_serializing_if = "is_zero")]
    next_start: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    turn: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    places_taken: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    places_since: Timestamp,
    /// Calls that gave their places back, and how much of their leases these had left together.
    #[serde(default, skip_serializing_if = "is_zero")]
    ends: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    left_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<String>,
    #[serde(default, skip_serializing_if = "Health::is_well")]
    health: Health,
    ttl: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredShift {
    from: u64,
    by_ms: u64,
}

/// Short names: there may be many.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredStretch {
    #[serde(rename = "N")]
    tickets: u64,
    #[serde(rename = "F")]
    from: u64,
    #[serde(rename = "S")]
    stride: u64,
}

/// The number of a stretch's tickets.
const TICKETS: &str = "N";

impl StoredStretch {
    fn all_of(shares: &Shares, are_last: bool) -> BTreeMap<String, Self> {
        let these = shares.0.iter().filter(|(id, _)| shares.is_last(**id) == are_last);
        let stored = |stretch: &Stretch| {
            let Stretch { tickets, from, stride } = *stretch;
            Self { tickets, from, stride }
        };
        these.map(|(id, stretch)| (id.to_string(), stored(stretch))).collect()
    }

    fn read(self, key: &str, id: &str) -> Result<(u64, Stretch)> {
        let Self { tickets, from, stride } = self;
        let number = id.parse().map_err(|_| nonsense(TABLE, key, SHARES, "is by no number".to_owned()))?;
        Ok((number, Stretch { tickets, from, stride }))
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
            in_flight: gate.in_flight.clone(),
            paused_until: gate.paused_until,
            next_call: gate.line.next_at,
            next_ticket: gate.line.next,
            first_ticket: gate.line.from,
            gap_ms: gate.line.gap_ms,
            shifts: gate
                .line
                .shifts
                .iter()
                .map(|Shift { from, by_ms }| StoredShift { from: *from, by_ms: *by_ms })
                .collect(),
            shares: StoredStretch::all_of(&gate.shares, true),
            ended_shares: StoredStretch::all_of(&gate.shares, false),
            next_start: gate.next_start,
            turn: gate.turn,
            places_taken: gate.pace.entries,
            places_since: gate.pace.since,
            ends: gate.ends.calls.into(),
            left_ms: gate.ends.left_ms,
            latest: gate.latest.clone(),
            health: gate.health.clone(),
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
    let line = Line {
        next: stored.next_ticket,
        next_at: stored.next_call,
        gap_ms: stored.gap_ms,
        from: stored.first_ticket,
        shifts: stored.shifts.into_iter().map(|StoredShift { from, by_ms }| Shift { from, by_ms }).collect(),
    };
    let stretches = stored.shares.into_iter().chain(stored.ended_shares);
    let shares = stretches.map(|(id, stretch)| stretch.read(key, &id)).collect::<Result<_>>().map(Shares)?;
    Ok(Gate {
        revision: stored.revision,
        in_flight: stored.in_flight,
        paused_until: stored.paused_until,
        line,
        shares,
        next_start: stored.next_start,
        turn: stored.turn,
        pace: Pace { since: stored.places_since, entries: stored.places_taken },
        // The table adds without end.
        ends: Ends { calls: u32::try_from(stored.ends).unwrap_or(u32::MAX), left_ms: stored.left_ms },
        latest: stored.latest,
        health: stored.health,
    })
}

impl Dynamo {
    fn gate_key<'a>(&'a self, key: &'a str) -> Key<'a> {
        Key::of(&self.tables.locks, Place::Locks, TARGET, key)
    }

    /// Lets a gate expire later, of which only tickets were taken for long. Never lets it expire earlier.
    async fn keep_gate(&self, key: &str, seen: Item, now: Timestamp) -> Result<()> {
        let until = number(StoredGate::of(key, &gate_of(key, seen)?, now).ttl);
        let (change, earlier) = (Change::default().set(TTL, until.clone()), Clause::Below(TTL, until));
        self.update("keep a gate", self.gate_key(key), change, &[earlier], ReturnValue::None).await.map(|_| ())
    }
}

fn expires_at(item: &Item) -> u64 {
    item.get(TTL).and_then(|until| until.as_n().ok()?.parse().ok()).unwrap_or_default()
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

    async fn take_ticket(
        &self,
        scope: &Scope,
        seen: &Gate,
        stretch: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<Gate>> {
        const WHAT: &str = "take a ticket of a gate";
        let key = scope.key();
        let gap_ms = seen.line.gap_ms;
        let mut change =
            Change::default().add(NEXT_TICKET, number(1)).add(NEXT_CALL, number(gap_ms)).add(REVISION, number(1));
        // It writes no `Ttl`: a person may have paused the gate since it was seen, and a pause lasts for years.
        let enough = seen.lasts_until(now).plus_ms(IDLE_MS / 2).as_secs();
        let is_busy = Clause::AtLeast(NEXT_CALL, number(now.plus_ms(IN_PLACE_MS + 1).0));
        let mut assumes = vec![Clause::Equals(GAP_MS, number(gap_ms)), is_busy, Clause::AtLeast(TTL, number(enough))];
        if let Some(id) = stretch {
            let id = id.to_string();
            change = change.increase_within([SHARES, &id, TICKETS], number(1));
            assumes.push(Clause::PresentWithin(SHARES, id));
        }
        match self.update(WHAT, self.gate_key(&key), change, &assumes, ReturnValue::AllNew).await? {
            Written::Done(Some(new)) => gate_of(&key, new).map(Some),
            Written::Done(None) => Err(Error::Broken { what: WHAT, why: "the answer has no item".to_owned() }),
            Written::Refused(old) => {
                if let Some(old) = old.filter(|old| expires_at(old) < enough) {
                    self.keep_gate(&key, old, now).await?;
                }
                Ok(None)
            }
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
        let mut change = Change::default().remove_within([IN_FLIGHT, batch.as_str()]).add(REVISION, number(1));
        if let Some(ended) = ended {
            change = change.add(ENDS, number(1)).add(LEFT_MS, number(lease.since(ended)));
        }
        let assumes = [Clause::AtMostWithin(IN_FLIGHT, batch.as_str().to_owned(), number(lease.0))];
        let written = self.update("leave a gate", self.gate_key(&key), change, &assumes, ReturnValue::None).await?;
        Ok(Stored::when(matches!(written, Written::Done(_))))
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::gate::{Admission, Asks, Event, Heeds, Limits, Tried};
    use groupage_core::domain::outcome::{Failure, Fault, Reason};

    use super::*;

    #[test]
    fn a_gate_survives_storage_and_outlives_what_is_in_it() {
        let in_flight = BTreeMap::from([(BatchId::new("b"), Timestamp(9_000)), (BatchId::new("c"), Timestamp(5))]);
        let latest = Some("c".to_owned());
        let shifts = vec![Shift { from: 41, by_ms: 100 }, Shift { from: 43, by_ms: 7_000 }];
        let line = Line { next: 44, next_at: Timestamp(8), gap_ms: 100, from: 40, shifts };
        let pace = Pace { since: Timestamp(6), entries: 3 };
        let stretch = |tickets| Stretch { tickets, from: 5, stride: 7 };
        let id = 5 << 44;
        let shares = Shares([(id, stretch(3)), (id + 3, stretch(2)), (7 << 44, stretch(1))].into());
        let gate = Gate {
            revision: Revision(3),
            in_flight,
            paused_until: Timestamp(7),
            line,
            shares,
            next_start: Timestamp(4),
            turn: 42,
            pace,
            ends: Ends { calls: 2, left_ms: 50_000 },
            latest,
            health: Health::default(),
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
        let heeds = Heeds { longest_pause_ms: 5, tells: true };
        let open = Gate::default().failed((&a, &a), &failure, heeds, Timestamp(1)).0.unwrap();
        let (limits, later) = (Limits::default(), Timestamp(100_000));
        let Admission::Admitted(Some(probed), _) = open.admit(&b, Asks::Anew, limits, later, Timestamp(200_000)) else {
            panic!("it may probe")
        };
        let closed = probed.answered(&b, later).unwrap();
        let held = closed.held(Some("a deployment".to_owned()), later).unwrap();
        let tell = |gate: &Gate, event| {
            let tried = [Tried { since: Timestamp(1), event, is_told: true }];
            gate.announced(&tried, later).unwrap()
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
    fn an_item_of_a_version_without_tickets_is_a_gate_that_nobody_waits_at() {
        let gate = Gate { line: Line { next_at: Timestamp(8), ..Line::default() }, ..Gate::default() };
        let item = encode(TABLE, "", &StoredGate::of("#route:r", &gate, Timestamp(0))).unwrap();
        let mut fields: Vec<&str> = item.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["NextCall", "PausedUntil", "Revision", "Target", "Ttl"]);
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
    }

    #[test]
    fn a_gate_without_calls_in_flight_survives_storage() {
        let gate = Gate { revision: Revision(1), ..Gate::default() };
        let item = encode(TABLE, "", &StoredGate::of("#route:r", &gate, Timestamp(0))).unwrap();
        assert_eq!(gate_of("#route:r", item).unwrap(), gate);
    }
}
