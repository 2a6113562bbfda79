//! The gates before calls.

use super::declare::port;
use super::{Result, Stored};
use crate::domain::gate::{Gate, Scope};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;

port! {
    /// The gates before calls.
    pub trait Gates {
        /// Reads a gate as it is now.
        async fn gate(&self, scope: &Scope) -> Result<Gate>;

        /// Writes a gate. Assumes: it is at the revision before that of `gate`.
        async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored>;

        /// Hands out the next ticket of a flow that waits, this far behind its last one, whatever was written since the
        /// gate was read: the gate with it, or `None` if that flow does not wait any more. A repeat takes another one.
        /// It never changes when the gate expires, since a person may have paused it meanwhile.
        async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>>;

        /// Gives back the permit that a batch has until `lease` or earlier, whatever was written since the gate was
        /// read. A later lease is another worker's: then, and if there is none, nothing is written. If its call has
        /// `ended` then, the gate learns how much of its lease it had left, and keeps the permit for the first that
        /// wait.
        async fn give_back(
            &self,
            scope: &Scope,
            batch: &BatchId,
            lease: Timestamp,
            ended: Option<Timestamp>,
        ) -> Result<Stored>;
    }
}
