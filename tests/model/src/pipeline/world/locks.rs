//! The locks: bid for, signalled, advanced, released.

use groupage_core::domain::lock::{Acquisition, Assumes};
use groupage_core::ports::{Acquired, Advanced, Released};

use super::{Laws, World};
use crate::pipeline::promises::Promise;
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::Led;
use crate::prelude::*;

impl World {
    pub(super) fn acquire(&mut self, target: &Target, acquisition: &Acquisition, laws: Laws) -> Acquired {
        let led = self.tables.led_mut(target);
        let old = led.lock.as_deref();
        let holds = match &acquisition.assumes {
            Assumes::Free => {
                old.is_none_or(|old| old.holder.is_none() && old.open.is_none() && old.fence < acquisition.next.fence)
            }
            Assumes::Unchanged(seen) => {
                let unchanged = old.is_some_and(|old| old.is_apart_from_signals(seen));
                unchanged || !laws.keeps(Rule::AcquireUnchanged)
            }
        };
        let mut next = Lock { signals: old.map_or(0, |old| old.signals), ..acquisition.next.clone() };
        if !holds {
            return if old.is_some_and(|old| old.is_apart_from_signals(&next)) {
                Acquired::Yes
            } else {
                Acquired::No(old.cloned())
            };
        }
        if !laws.keeps(Rule::OpenBatchNamed) {
            next.open = Some(BatchId::derive(target, next.fence, Seq(0)));
        }
        let unseen = laws.asked(target);
        *led = Led { inherited: next.open.clone(), unseen, lock: Some(Kept::new(next)) };
        Acquired::Yes
    }

    pub(super) fn signal(&mut self, term: &Term, laws: Laws) -> Signalled {
        let led = self.tables.led_mut(&term.target);
        match led.lock.as_deref() {
            Some(lock) if lock.is_led_by(term) || !laws.keeps(Rule::SignalConditional) => {
                let answered = lock.holder.is_some();
                led.lock = Some(Kept::new(Lock { signals: lock.signals + 1, ..lock.clone() }));
                led.unseen = laws.asked(&term.target);
                self.promise(answered, Promise::SignalsAnswered);
                Signalled::Yes
            }
            other => Signalled::No(other.cloned()),
        }
    }

    pub(super) fn advance(&mut self, term: &Term, seq: Seq, lease_until: Timestamp, laws: Laws) -> Advanced {
        let Some(mut lock) = self.led_by(term, Rule::FenceAtAdvance, laws) else { return Advanced::Lost };
        if lock.seq == seq {
            lock.seq = seq.next();
            lock.open = Some(term.batch_id(lock.seq));
            if let Some(holder) = &mut lock.holder {
                holder.lease_until = lease_until;
            }
            self.tables.led_mut(&term.target).lock = Some(Kept::new(lock.clone()));
        } else if lock.seq != seq.next() {
            return Advanced::Lost;
        }
        Advanced::Kept(lock)
    }

    pub(super) fn release(&mut self, term: &Term, seq: Seq, signals: u64, laws: Laws) -> Released {
        if let Some(lock) = self.led_by(term, Rule::FenceAtRelease, laws) {
            if lock.seq != seq && laws.keeps(Rule::ReleaseAtSeq) {
                return Released::Lost;
            }
            if lock.signals != signals && laws.keeps(Rule::SignalAtRelease) {
                return Released::Signalled(lock);
            }
            let led = self.tables.led_mut(&term.target);
            let answered = led.unseen == 0;
            *led = Led { lock: Some(Kept::new(Lock { holder: None, open: None, ..lock })), ..Led::default() };
            self.promise(answered, Promise::SignalsAnswered);
            return Released::Yes;
        }
        match self.tables.led(&term.target).and_then(|led| led.lock.as_deref()) {
            Some(lock) if lock.holder.is_none() && lock.fence == term.fence => Released::Yes,
            Some(_) | None => Released::Lost,
        }
    }

    /// The lock, if it is held under this term.
    fn led_by(&self, term: &Term, rule: Rule, laws: Laws) -> Option<Lock> {
        let lock = self.tables.led(&term.target)?.lock.as_deref()?;
        (lock.is_led_by(term) || !laws.keeps(rule)).then(|| lock.clone())
    }
}

impl Laws {
    /// Where a leader by this lock must look once it was asked to: a bit for each shard.
    fn asked(self, target: &Target) -> u8 {
        match target.shard() {
            Shard::HOME => (1 << self.shards) - 1,
            Shard(n) => 1 << n,
        }
    }
}
