//! Processes: real calls of `Tracking`, run up to their next I/O; see [`crate::process`].

use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use shared::domain::id::TrackerId;
use shared::domain::tracker::{ItemId, Place};
use shared::steps::track::{Lifetimes, Tracking};

use super::io::{Answer, Op};
use super::ports::Ports;
use super::setting::{NAME, Setting};

/// What a process does.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Role {
    /// It adds items and seals.
    Owner,
    /// It acks.
    Acker(usize),
    /// It is the sweep of this number.
    Sweep(u8),
}

/// A process between two I/Os.
#[derive(Debug)]
pub struct Process {
    /// What it does.
    pub role: Role,
    log: Vec<(usize, Answer)>,
    pending: Vec<(usize, Op)>,
    /// Whether its call has returned.
    pub ended: bool,
    /// The process, as a number.
    pub fingerprint: u64,
}

impl Process {
    /// Its next I/O.
    #[must_use]
    pub fn next_io(&self) -> Option<&(usize, Op)> {
        self.pending.first()
    }
}

/// The real calls, with what is known of their ways.
#[derive(Debug)]
pub struct Calls {
    setting: Setting,
    known: RwLock<HashMap<u64, Arc<Process>>>,
}

/// Between sweeps, in milliseconds: more than sweep leaves any tracker alone.
const SWEEP_MS: u64 = 4_000_000;

impl Calls {
    /// The calls of a setting.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self { setting, known: RwLock::default() }
    }

    /// A process at its beginning.
    #[must_use]
    pub fn start(&self, role: Role) -> Arc<Process> {
        let mut hasher = DefaultHasher::new();
        role.hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| self.run(role, Vec::new(), fingerprint))
    }

    /// The process after the answer to its I/O.
    #[must_use]
    pub fn next(&self, process: &Process, call: usize, answer: Answer) -> Arc<Process> {
        let mut hasher = DefaultHasher::new();
        (process.fingerprint, call, &answer).hash(&mut hasher);
        self.known(hasher.finish(), |fingerprint| {
            let mut log = process.log.clone();
            log.push((call, answer));
            self.run(process.role, log, fingerprint)
        })
    }

    fn known(&self, fingerprint: u64, run: impl FnOnce(u64) -> Process) -> Arc<Process> {
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&fingerprint) {
            return Arc::clone(known);
        }
        let process = Arc::new(run(fingerprint));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(fingerprint).or_insert(process))
    }

    fn run(&self, role: Role, log: Vec<(usize, Answer)>, fingerprint: u64) -> Process {
        let now = match role {
            Role::Owner | Role::Acker(_) => 0,
            Role::Sweep(number) => SWEEP_MS * (u64::from(number) + 1),
        };
        let ports = Ports::new(now.to_string());
        let mut context = Context::from_waker(Waker::noop());
        let mut call = self.call(role, &ports);
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

    fn call<'a>(&'a self, role: Role, ports: &'a Ports) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let tracking = Tracking { store: ports, outbox: ports, env: ports };
        let id = TrackerId::new(NAME);
        match role {
            Role::Owner => Box::pin(async move {
                for (n, count) in self.setting.adds.iter().enumerate() {
                    let _ = tracking.add(&id, &format!("k{n}"), *count).await;
                }
                let _ = tracking.seal(&id).await;
            }),
            // Items of tasks and items that somebody acks by a call go different ways at first.
            Role::Acker(n) => Box::pin(async move {
                let Some((range, outcome)) = self.setting.range(n) else { return };
                if n == 0 {
                    let at = Place { group: range.group, index: range.first };
                    let _ = tracking.settle(vec![(ItemId { tracker: id, at }, outcome)]).await;
                } else {
                    let _ = tracking.ack(&id, &[(range, outcome)]).await;
                }
            }),
            Role::Sweep(_) => Box::pin(async move {
                let _ = tracking.look_after(&id, Lifetimes::default()).await;
            }),
        }
    }
}
