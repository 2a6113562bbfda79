//! What batches are processed by.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::routes::Routes;

/// Processes batches, over ports.
#[derive(Debug)]
pub struct Processor<'a, S, Q, D, E> {
    /// All tables.
    pub store: &'a S,
    /// Where messages go.
    pub outbox: &'a Q,
    /// Where calls go.
    pub downstream: &'a D,
    /// Time and randomness.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// How long a call may take if its route does not say, in milliseconds.
    pub patience_ms: u64,
    /// Notes which notices of outages are refused.
    pub announced: &'a Announced,
}

impl<S, Q, D, E> Clone for Processor<'_, S, Q, D, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, Q, D, E> Copy for Processor<'_, S, Q, D, E> {}

/// What was refused of what was to be told of outages.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Refused>);

/// The same, counted in notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Their gates have them to tell still.
    pub untold: usize,
    /// They went to the rejected queue, since their own has refused them for a day.
    pub undeliverable: usize,
    /// What the first queue said.
    pub refusal: Option<String>,
}

impl Announced {
    /// What was refused until now, once.
    pub fn take(&self) -> Refused {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
