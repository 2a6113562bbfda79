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

impl MemoryStore {
    /// Keeps a limiter for no longer than one like this, as a write would do that has seen this one.
    pub fn keep_gate_as(&self, scope: &Scope, seen: &Gate, at: Timestamp) {
        self.tables().keep_gate(scope, seen, at);
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

    async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>> {
        let mut tables = self.tables();
        let taken = tables.gates.get(scope).and_then(|gate| gate.with_ticket(flow, behind));
        tables.gates.extend(taken.clone().map(|taken| (scope.clone(), taken)));
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
