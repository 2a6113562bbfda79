//! Gates in memory.

use super::MemoryStore;
use crate::domain::gate::{Gate, Scope};
use crate::domain::time::Timestamp;
use crate::ports::{Gates, Result, Stored};

impl Gates for MemoryStore {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        Ok(self.tables().gates.get(scope).cloned().unwrap_or_default())
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, _: Timestamp) -> Result<Stored> {
        let mut tables = self.tables();
        let old = tables.gates.get(scope).cloned().unwrap_or_default();
        if old.revision.next() == gate.revision {
            tables.gates.insert(scope.clone(), gate.clone());
            Ok(Stored::Yes)
        } else if old == *gate {
            Ok(Stored::Yes)
        } else {
            Ok(Stored::Conflict)
        }
    }
}
