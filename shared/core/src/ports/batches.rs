//! The batches and the index of those with work left.

use super::declare::port;
use super::{Entries, Look, Result, Segment, Stored};
use crate::domain::batch::{Assumes, Batch, ByPosition, OutputPart};
use crate::domain::id::{BatchId, RouteName, TaskId};
use crate::domain::output::Output;
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

        /// Keeps a part of a batch's outputs from `now` on, for the retention and 90 days more. Overwrites a part with
        /// the same key. The key names the claim, so only that claim's worker writes it.
        async fn keep_outputs(
            &self,
            batch: &BatchId,
            part: &OutputPart,
            outputs: &ByPosition,
            now: Timestamp,
        ) -> Result<()>;

        /// Reads the outputs in these parts of a batch. Those of a part that is not there (any more) are left out.
        async fn outputs(&self, batch: &BatchId, parts: &[OutputPart]) -> Result<ByPosition>;

        /// Erases the output at a position; one that is not there stays so.
        async fn erase_output(&self, batch: &BatchId, part: &OutputPart, position: usize) -> Result<()>;

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
    provided {
        /// Reads the output of a member of a batch, if one is kept.
        async fn output(&self, batch: &Batch, task: &TaskId) -> Result<Option<Output>> {
            let Some((position, part)) = batch.output_part(task) else { return Ok(None) };
            Ok(self.outputs(&batch.id, std::slice::from_ref(part)).await?.remove(&position))
        }
    }
}
