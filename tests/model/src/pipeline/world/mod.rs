//! What an I/O does to the tables, what it answers, and which promise it breaks.

mod batches;
mod locks;
mod tasks;

use groupage_core::ports::Ended;

use crate::pipeline::promises::Promise;
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::{Tables, lives};
use crate::prelude::*;
use crate::steps::io::{Op, Says, told};

/// The tables, with what nobody in the protocol sees.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    pub tables: Tables,
    /// The keys of calls that were made, where a batch may be called once: each is to be called just so often.
    pub calls: Vec<BatchId>,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
}

/// How an I/O comes out, where that is open.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Comes {
    /// As the tables have it.
    AsIs,
    /// Showing what this task was before its latest write.
    Lagging(u8),
    /// With these words of the downstream.
    Saying(Says),
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The term it leads under, if it is a leader.
    pub term: Option<Term>,
    /// Whether it is about to drive a batch's candidates to their fates.
    pub drives: bool,
}

/// What is fixed for a run of the model.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// How many shards the only Target has.
    pub shards: u8,
    /// How often a batch may be called.
    pub attempts: u8,
    /// The rule that is not kept.
    pub removed: Option<Rule>,
    /// Whether reads may lag behind the writes of now.
    pub lags: bool,
}

impl Laws {
    /// Whether a rule is kept.
    fn keeps(self, rule: Rule) -> bool {
        self.removed != Some(rule)
    }
}

impl World {
    /// Does one I/O.
    pub fn apply(&mut self, op: &Op, comes: Comes, asker: &Asker, laws: Laws) -> Answer {
        match op {
            Op::Register(task) => told(self.register(task, laws)),
            Op::Read(ids, freshness) => Answer::of(self.read(ids, *freshness, comes, asker, laws)),
            Op::Waiting(target) => told(self.waiting(target, comes, asker, laws)),
            Op::Join(id, round, batch) => told(self.join(id, *round, batch, laws)),
            Op::PutBack(member, batch, target, attempts) => told(self.put_back(member, batch, target, *attempts, laws)),
            Op::Settle(member, batch, settlement) => {
                self.settle(member, batch, settlement, laws);
                Answer::of(())
            }
            Op::Lock(target) => Answer::of(self.tables.led(target).and_then(|led| led.lock.clone())),
            Op::Acquire(target, acquisition) => told(self.acquire(target, acquisition, laws)),
            Op::Signal(term) => told(self.signal(term, laws)),
            Op::Advance(term, seq, lease_until) => told(self.advance(term, *seq, *lease_until, laws)),
            Op::Release(term, seq, signals) => told(self.release(term, *seq, *signals, laws)),
            Op::Batch(id) => Answer::of(self.tables.batch(id).cloned()),
            Op::Store(batch, assumes) => told(self.store(batch, *assumes, laws)),
            Op::OpenSession(session) => told(self.tables.sessions.open(session)),
            Op::Renew(session) => told(self.tables.sessions.renew(session)),
            Op::EndSession(id, beat) => told(self.end_session(id, *beat, laws)),
            Op::Session(id) => Answer::of(self.tables.sessions.get(id).cloned()),
            Op::Call(id, items) => {
                self.call(id, items, laws);
                match comes {
                    Comes::Saying(says) => told(says),
                    Comes::AsIs | Comes::Lagging(_) => told(Says::Accepted),
                }
            }
            // All gates are open, and nobody looks for what is left undone.
            Op::Gate(_) => told(Gate::default()),
            Op::StoreGate(..) => told(Stored::Yes),
            Op::TakeTicket(..) | Op::GiveBack(..) | Op::Unfinished(_) | Op::Sessions(_) => Answer::of(()),
            Op::Send(_) | Op::Sleep(_) | Op::Pause => Answer::of(()),
        }
    }

    fn end_session(&mut self, id: &SessionId, beat: Beat, laws: Laws) -> Ended {
        let renewed = self.tables.sessions.get(id).filter(|session| session.beat != beat);
        if let Some(was_alive) = renewed.map(|session| lives(session)).filter(|_| !laws.keeps(Rule::BeatUnchanged)) {
            self.promise(!was_alive, Promise::RenewedLives);
            self.tables.sessions.0.remove(id);
        }
        self.tables.sessions.end(id, beat)
    }

    fn promise(&mut self, kept: bool, promise: Promise) {
        if !kept {
            self.broken = self.broken.or(Some(promise));
        }
    }

    fn lags(&self, task: &Task, comes: Comes) -> bool {
        match comes {
            Comes::Lagging(n) => self.tables.tasks.get(usize::from(n)).is_some_and(|row| row.now.id == task.id),
            Comes::AsIs | Comes::Saying(_) => false,
        }
    }
}
