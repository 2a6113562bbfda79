//! Failed tasks, where they are filed.

use super::declare::port;
use super::{Freshness, Result, Stored};
use crate::domain::failed::{Failed, Filed, Retry};
use crate::domain::{Part, RouteName, Task, TaskId, Timestamp};

port! {
    /// The failed tasks.
    pub trait Failures {
        /// Reads up to `limit` failed tasks in one part of a route, in their order, that failed from the first time on
        /// and before the second and lie behind `after`. Fewer come only if there are no more. The index lags behind
        /// the tasks.
        async fn failed(
            &self,
            of: (&RouteName, Part),
            between: (Timestamp, Timestamp),
            after: Option<&Filed>,
            limit: usize,
        ) -> Result<Vec<Failed>>;

        /// Reads a task, and with it what is kept of its failure, if it has failed. `None` if it is not there. Both are
        /// one item, so both cost one read.
        async fn with_failure(&self, task: &TaskId, freshness: Freshness) -> Result<Option<(Task, Option<Failed>)>>;

        /// Lets a failed task wait for a batch in its next round, with no attempts made, and takes it out of the file;
        /// with it writes its lane, or nothing. Assumes: it has failed in that round, and its lane is at the revision
        /// before.
        async fn retry(&self, retry: &Retry) -> Result<Stored>;

        /// Takes a failed task out of the file; one that is not filed (any more) stays so. Assumes: it has failed.
        async fn unfile(&self, task: &TaskId) -> Result<Stored>;
    }
    provided {
        /// Reads what is kept of a task's failure as it is now; `None` if the task has not failed, or is not there.
        async fn failure(&self, task: &TaskId) -> Result<Option<Failed>> {
            Ok(self.with_failure(task, Freshness::Latest).await?.and_then(|(_, failed)| failed))
        }
    }
}
