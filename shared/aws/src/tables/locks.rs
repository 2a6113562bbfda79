//! The lock table: one item per Target that ever had a leader.
//!
//! A lock is released by removing its holder. The item stays, and with it the fence; it expires a week after its last
//! use, and the next fence is then at least the time in milliseconds, so it does not fall.

use aws_sdk_dynamodb::types::ReturnValue;
use groupage_core::domain::lock::{Acquisition, Assumes, Holder, Lock, Term};
use groupage_core::domain::time::IDLE_MS;
use groupage_core::domain::{BatchId, Fence, Seq, Target, Timestamp, WorkflowId};
use groupage_core::ports::{Acquired, Advanced, Error, Locks, Released, Result, Signalled};
use serde::Deserialize;

use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, id_in, nonsense, number, text};
use crate::dynamo::{Dynamo, Key, Written};
use crate::meter::Place;

pub(crate) const TABLE: &str = "lock table";
pub(crate) const TARGET: &str = "Target";
pub(crate) const LOCK_HOLDER: &str = "LockHolder";
pub(crate) const TTL: &str = "Ttl";
const WAITS_SINCE: &str = "WaitsSince";
const LEASE_UNTIL: &str = "LeaseUntil";
const FENCE: &str = "Fence";
const SEQ: &str = "Seq";
const SIGNALS: &str = "Signals";
const OPEN_BATCH: &str = "OpenBatch";

/// A lock as its item says it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredLock {
    target: Target,
    lock_holder: Option<WorkflowId>,
    waits_since: Option<Timestamp>,
    lease_until: Option<Timestamp>,
    fence: Fence,
    #[serde(default)]
    seq: Seq,
    #[serde(default)]
    signals: u64,
    open_batch: Option<BatchId>,
}

/// Reads a lock, and whose it is, out of its item.
pub(crate) fn lock_of(item: Item) -> Result<(Target, Lock)> {
    let target = id_in(&item, TARGET);
    let stored: StoredLock = decode(TABLE, &target, item)?;
    let holder = match (stored.lock_holder, stored.waits_since, stored.lease_until) {
        (Some(workflow), Some(waits_since), Some(lease_until)) => Some(Holder { workflow, waits_since, lease_until }),
        (None, None, None) => None,
        (Some(_), None, _) => return Err(nonsense(TABLE, &target, WAITS_SINCE, "a held lock needs it")),
        (Some(_), _, None) => return Err(nonsense(TABLE, &target, LEASE_UNTIL, "a held lock needs it")),
        (None, _, _) => return Err(nonsense(TABLE, &target, LOCK_HOLDER, "a lease without a holder")),
    };
    let StoredLock { target, fence, seq, signals, open_batch: open, .. } = stored;
    Ok((target, Lock { holder, fence, seq, signals, open }))
}

