//! Batches, and their lagging index of those that are unfinished.

use std::sync::PoisonError;

use groupage_core::domain::batch::{Assumes, Batch};
use groupage_core::domain::shelf::Position;
use groupage_core::domain::{BatchId, Part, RouteName, Target, Timestamp};
use groupage_core::memory;
use groupage_core::ports::{self, Batches, Entry, Env, Look, Result, Segment, Stored, Unfinished, layer};

use super::Lagging;
use super::versions::{Versions, push, shown};

/// A batch's entries in its index; `None` after it has left.
pub(super) type Entries = Versions<Option<(Target, Part, Timestamp)>>;

impl<S, E: Env> Lagging<S, E> {
    /// A batch was written.
    pub(super) fn was_stored(&self, batch: &Batch) {
        let entry = batch.unfinished().map(|due| (batch.target.clone(), batch.part(), due));
        let at = self.visible_at(self.lag.index_ms);
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        push(unfinished.entry(batch.id.clone()).or_default(), at, entry);
    }
}

impl<S: Batches, E: Env> layer::Batches for Lagging<S, E> {
    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let stored = self.inner.store(batch, assumes).await?;
        if stored == Stored::Yes {
            self.was_stored(batch);
        }
        Ok(stored)
    }

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<ports::Entries<BatchId>> {
        // The inner index is read as well, so that its cost is counted.
        self.inner.unfinished(route, look).await?;
        let now = self.clock.now();
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let due = unfinished
            .iter()
            .filter_map(|(id, entries)| Some((shown(entries, now)?.as_ref()?, id)))
            .filter(|((target, shelf, _), _)| target.route() == *route && *shelf == look.part)
            .map(|((_, _, due), id)| (*due, id));
        Ok(memory::due(due, look))
    }

    async fn all_unfinished(
        &self,
        segment: Segment,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<ports::Entries<Unfinished>> {
        self.inner.all_unfinished(segment, after, limit).await?;
        let now = self.clock.now();
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |(id, entries): (&BatchId, &Entries)| {
            let (target, shelf, due) = shown(entries, now)?.as_ref()?;
            let (route, is_pulled) = (target.route(), *shelf != Part::of(id));
            let what = Unfinished { id: id.clone(), due: *due, route, is_pulled };
            Some(Entry { at: Position(id.to_string()), what })
        };
        Ok(memory::in_segment(unfinished.iter().filter_map(entry), segment, after, limit))
    }
}
