//! Locks in memory.

use super::MemoryStore;
use super::expiry::Row;
use crate::domain::lock::{self, Acquisition, Lock, Term};
use crate::domain::{Seq, Target, Timestamp};
use crate::ports::{Acquired, Advanced, Locks, Released, Result, Signalled};

impl Locks for MemoryStore {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        Ok(self.tables().locks.get(target).cloned())
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let mut tables = self.tables();
        let old = tables.locks.get(target);
        let holds = match &acquisition.assumes {
            lock::Assumes::Free => {
                old.is_none_or(|old| old.holder.is_none() && old.open.is_none() && old.fence < acquisition.next.fence)
            }
            // A signal that came meanwhile changes nothing for the workflow that takes over.
            lock::Assumes::Unchanged(seen) => old.is_some_and(|old| old.is_apart_from_signals(seen)),
        };
        let signals = old.map_or(0, |old| old.signals);
        let next = Lock { signals, ..acquisition.next.clone() };
        if !holds {
            // The lock as this very acquisition leaves it: the answer to an earlier try was lost.
            let is_mine = old.is_some_and(|old| old.is_apart_from_signals(&next));
            return Ok(if is_mine { Acquired::Yes } else { Acquired::No(old.cloned()) });
        }
        tables.expiry.keep(Row::Lock(target.clone()), None);
        tables.locks.insert(target.clone(), next);
        Ok(Acquired::Yes)
    }

    async fn signal(&self, term: &Term) -> Result<Signalled> {
        let mut tables = self.tables();
        match tables.locks.get_mut(&term.target) {
            Some(lock) if lock.is_led_by(term) => {
                lock.signals += 1;
                Ok(Signalled::Yes)
            }
            other => Ok(Signalled::No(other.cloned())),
        }
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        let mut tables = self.tables();
        let Some(lock) = tables.locks.get_mut(&term.target).filter(|lock| lock.is_led_by(term)) else {
            return Ok(Advanced::Lost);
        };
        if lock.seq == seq {
            lock.seq = seq.next();
            lock.open = Some(term.batch_id(lock.seq));
            if let Some(holder) = &mut lock.holder {
                holder.lease_until = lease_until;
            }
        } else if lock.seq != seq.next() {
            return Ok(Advanced::Lost);
        }
        Ok(Advanced::Kept(lock.clone()))
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        match tables.locks.get_mut(&term.target) {
            Some(lock) if lock.is_led_by(term) && lock.seq != seq => Ok(Released::Lost),
            Some(lock) if lock.is_led_by(term) && lock.signals != signals => Ok(Released::Signalled(lock.clone())),
            Some(lock) if lock.is_led_by(term) => {
                lock.holder = None;
                lock.open = None;
                let until = now.plus_ms(tables.expiry.keeps.idle_ms);
                tables.expiry.keep(Row::Lock(term.target.clone()), Some(until));
                Ok(Released::Yes)
            }
            Some(lock) if lock.holder.is_none() && lock.fence == term.fence => Ok(Released::Yes),
            Some(_) | None => Ok(Released::Lost),
        }
    }
}
