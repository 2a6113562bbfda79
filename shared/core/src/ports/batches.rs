//! The batches and the index of those with work left.

use std::future::Future;

use super::{Result, Stored};
use crate::domain::batch::{Assumes, Batch};
use crate::domain::id::{BatchId, Part, RouteName};
use crate::domain::time::Timestamp;

/// The batches.
pub trait Batches: Sync {
    /// Reads a batch as it is now.
    fn batch(&self, id: &BatchId) -> impl Future<Output = Result<Option<Batch>>> + Send;

    /// Writes a whole batch. Assumes what `assumes` says.
    fn store(&self, batch: &Batch, assumes: Assumes) -> impl Future<Output = Result<Stored>> + Send;

    /// Looks up to `limit` batches of one part of a route in the index of unfinished ones that are due before `before`,
    /// those that have been so for longest first. The index lags behind the batches.
    fn unfinished(
        &self,
        route: &RouteName,
        part: Part,
        before: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<BatchId>>> + Send;
}
