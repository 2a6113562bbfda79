//! The batches and the index of those with work left.

use super::declare::port;
use super::{Entries, Look, Result, Stored};
use crate::domain::batch::{Assumes, Batch};
use crate::domain::id::{BatchId, RouteName};

port! {
    /// The batches.
    pub trait Batches {
        /// Reads a batch as it is now.
        async fn batch(&self, id: &BatchId) -> Result<Option<Batch>>;

        /// Writes a whole batch. Assumes what `assumes` says.
        async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored>;

        /// Looks at those batches of a route in the index of unfinished ones that are due. The index lags behind them.
        async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>>;
    }
}