/// A lock's item as the writes below leave it: one that nobody holds was released at `now`.
pub(crate) fn item_of(target: &Target, lock: &Lock, now: Timestamp) -> Item {
    let holder = lock.holder.as_ref();
    let attributes = [
        Some((TARGET, text(target.as_str()))),
        holder.map(|holder| (LOCK_HOLDER, text(holder.workflow.as_str()))),
        holder.map(|holder| (WAITS_SINCE, number(holder.waits_since.0))),
        holder.map(|holder| (LEASE_UNTIL, number(holder.lease_until.0))),
        Some((FENCE, number(lock.fence))),
        Some((SEQ, number(lock.seq))),
        Some((SIGNALS, number(lock.signals))),
        lock.open.as_ref().map(|open| (OPEN_BATCH, text(open.as_str()))),
        holder.is_none().then(|| (TTL, expiry(now))),
    ];
    attributes.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The precondition of an acquisition. Signals are not part of it: one that came meanwhile changes nothing for a
/// workflow that takes over.
fn assumed(acquisition: &Acquisition) -> Vec<Clause> {
    match &acquisition.assumes {
        Assumes::Free => vec![
            Clause::Absent(LOCK_HOLDER),
            // A predecessor's open batch must be seen, to be finished.
            Clause::Absent(OPEN_BATCH),
            // A clock behind that of the last holder must not lower the fence.
            Clause::AbsentOrBelow(FENCE, number(acquisition.next.fence)),
        ],
        Assumes::Unchanged(seen) => {
            let holder = seen.holder.as_ref();
            vec![
                Clause::unchanged(LOCK_HOLDER, holder.map(|holder| text(holder.workflow.as_str()))),
                // A leader that renewed its lease is alive.
                Clause::unchanged(LEASE_UNTIL, holder.map(|holder| number(holder.lease_until.0))),
                Clause::Equals(FENCE, number(seen.fence)),
                Clause::Equals(SEQ, number(seen.seq)),
                Clause::unchanged(OPEN_BATCH, seen.open.as_ref().map(|open| text(open.as_str()))),
            ]
        }
    }
}

/// The change that an acquisition makes; signals stay as they are.
fn acquiring(next: &Lock) -> Change {
    let holder = next.holder.as_ref();
    let change = Change::default()
        .set_or_remove(LOCK_HOLDER, holder.map(|holder| text(holder.workflow.as_str())))
        .set_or_remove(WAITS_SINCE, holder.map(|holder| number(holder.waits_since.0)))
        .set_or_remove(LEASE_UNTIL, holder.map(|holder| number(holder.lease_until.0)))
        .set_or_remove(OPEN_BATCH, next.open.as_ref().map(|open| text(open.as_str())))
        .set(FENCE, number(next.fence))
        .set(SEQ, number(next.seq))
        // A release compares the number, so there must be one.
        .set_if_absent(SIGNALS, number(0));
    // A held lock never expires: it may name a batch that only its holder, or its successor, would finish.
    change.remove(TTL)
}

/// When an item that was used at `last_use` expires.
pub(crate) fn expiry(last_use: Timestamp) -> aws_sdk_dynamodb::types::AttributeValue {
    number(last_use.plus_ms(IDLE_MS).as_secs())
}

/// What every write of a leader assumes: its term holds the lock.
fn led_by(term: &Term) -> [Clause; 2] {
    [Clause::Equals(LOCK_HOLDER, text(term.workflow.as_str())), Clause::Equals(FENCE, number(term.fence))]
}

impl Dynamo {
    fn lock_key<'a>(&'a self, target: &'a Target) -> Key<'a> {
        Key::of(&self.tables.locks, Place::Locks, TARGET, target.as_str())
    }
}

impl Locks for Dynamo {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        seen(self.get("read a lock", self.lock_key(target)).await?)
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let next = &acquisition.next;
        let (change, assumes) = (acquiring(next), assumed(acquisition));
        match self.update("acquire a lock", self.lock_key(target), change, &assumes, ReturnValue::None).await? {
            Written::Done(_) => Ok(Acquired::Yes),
            Written::Refused(old) => Ok(match seen(old)? {
                // Our own write, whose answer was lost: nobody else writes this workflow under this fence.
                Some(old) if old.is_apart_from_signals(next) => Acquired::Yes,
                other => Acquired::No(other),
            }),
        }
    }

    async fn signal(&self, term: &Term) -> Result<Signalled> {
        let (key, change) = (self.lock_key(&term.target), Change::default().add(SIGNALS, number(1)));
        match self.update("signal a lock's holder", key, change, &led_by(term), ReturnValue::None).await? {
            // One signal too many, of a write that was repeated, costs the holder one more look.
            Written::Done(_) => Ok(Signalled::Yes),
            Written::Refused(old) => Ok(Signalled::No(seen(old)?)),
        }
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        const WHAT: &str = "advance a lock to its next batch";
        let next = term.batch_id(seq.next());
        let change = Change::default()
            .set(SEQ, number(seq.next()))
            .set(OPEN_BATCH, text(next.as_str()))
            .set(LEASE_UNTIL, number(lease_until.0));
        let [holder, fence] = led_by(term);
        let assumes = [holder, fence, Clause::Equals(SEQ, number(seq))];
        match self.update(WHAT, self.lock_key(&term.target), change, &assumes, ReturnValue::AllNew).await? {
            Written::Done(new) => match seen(new)? {
                Some(lock) => Ok(Advanced::Kept(lock)),
                None => Err(Error::Broken { what: WHAT, why: "the answer has no item".to_owned() }),
            },
            Written::Refused(old) => Ok(match seen(old)? {
                // An earlier try of this same step got through.
                Some(old) if old.is_led_by(term) && old.seq == seq.next() && old.open == Some(next) => {
                    Advanced::Kept(old)
                }
                Some(_) | None => Advanced::Lost,
            }),
        }
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        let change = Change::default()
            .remove(LOCK_HOLDER)
            .remove(WAITS_SINCE)
            .remove(LEASE_UNTIL)
            .remove(OPEN_BATCH)
            .set(TTL, expiry(now));
        let [holder, fence] = led_by(term);
        let assumes = [holder, fence, Clause::Equals(SEQ, number(seq)), Clause::Equals(SIGNALS, number(signals))];
        match self.update("release a lock", self.lock_key(&term.target), change, &assumes, ReturnValue::None).await? {
            Written::Done(_) => Ok(Released::Yes),
            Written::Refused(old) => Ok(match seen(old)? {
                Some(old) if old.is_led_by(term) && old.seq == seq => Released::Signalled(old),
                // Released already, by us: another holder would have raised the fence.
                Some(old) if old.holder.is_none() && old.fence == term.fence => Released::Yes,
                Some(_) | None => Released::Lost,
            }),
        }
    }
}

