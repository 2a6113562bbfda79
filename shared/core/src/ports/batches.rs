//! The batches and the index of those with work left.

use super::declare::port;
use super::{Entries, Result, Stored};
use crate::domain::batch::{Assumes, Batch};
use crate::domain::id::{BatchId, Part, RouteName};
use crate::domain::shelf::Position;
use crate::domain::time::Timestamp;

port! {
    /// The batches.
    pub trait Batches {
        /// Reads a batch as it is now.
        async fn batch(&self, id: &BatchId) -> Result<Option<Batch>>;

        /// Writes a whole batch. Assumes what `assumes` says.
        async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored>;

        /// Looks up to `limit` batches of one part of a route in the index of unfinished ones that are due before
        /// `before` and come `after` that one, those that have been so for longest first. The index lags behind the
        /// batches.
        async fn unfinished(
            &self,
            route: &RouteName,
            part: Part,
            before: Timestamp,
            after: Option<&Position>,
            limit: usize,
        ) -> Result<Entries<BatchId>>;
    }
}
