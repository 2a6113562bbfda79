//! What batches are processed by.

use super::notebook::Notebook;
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
    /// What the process keeps in mind.
    pub notebook: &'a Notebook,
}

impl<S, Q, D, E> Clone for Processor<'_, S, Q, D, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, Q, D, E> Copy for Processor<'_, S, Q, D, E> {}
