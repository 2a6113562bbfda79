//! Failed tasks that are retried: the index of those that wait shows them later.

use groupage_core::domain::failed::Retry;
use groupage_core::ports::{Env, Failures, Result, Stored, Tasks, layer};

use super::Lagging;

impl<S: Failures + Tasks, E: Env> layer::Failures for Lagging<S, E> {
    async fn retry(&self, retry: &Retry) -> Result<Stored> {
        let stored = self.inner.retry(retry).await?;
        if stored == Stored::Yes {
            self.waits_again(&retry.id, &retry.target).await?;
        }
        Ok(stored)
    }
}
