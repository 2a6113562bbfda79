//! The lock: bid for, signalled, advanced, released.

use shared::domain::id::{BatchId, Seq};
use shared::domain::lock::{Acquisition, Assumes, Held, Lock, Term};
use shared::domain::time::Timestamp;
use shared::ports::{Advanced, Released};

use super::{Laws, World};
use crate::io::Answer;
use crate::promises::Promise;
use crate::rules::Rule;

impl World {
    pub(super) fn acquire(&mut self, acquisition: &Acquisition, laws: Laws<'_>) -> Answer {
        let old = self.tables.lock.as_deref();
        let holds = match &acquisition.assumes {
            Assumes::Free => {
                old.is_none_or(|old| old.holder.is_none() && old.open.is_none() && old.fence < acquisition.next.fence)
            }
            Assumes::Unchanged(seen) => {
                let unchanged = old.is_some_and(|old| Lock { signals: seen.signals, ..old.clone() } == *seen);
                unchanged || !laws.removed.keeps(Rule::AcquireUnchanged)
            }
        };
        let mut next = Lock { signals: old.map_or(0, |old| old.signals), ..acquisition.next.clone() };
        if !holds {
            return if old == Some(&next) { Answer::Done } else { Answer::Lock(self.tables.lock.clone()) };
        }
        if !laws.removed.keeps(Rule::OpenBatchNamed) {
            next.open = Some(BatchId::derive(laws.target, next.fence, Seq(0)));
        }
        self.inherited = next.open.clone();
        self.look_again = true;
        self.tables.put_lock(next);
        Answer::Done
    }

    pub(super) fn signal(&mut self, held: &Held, laws: Laws<'_>) -> Answer {
        let term = Term { target: laws.target.clone(), workflow: held.workflow.clone(), fence: held.fence };
        match self.tables.lock.as_deref() {
            Some(lock) if lock.is_led_by(&term) || !laws.removed.keeps(Rule::SignalConditional) => {
                let answered = lock.holder.is_some();
                let next = Lock { signals: lock.signals + 1, ..lock.clone() };
                self.promise(answered, Promise::SignalsAnswered);
                self.tables.put_lock(next);
                self.look_again = true;
                Answer::Done
            }
            Some(_) | None => Answer::Lock(self.tables.lock.clone()),
        }
    }

    pub(super) fn advance(&mut self, term: &Term, seq: Seq, lease_until: Timestamp, laws: Laws<'_>) -> Advanced {
        let Some(mut lock) = self.led_by(term, Rule::FenceAtAdvance, laws) else { return Advanced::Lost };
        if lock.seq == seq {
            lock.seq = seq.next();
            lock.open = Some(term.batch_id(lock.seq));
            if let Some(holder) = &mut lock.holder {
                holder.lease_until = lease_until;
            }
            self.tables.put_lock(lock.clone());
        } else if lock.seq != seq.next() {
            return Advanced::Lost;
        }
        Advanced::Kept(lock)
    }

    pub(super) fn release(&mut self, term: &Term, seq: Seq, signals: u64, laws: Laws<'_>) -> Released {
        if let Some(lock) = self.led_by(term, Rule::FenceAtRelease, laws) {
            if lock.seq != seq && laws.removed.keeps(Rule::ReleaseAtSeq) {
                return Released::Lost;
            }
            if lock.signals != signals && laws.removed.keeps(Rule::SignalAtRelease) {
                return Released::Signalled(lock.signals);
            }
            self.promise(!self.look_again, Promise::SignalsAnswered);
            self.inherited = None;
            self.look_again = false;
            self.tables.put_lock(Lock { holder: None, open: None, ..lock });
            return Released::Yes;
        }
        match self.tables.lock.as_deref() {
            Some(lock) if lock.holder.is_none() && lock.fence == term.fence => Released::Yes,
            Some(_) | None => Released::Lost,
        }
    }

    /// The lock, if it is held under this term.
    fn led_by(&self, term: &Term, rule: Rule, laws: Laws<'_>) -> Option<Lock> {
        let lock = self.tables.lock.as_deref()?;
        (lock.is_led_by(term) || !laws.removed.keeps(rule)).then(|| lock.clone())
    }
}
