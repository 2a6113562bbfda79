//! Processes that are histories: a call is run over the answers that it got so far, up to its next I/O.
//!
//! A call's future cannot be copied, but it is a function of what it is given and of the answers it got. So a process
//! *is* that history, and its next I/O is found by running the call once more over it. What was found is remembered:
//! the same history is met in many states.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use derive_more::Deref;

use super::recorder::Recorder;

/// Real calls over a recorder.
pub trait Calls: Debug {
    /// What a process does.
    type Role: Clone + Debug + Hash;
    /// One I/O.
    type Op: Clone + Debug + Unpin;
    /// What it is told.
    type Answer: Clone + Debug + Hash;
    /// What it is worth to know of its past.
    type Learnt: Clone + Debug;

    /// The ports of a process.
    fn ports(&self, role: &Self::Role) -> Recorder<Self::Op, Self::Answer>;

    /// The call that a process makes; gives whether its message is acknowledged, if it has one.
    fn call(&self, role: Self::Role, ports: &Recorder<Self::Op, Self::Answer>) -> impl Future<Output = bool>;

    /// What a process knows at its beginning.
    fn begin(&self, role: &Self::Role) -> Self::Learnt;

    /// Whether an I/O is only a pause: it waits beside others for as long as the model says.
    fn is_pause(_op: &Self::Op) -> bool {
        false
    }

    /// When an answer was given, in milliseconds, if time goes on.
    fn time_of(_answer: &Self::Answer) -> Option<u64> {
        None
    }

    /// A process learns the answer to its I/O.
    fn learn(&self, _learnt: &mut Self::Learnt, _op: &Self::Op, _answer: &Self::Answer) {}
}

/// A process between two I/Os.
#[derive(Debug)]
pub struct Process<C: Calls> {
    /// What it does.
    pub role: C::Role,
    log: Vec<(usize, C::Answer)>,
    /// The I/Os that wait for an answer.
    pub pending: Vec<(usize, C::Op)>,
    /// Set when its call has returned: whether its message is acknowledged.
    pub end: Option<bool>,
    /// What it has learnt.
    pub learnt: C::Learnt,
    /// The process, as a number.
    pub fingerprint: u64,
}

impl<C: Calls> Process<C> {
    /// The I/Os that it has under way at once.
    pub fn ios(&self) -> impl Iterator<Item = &(usize, C::Op)> {
        self.pending.iter().filter(|(_, op)| !C::is_pause(op))
    }

    /// Its next I/O, where those that it has under way at once are answered in their order.
    pub fn next_io(&self) -> Option<&(usize, C::Op)> {
        self.ios().next()
    }

    /// The last answer that it got.
    pub fn last_answer(&self) -> Option<&C::Answer> {
        self.log.last().map(|(_, answer)| answer)
    }

    /// What it is and what it does next, cut short.
    pub fn told(&self) -> String {
        let op: String = format!("{:?}", self.next_io().map(|(_, op)| op)).chars().take(200).collect();
        format!("{:?} | {op}", self.role)
    }
}

/// The calls, with what is known of their ways.
#[derive(Debug)]
pub struct Known<C: Calls> {
    calls: C,
    known: RwLock<HashMap<u64, Arc<Process<C>>>>,
}

impl<C: Calls> Known<C> {
    /// Nothing is known yet.
    pub fn new(calls: C) -> Self {
        Self { calls, known: RwLock::default() }
    }

    /// A process at its beginning.
    pub fn start(&self, role: C::Role) -> Arc<Process<C>> {
        let mut hasher = DefaultHasher::new();
        role.hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| {
            let learnt = self.calls.begin(&role);
            self.run(role, Vec::new(), learnt, fingerprint)
        })
    }

    /// The process after the answer to its I/O.
    pub fn next(&self, process: &Process<C>, call: usize, answer: C::Answer) -> Arc<Process<C>> {
        let mut hasher = DefaultHasher::new();
        (process.fingerprint, call, &answer).hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| {
            let mut learnt = process.learnt.clone();
            if let Some((_, op)) = process.pending.iter().find(|(number, _)| *number == call) {
                self.calls.learn(&mut learnt, op, &answer);
            }
            let mut log = process.log.clone();
            log.push((call, answer));
            self.run(process.role.clone(), log, learnt, fingerprint)
        })
    }

    fn known(&self, fingerprint: u64, run: impl FnOnce(u64) -> Process<C>) -> Arc<Process<C>> {
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&fingerprint) {
            return Arc::clone(known);
        }
        let process = Arc::new(run(fingerprint));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(fingerprint).or_insert(process))
    }

    fn run(&self, role: C::Role, log: Vec<(usize, C::Answer)>, learnt: C::Learnt, fingerprint: u64) -> Process<C> {
        let ports = self.calls.ports(&role);
        let mut context = Context::from_waker(Waker::noop());
        let mut call = pin!(self.calls.call(role.clone(), &ports));
        let mut end = call.as_mut().poll(&mut context);
        for (number, answer) in &log {
            if let Some(now) = C::time_of(answer) {
                ports.set_now(now);
            }
            ports.answer(*number, answer.clone());
            end = call.as_mut().poll(&mut context);
        }
        let end = match end {
            Poll::Ready(acknowledged) => Some(acknowledged),
            Poll::Pending => None,
        };
        // While the call still lives: dropping it drops its I/O.
        let pending = if end.is_none() { ports.pending() } else { Vec::new() };
        Process { role, log, pending, end, learnt, fingerprint }
    }
}

/// Where one of those that take part stands.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum Place<R> {
    /// It is still to begin, or to begin anew.
    Waits,
    /// It is at work.
    Runs(R),
    /// It is done.
    Ended,
}

/// A process, compared by its fingerprint.
#[derive(Debug, Deref)]
#[deref(forward)]
pub struct Running<C: Calls>(pub Arc<Process<C>>);

impl<C: Calls> Clone for Running<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Calls> Hash for Running<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.fingerprint);
    }
}

impl<C: Calls> PartialEq for Running<C> {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

impl<C: Calls> Eq for Running<C> {}

/// What becomes of a process after an I/O.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    GoesOn,
    /// It dies, and what it was told to do is begun anew.
    Dies,
    /// It dies, and nobody begins anew.
    DiesForGood,
}
