//! Gates in memory.

use super::expiry::Row;
use super::{MemoryStore, Tables};
use crate::domain::gate::{Gate, Scope};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;
use crate::ports::{Gates, Result, Stored};

impl Tables {
    fn keep_gate(&mut self, scope: &Scope, gate: &Gate, now: Timestamp) {
        let until = gate.lasts_until(now).plus_ms(self.expiry.keeps.idle_ms);
        self.expiry.keep(Row::Gate(scope.clone()), Some(until));
    }
}

impl Gates for MemoryStore {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        Ok(self.tables().gates.get(scope).cloned().unwrap_or_default())
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.gates.get(scope).cloned().unwrap_or_default();
        let is_written = old.revision.next() == gate.revision || old == *gate;
        if is_written {
            tables.keep_gate(scope, gate, now);
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
            let enough = seen.lasts_until(now).plus_ms(tables.expiry.keeps.idle_ms / 2);
            if tables.expiry.of(&Row::Gate(scope.clone())).is_none_or(|until| until < enough) {
                let kept = gate.cloned().unwrap_or_default();
                tables.keep_gate(scope, &kept, now);
                return Ok(None);
            }
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
