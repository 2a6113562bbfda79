//! One process at work on one message, and what may befall it at each of its calls to a port.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use groupage_core::ports::{Error, Result};
use tokio::sync::Notify;

use crate::prelude::*;

/// On which side of a call's work something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Nothing was done yet.
    Before,
    /// Everything was done, and the caller does not know.
    After,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller gets an error: throttled, or the answer was lost.
    Error,
    /// The process dies.
    Death,
    /// A second delivery of its message begins at the same time; a little later the process dies.
    DeathBesideTwin,
    /// A second delivery begins at the same time; the process stands still for so long and then goes on.
    PauseBesideTwin(u64),
    /// The process stands still for so long, in milliseconds, heartbeats and all, and then goes on.
    Pause(u64),
}

/// What may befall the calls of a run.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Nothing.
    Nothing,
    /// Just this, at the n-th call of the whole run, counted from 0.
    At(usize, Side, Fault),
    /// Anything, each call with this chance.
    Random(f64),
    /// Death, alone or beside a twin, each call with this chance.
    Deaths(f64),
}

/// A call to a port that fails each time, until its port is well again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Whose call.
    pub step: &'static str,
    /// The port's method.
    pub call: &'static str,
    /// For so long from the beginning, in milliseconds.
    pub for_ms: u64,
}

/// A queue that takes no message, until it is well again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// Which.
    pub queue: Destination,
    /// For so long from the beginning, in milliseconds.
    pub for_ms: u64,
}

/// What befalls every such call, not just one.
#[derive(Clone, Debug, Default)]
pub struct Lasting {
    /// The call of a step that fails each time.
    pub outage: Option<Outage>,
    /// The task that kills each worker which calls the downstream with it.
    pub deadly: Option<&'static str>,
    /// Queues that take no message.
    pub refusing: Vec<Refusing>,
}

/// A call to a port, as a run's log has it.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{call} of {step} at {}", at.0)]
pub struct Point {
    /// When, by the caller's clock.
    pub at: Timestamp,
    /// The step that made it.
    pub step: &'static str,
    /// The port's method.
    pub call: &'static str,
}

/// Every process's part in a run: the plan, and what was called so far.
#[derive(Debug)]
pub struct Fate {
    plan: Plan,
    lasting: Lasting,
    begun: Timestamp,
    env: TestEnv,
    points: Mutex<Vec<Point>>,
    faults: Mutex<Vec<String>>,
    /// Every call with its answer, if anybody wants to read that.
    trace: Option<Mutex<Vec<String>>>,
}

impl Fate {
    /// Calls go by `plan`, with dice of their own; `traced` keeps their answers.
    pub fn new(plan: Plan, env: TestEnv, traced: bool) -> Self {
        let (points, faults, trace) = (Mutex::default(), Mutex::default(), traced.then(Mutex::default));
        Self { plan, lasting: Lasting::default(), begun: env.now(), env, points, faults, trace }
    }

    /// With what befalls every such call, beside the plan.
    #[must_use]
    pub fn with(self, lasting: Lasting) -> Self {
        Self { lasting, ..self }
    }

    /// Every call so far with its answer, if the run is traced.
    pub fn trace(&self) -> Vec<String> {
        let lines = |trace: &Mutex<Vec<String>>| trace.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.trace.as_ref().map(lines).unwrap_or_default()
    }

