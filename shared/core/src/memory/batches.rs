//! Batches in memory.

use super::MemoryStore;
use super::due::{due, in_segment};
use super::expiry::Row;
use crate::domain::batch::{Assumes, Batch, ByPosition, OUTLIVES_MS, OutputPart};
use crate::domain::id::{BatchId, Part, RouteName};
use crate::domain::shelf::Position;
use crate::domain::time::Timestamp;
use crate::ports::{Batches, Entries, Entry, Look, Result, Segment, Stored, Unfinished};

/// The entry of a batch in the index of unfinished ones, if it has one.
pub fn listed(batch: &Batch) -> Option<Entry<Unfinished>> {
    let (route, is_pulled) = (batch.target.route(), batch.part() != Part::of(&batch.id));
    let what = Unfinished { id: batch.id.clone(), due: batch.unfinished()?, route, is_pulled };
    Some(Entry { at: Position(batch.id.to_string()), what })
}

impl Batches for MemoryStore {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        Ok(self.tables().batches.get(id).cloned())
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.batches.get(&batch.id);
        let holds = match assumes {
            Assumes::Absent => old.is_none(),
            Assumes::At(revision) => old.is_some_and(|old| old.revision == revision),
        };
        let is_written = holds || old == Some(batch);
        if is_written {
            let until = batch.over_since().map(|at| at.plus_ms(tables.expiry.keeps.retention_ms));
            tables.expiry.keep(Row::Batch(batch.id.clone()), until);
            tables.batches.insert(batch.id.clone(), batch.clone());
        }
        Ok(Stored::when(is_written))
    }

    async fn keep_outputs(
        &self,
        batch: &BatchId,
        part: &OutputPart,
        outputs: &ByPosition,
        now: Timestamp,
    ) -> Result<()> {
        let (mut tables, key) = (self.tables(), part.key(batch));
        let until = now.plus_ms(tables.expiry.keeps.retention_ms + OUTLIVES_MS);
        tables.expiry.keep(Row::Outputs(key.clone()), Some(until));
        tables.outputs.insert(key, outputs.clone());
        Ok(())
    }

    async fn outputs(&self, batch: &BatchId, parts: &[OutputPart]) -> Result<ByPosition> {
        let tables = self.tables();
        let kept = parts.iter().filter_map(|part| tables.outputs.get(&part.key(batch)));
        Ok(kept.flatten().map(|(position, output)| (*position, output.clone())).collect())
    }

    async fn erase_output(&self, batch: &BatchId, part: &OutputPart, position: usize) -> Result<()> {
        if let Some(kept) = self.tables().outputs.get_mut(&part.key(batch)) {
            kept.remove(&position);
        }
        Ok(())
    }

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        let tables = self.tables();
        let of_part = tables.batches.values().filter(|b| b.target.route() == *route && b.part() == look.part);
        Ok(due(of_part.filter_map(|batch| Some((batch.unfinished()?, &batch.id))), look))
    }

    async fn all_unfinished(
        &self,
        segment: Segment,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Entries<Unfinished>> {
        let tables = self.tables();
        Ok(in_segment(tables.batches.values().filter_map(listed), segment, after, limit))
    }
}
