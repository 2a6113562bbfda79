//! The batches and the index of those with work left.

use super::declare::port;
use super::{Entries, Look, Result, Segment, Stored};
use crate::domain::batch::{Assumes, Batch};
use crate::domain::id::{BatchId, RouteName};
use crate::domain::shelf::Position;
use crate::domain::time::Timestamp;

/// An entry of the index of unfinished batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The batch.
    pub id: BatchId,
    /// When sweep looks at it.
    pub due: Timestamp,
    /// Its route.
    pub route: RouteName,
    /// Whether it is listed for workers that pull.
    pub is_pulled: bool,
}

port! {
    /// The batches.
    pub trait Batches {
        /// Reads a batch as it is now.
        async fn batch(&self, id: &BatchId) -> Result<Option<Batch>>;

        /// Writes a whole batch. Assumes what `assumes` says.
        async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored>;

        /// Looks at those batches of a route in the index of unfinished ones that are due. The index lags behind them.
        async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>>;

        /// Reads up to `limit` entries of the same index, of all routes, due or not, that lie in a segment `after` that
        /// one.
        async fn all_unfinished(
            &self,
            segment: Segment,
            after: Option<&Position>,
            limit: usize,
        ) -> Result<Entries<Unfinished>>;
    }
}