    fn note(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.lock().unwrap_or_else(PoisonError::into_inner).push(line());
        }
    }

    /// Every call so far.
    pub fn points(&self) -> Vec<Point> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many calls were made so far.
    pub fn count(&self) -> usize {
        self.points.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What has befallen whom so far.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What befalls the call that is about to be made.
    fn next(&self, at: Timestamp, step: &'static str, call: &'static str) -> (usize, Option<(Side, Fault)>) {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        let number = points.len();
        points.push(Point { at, step, call });
        drop(points);
        let since_ms = self.env.now().since(self.begun);
        let is_out = |outage: &Outage| (outage.step, outage.call) == (step, call) && since_ms < outage.for_ms;
        if self.lasting.outage.as_ref().is_some_and(is_out) {
            return (number, Some((Side::Before, Fault::Error)));
        }
        let fault = match self.plan {
            Plan::Nothing => None,
            Plan::At(at, side, fault) => (at == number).then_some((side, fault)),
            Plan::Random(chance) => self.env.chance(chance).then(|| self.any()),
            Plan::Deaths(chance) => self.env.chance(chance).then(|| self.death()),
        };
        if let Some((side, fault)) = fault {
            let moment = self.env.now().0;
            let line = format!("{moment} {fault:?} {side:?} call {number}: {call} of {step}");
            self.note(|| line.clone());
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
        (number, fault)
    }

    fn any(&self) -> (Side, Fault) {
        let fault = match self.env.pick(0..=10) {
            0..=2 => Fault::Error,
            3..=5 => Fault::Death,
            6 => Fault::DeathBesideTwin,
            7 => Fault::PauseBesideTwin(self.env.pick(1..=200)),
            // Longer than sessions; longer than leases; longer than a message stays hidden.
            8 => Fault::Pause(self.env.pick(1..=10_000)),
            9 => Fault::Pause(self.env.pick(30_000..=120_000)),
            _ => Fault::PauseBesideTwin(self.env.pick(1..=60_000)),
        };
        (self.side(), fault)
    }

    fn death(&self) -> (Side, Fault) {
        let fault = if self.env.chance(0.5) { Fault::Death } else { Fault::DeathBesideTwin };
        (self.side(), fault)
    }

    fn side(&self) -> Side {
        if self.env.chance(0.5) { Side::Before } else { Side::After }
    }
}

/// One process.
#[derive(Debug)]
pub struct Process {
    step: &'static str,
    env: TestEnv,
    fate: Arc<Fate>,
    dead: Notify,
    twin: Notify,
    pause: Notify,
    pause_ms: Mutex<u64>,
    /// No call takes longer, in milliseconds.
    latency_ms: u64,
}

/// How long a process whose twin has begun lives on, in milliseconds: some calls.
const BESIDE_MS: u64 = 15;

impl Process {
    /// A process that runs a step.
    pub fn new(step: &'static str, env: TestEnv, fate: Arc<Fate>, latency_ms: u64) -> Self {
        let (dead, twin, pause) = (Notify::new(), Notify::new(), Notify::new());
        Self { step, env, fate, dead, twin, pause, pause_ms: Mutex::default(), latency_ms }
    }

    /// The names of the calls that it made so far, with the processes that share its fate.
    pub fn calls(&self) -> Vec<&'static str> {
        self.fate.points().into_iter().map(|point| point.call).collect()
    }

    /// Its clock and dice.
    pub const fn env(&self) -> &TestEnv {
        &self.env
    }

    /// Does `work` unless the process dies on the way; `begin_twin` is called when a second delivery is to begin.
    pub async fn run<T>(&self, work: impl Future<Output = T>, begin_twin: impl Fn()) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.twin.notified() => begin_twin(),
                () = self.dead.notified() => return None,
                // Nothing of the process moves meanwhile, its heartbeats neither.
                () = self.pause.notified() => self.env.sleep(self.paused_ms()).await,
                done = &mut work => return Some(done),
            }
        }
    }

    /// One call to a port: takes some time, and whatever the plan says befalls it.
    ///
    /// # Errors
    /// The call's own, or an injected one.
    pub async fn around<T: Debug>(&self, call: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let (number, fault) = self.fate.next(self.env.now(), self.step, call);
        self.env.sleep(self.env.pick(0..=self.latency_ms)).await;
        if let Some((Side::Before, fault)) = fault {
            self.befall(call, fault).await?;
        }
        let answer = work.await;
        self.fate.note(|| {
            let said: String = format!("{answer:?}").chars().take(400).collect();
            format!("{} {number}: {call} of {}: {said}", self.env.now().0, self.step)
        });
        if let (Some((Side::After, fault)), Ok(_)) = (fault, &answer) {
            self.befall(call, fault).await?;
        }
        answer
    }

    /// Whether a call with this body kills its worker.
    pub fn dies_of(&self, body: &str) -> bool {
        self.fate.lasting.deadly.is_some_and(|task| body.contains(&format!("\"{task}\"")))
    }

    /// Whether a queue refuses this process's messages now.
    pub fn is_refused_by(&self, queue: &Destination) -> bool {
        let since_ms = self.env.now().since(self.fate.begun);
        let refuses = |refusing: &Refusing| refusing.queue == *queue && since_ms < refusing.for_ms;
        self.fate.lasting.refusing.iter().any(refuses)
    }

    fn paused_ms(&self) -> u64 {
        std::mem::take(&mut *self.pause_ms.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Comes back when the pause is over, with everything else of the process.
    async fn pause(&self, ms: u64) {
        *self.pause_ms.lock().unwrap_or_else(PoisonError::into_inner) = ms;
        self.pause.notify_one();
        self.env.sleep(ms).await;
    }

    async fn befall(&self, what: &'static str, fault: Fault) -> Result<()> {
        match fault {
            Fault::Error => return Err(Error::Unavailable { what, why: "injected".to_owned() }),
            Fault::Death => self.die().await,
            Fault::DeathBesideTwin => {
                self.twin.notify_one();
                self.env.sleep(BESIDE_MS).await;
                self.die().await;
            }
            Fault::PauseBesideTwin(ms) => {
                self.twin.notify_one();
                self.pause(ms).await;
            }
            Fault::Pause(ms) => self.pause(ms).await,
        }
        Ok(())
    }

    /// Never returns: the runner of the process drops it.
    pub async fn die(&self) {
        self.dead.notify_one();
        std::future::pending::<()>().await;
    }
}
