//! Gates in memory.

use super::MemoryStore;
use crate::domain::gate::{Gate, Scope};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;
use crate::ports::{Gates, Result, Stored};

impl Gates for MemoryStore {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        Ok(self.tables().gates.get(scope).cloned().unwrap_or_default())
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, _: Timestamp) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.gates.get(scope).cloned().unwrap_or_default();
        let is_written = old.revision.next() == gate.revision || old == *gate;
        if is_written {
            tables.gates.insert(scope.clone(), gate.clone());
        }
        Ok(Stored::when(is_written))
    }

    async fn take_ticket(
        &self,
        scope: &Scope,
        seen: &Gate,
        stretch: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<Gate>> {
        let mut tables = self.tables();
        let gate = tables.gates.get(scope).filter(|gate| gate.line.gap_ms == seen.line.gap_ms);
        let taken = gate.and_then(|gate| gate.with_ticket(stretch, now));
        if let Some(taken) = &taken {
            tables.gates.insert(scope.clone(), taken.clone());
        }
        Ok(taken)
    }

    async fn give_back(
        &self,
        scope: &Scope,
        batch: &BatchId,
        lease: Timestamp,
        ended: Option<Timestamp>,
    ) -> Result<Stored> {
        let mut tables = self.tables();
        let left = tables.gates.get(scope).and_then(|gate| gate.given_back(batch, lease, ended));
        let is_written = left.is_some();
        tables.gates.extend(left.map(|left| (scope.clone(), left)));
        Ok(Stored::when(is_written))
    }
}
