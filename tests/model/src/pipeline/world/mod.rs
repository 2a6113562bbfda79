//! What an I/O does to the tables, what it answers, and which promise it breaks.

mod batches;
mod locks;
mod sessions;
mod tasks;

use std::fmt::Debug;

use groupage_core::domain::{BatchId, Shards, Task, Term};

use crate::harness::act::Answer;
use crate::harness::kept::Kept;
use crate::pipeline::io::{Op, Says};
use crate::pipeline::promises::Promise;
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::Tables;

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
    pub shards: Shards,
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
            Op::Signal(target, held) => told(self.signal(target, held, laws)),
            Op::Advance(term, seq, lease_until) => told(self.advance(term, *seq, *lease_until, laws)),
            Op::Release(term, seq, signals) => told(self.release(term, *seq, *signals, laws)),
            Op::Batch(id) => Answer::of(self.tables.batch(id).cloned()),
            Op::Store(batch, assumes) => told(self.store(batch, *assumes, laws)),
            Op::OpenSession(session) => told(self.open_session(session)),
            Op::Renew(session) => told(self.renew(session)),
            Op::EndSession(id, beat) => told(self.end_session(id, *beat, laws)),
            Op::Session(id) => Answer::of(self.tables.session(id).cloned()),
            Op::Call(id, items) => {
                self.call(id, items, laws);
                match comes {
                    Comes::Saying(says) => told(says),
                    Comes::AsIs | Comes::Lagging(_) => told(Says::Accepted),
                }
            }
            Op::Send(_) | Op::Sleep => Answer::of(()),
        }
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

fn told<T: Clone + Debug + Send + Sync + 'static>(value: T) -> Answer {
    Answer::of(Kept::new(value))
}
