//! What a stack that lost all its messages is driven on from.

use std::future::Future;

use super::Result;
use crate::domain::id::Target;
use crate::domain::lock::Lock;
use crate::domain::task::Task;

/// A count of everything that is not at rest; reads whole tables.
pub trait Census: Sync {
    /// All locks that somebody holds.
    fn held_locks(&self) -> impl Future<Output = Result<Vec<(Target, Lock)>>> + Send;

    /// All tasks that are neither succeeded nor failed.
    fn unsettled_tasks(&self) -> impl Future<Output = Result<Vec<Task>>> + Send;
}
