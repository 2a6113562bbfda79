//! Batches in memory.

use super::MemoryStore;
use super::due::due;
use super::expiry::Row;
use crate::domain::batch::{Assumes, Batch};
use crate::domain::id::{BatchId, RouteName};
use crate::ports::{Batches, Entries, Look, Result, Stored};

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

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        let tables = self.tables();
        let of_part = tables.batches.values().filter(|b| b.target.route() == *route && b.part() == look.part);
        Ok(due(of_part.filter_map(|batch| Some((batch.unfinished()?, &batch.id))), look))
    }
}
