//! What befalls a world, and how much of it.

use groupage_core::memory::Keeps;

use crate::prelude::*;
use crate::process::Lasting;

/// What expires, and when.
#[derive(Clone, Copy, Debug)]
pub struct Expires {
    /// For how long records are kept.
    pub keeps: Keeps,
    /// The chance that a record which is due outlives a look.
    pub late: f64,
    /// For how long people hold calls and lanes back: longer than anything is kept.
    pub standstill_ms: u64,
}

/// Half a day.
pub(crate) const PATIENCE_MS: u64 = 12 * 60 * 60 * 1000;

/// What a world is like.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random follows from it.
    pub seed: u64,
    /// What befalls the calls to ports.
    pub plan: Plan,
    /// What befalls every such call, beside that.
    pub lasting: Lasting,
    /// How far indexes and replicas are behind.
    pub lag: Lag,
    /// The longest that a call to a port takes, in milliseconds.
    pub latency_ms: u64,
    /// How far a process's clock may be off, in milliseconds.
    pub skew_ms: u64,
    /// The chance that a message between steps is lost.
    pub loss: f64,
    /// The chance that a message between steps comes from a function of the next version.
    pub newer: f64,
    /// The chance that a message is delivered twice at once.
    pub twice: f64,
    /// Whether messages of the task queue come several at once, and again in other company.
    pub mixes: bool,
    /// Whether sweep runs each minute.
    pub sweeps: bool,
    /// Workers that pull the route of this name, and how many.
    pub workers: Option<(&'static str, usize)>,
    /// How often a person runs each failed task again.
    pub retries: usize,
    /// The chance that a person cancels a task that waits, each time that somebody looks.
    pub cancels: f64,
    /// What expires, if anything does.
    pub expires: Option<Expires>,
    /// Routes files that are pushed later, each with its time in milliseconds after the beginning.
    pub pushes: Vec<(u64, String)>,
    /// For how long after a push some processes still go by the former file, in milliseconds.
    pub push_lag_ms: u64,
    /// A rule that is not kept.
    pub mutation: Option<Mutation>,
    /// Whether every call's answer is kept for reading.
    pub traced: bool,
    /// A world that is not at rest after this many milliseconds never will be.
    pub patience_ms: u64,
    /// A world that makes this many calls to ports goes round in circles.
    pub most_calls: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 1,
            plan: Plan::Nothing,
            lasting: Lasting::default(),
            lag: Lag::default(),
            latency_ms: 0,
            skew_ms: 0,
            loss: 0.0,
            newer: 0.0,
            twice: 0.0,
            mixes: false,
            sweeps: false,
            workers: None,
            retries: 0,
            cancels: 0.0,
            expires: None,
            pushes: Vec::new(),
            push_lag_ms: 0,
            mutation: None,
            traced: false,
            patience_ms: PATIENCE_MS,
            most_calls: 1_000_000,
        }
    }
}
