//! Processes that are histories: a call is run over the answers that it got so far, up to its next I/O.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use crate::recorder::Recorder;

/// Real calls over a recorder.
pub trait Calls: Debug {
    /// What a process does.
    type Role: Copy + Debug + Hash;
    /// One I/O.
    type Op: Clone + Debug + Unpin;
    /// What it is told.
    type Answer: Clone + Debug + Hash;

    /// The time of a process, in milliseconds.
    fn now(role: Self::Role) -> u64;

    /// The call that a process makes.
    fn call<'a>(
        &'a self,
        role: Self::Role,
        ports: &'a Recorder<Self::Op, Self::Answer>,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
}

/// A process between two I/Os.
#[derive(Debug)]
pub struct Process<C: Calls> {
    /// What it does.
    pub role: C::Role,
    log: Vec<(usize, C::Answer)>,
    pending: Vec<(usize, C::Op)>,
    /// Whether its call has returned.
    pub ended: bool,
    /// The process, as a number.
    pub fingerprint: u64,
}

impl<C: Calls> Process<C> {
    /// Its next I/O.
    #[must_use]
    pub fn next_io(&self) -> Option<&(usize, C::Op)> {
        self.pending.first()
    }

    /// What it is and what it does next, cut short.
    #[must_use]
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
    #[must_use]
    pub fn new(calls: C) -> Self {
        Self { calls, known: RwLock::default() }
    }

    /// A process at its beginning.
    #[must_use]
    pub fn start(&self, role: C::Role) -> Arc<Process<C>> {
        let mut hasher = DefaultHasher::new();
        role.hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| self.run(role, Vec::new(), fingerprint))
    }

    /// The process after the answer to its I/O.
    #[must_use]
    pub fn next(&self, process: &Process<C>, call: usize, answer: C::Answer) -> Arc<Process<C>> {
        let mut hasher = DefaultHasher::new();
        (process.fingerprint, call, &answer).hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| {
            let mut log = process.log.clone();
            log.push((call, answer));
            self.run(process.role, log, fingerprint)
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

    fn run(&self, role: C::Role, log: Vec<(usize, C::Answer)>, fingerprint: u64) -> Process<C> {
        let ports = Recorder::new(C::now(role).to_string());
        let mut context = Context::from_waker(Waker::noop());
        let mut call = self.calls.call(role, &ports);
        let mut end = call.as_mut().poll(&mut context);
        for (number, answer) in &log {
            ports.answer(*number, answer.clone());
            end = call.as_mut().poll(&mut context);
        }
        let ended = match end {
            Poll::Ready(()) => true,
            Poll::Pending => false,
        };
        // While the call still lives: dropping it drops its I/O.
        let pending = if ended { Vec::new() } else { ports.pending() };
        drop(call);
        Process { role, log, pending, ended, fingerprint }
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
#[derive(Debug)]
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
