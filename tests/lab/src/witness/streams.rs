//! Streams under observation: a watermark never falls, and passes nobody who is not settled.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::stream::Life;
use groupage_core::domain::tracker::Change;
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

/// Events whose tasks are registered and not settled.
pub(super) type Unsettled = BTreeMap<EventId, TaskId>;

impl Witness {
    /// A task was registered.
    pub(super) fn event_came(&self, task: &Task) {
        if let Some(event) = &task.event {
            self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).insert(event.clone(), task.id.clone());
        }
    }

    /// A task was settled.
    pub(super) fn event_settled(&self, event: Option<&EventId>) {
        if let Some(event) = event {
            self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).remove(event);
        }
    }

    fn compare_watermarks(&self, old: Option<&Stream>, new: &Stream) {
        let (from, to) = (old.map_or(0, |old| old.watermark.number), new.watermark.number);
        if to < from {
            self.note(format!("the watermark never falls: {} went from {from} to {to}", new.life.id));
        }
        let event = |number| EventId { life: new.life.clone(), number };
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((event, task)) = unsettled.range(event(0)..event(to)).next() {
            self.note(format!(
                "the watermark passes nobody: it is {to}, and {task}, event {}, is not settled",
                event.number
            ));
        }
    }
}

impl layer::Streams for Witness {
    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        let old = self.tables.stream(&stream.life.id).await?;
        let mut stream = stream.clone();
        if let (Some(Mutation::CommitsUnconditionally), Some(old)) = (self.mutation, &old) {
            stream.revision = old.revision.next();
        }
        let stored = self.tables.commit(&stream).await?;
        if stored == Stored::Yes {
            self.compare_watermarks(old.as_ref(), &stream);
        }
        Ok(stored)
    }

    async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
        let mut change = change.clone();
        if self.mutation == Some(Mutation::MarksEventsUnconditionally) {
            let old = self.tables.see(life, &[change.id]).await?.bits.node(change.id);
            change.words.iter_mut().for_each(|(word, changed)| changed.was = old.done.get(word).copied());
        }
        self.tables.mark_events(life, &change).await
    }
}
