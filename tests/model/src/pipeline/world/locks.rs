//! The locks: bid for, signalled, advanced, released.

use groupage_core::domain::lock::{Acquisition, Assumes, Held};
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
        let unseen = laws.asked(target, next.reach);
        *led = Led { inherited: next.open.clone(), unseen, lock: Some(Kept::new(next)) };
        Acquired::Yes
    }

    pub(super) fn signal(&mut self, target: &Target, held: &Held, laws: Laws) -> Signalled {
        let term = Term { target: target.clone(), workflow: held.workflow.clone(), fence: held.fence };
        let led = self.tables.led_mut(target);
        match led.lock.as_deref() {
            Some(lock)
                if (lock.is_led_by(&term) || !laws.keeps(Rule::SignalConditional))
                    && held.asks.is_none_or(|asks| asks.seen == lock.reach) =>
            {
                let answered = lock.holder.is_some();
                let reach = held.asks.map(|asks| asks.next).or(lock.reach);
                led.lock = Some(Kept::new(Lock { signals: lock.signals + 1, reach, ..lock.clone() }));
                led.unseen = laws.asked(target, reach);
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
                let reach = lock.reach.filter(|_| laws.keeps(Rule::ReachFollowed));
                return Released::Signalled(Lock { reach, ..lock });
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
    fn asked(self, target: &Target, reach: Option<Reach>) -> u8 {
        match target.shard() {
            Shard::HOME => (1 << self.shards.promised(reach)) - 1,
            Shard(n) => 1 << n,
        }
    }
}
