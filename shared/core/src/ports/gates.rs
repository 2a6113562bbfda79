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

        /// Hands out the next ticket of a line, whatever was written since the gate was `seen`: the gate with it, or
        /// `None`. Where Targets share the line it is the next one of this stretch. Assumes: the line has the same gap
        /// and is busy, and the stretch is the last of its Target, so that there is nothing to decide. A repeat takes
        /// another one.
        ///
        /// It never lets the gate expire earlier, since a person may have paused it meanwhile. A gate that would expire
        /// too early for its line is first kept for longer: that hands out no ticket, and is `None`, too.
        async fn take_ticket(
            &self,
            scope: &Scope,
            seen: &Gate,
            stretch: Option<u64>,
            now: Timestamp,
        ) -> Result<Option<Gate>>;

        /// Takes away the place that a batch has until `lease` or earlier, whatever was written since the gate was
        /// read. A later lease is another worker's: then, and if there is none, nothing is written. If its call has
        /// `ended` then, the gate learns how much of its lease it had left.
        async fn give_back(
            &self,
            scope: &Scope,
            batch: &BatchId,
            lease: Timestamp,
            ended: Option<Timestamp>,
        ) -> Result<Stored>;
    }
}