fn seen(item: Option<Item>) -> Result<Option<Lock>> {
    item.map(|item| lock_of(item).map(|(_, lock)| lock)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(attributes: &[(&str, aws_sdk_dynamodb::types::AttributeValue)]) -> Item {
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn a_held_and_a_released_lock_are_read_as_they_were_written() {
        let mut stored = item(&[
            (TARGET, text("r:t")),
            (LOCK_HOLDER, text("w")),
            (WAITS_SINCE, number(5)),
            (LEASE_UNTIL, number(9)),
            (FENCE, number(7)),
            (SEQ, number(2)),
            (SIGNALS, number(4)),
            (OPEN_BATCH, text("b")),
            (TTL, number(1)),
        ]);
        let holder = Holder { workflow: WorkflowId::new("w"), waits_since: Timestamp(5), lease_until: Timestamp(9) };
        let open = Some(BatchId::new("b"));
        let held = Lock { holder: Some(holder), fence: Fence(7), seq: Seq(2), signals: 4, open };
        assert_eq!(lock_of(stored.clone()).unwrap(), (Target::new("r:t"), held.clone()));
        assert_eq!(lock_of(item_of(&Target::new("r:t"), &held, Timestamp(3))).unwrap().1, held);
        for gone in [LOCK_HOLDER, WAITS_SINCE, LEASE_UNTIL, OPEN_BATCH] {
            stored.remove(gone);
        }
        assert_eq!(lock_of(stored).unwrap().1, Lock { holder: None, open: None, ..held });
    }

    #[test]
    fn a_holder_without_a_part_of_its_lease_is_an_error_that_names_the_attribute() {
        for (there, missing) in [(WAITS_SINCE, LEASE_UNTIL), (LEASE_UNTIL, WAITS_SINCE)] {
            let stored =
                item(&[(TARGET, text("r:t")), (LOCK_HOLDER, text("w")), (FENCE, number(7)), (there, number(5))]);
            let said = lock_of(stored).unwrap_err().to_string();
            assert!(said.contains("lock table") && said.contains("r:t") && said.contains(missing), "{said}");
        }
    }
}
