//! The gates before calls.

use std::future::Future;

use super::{Result, Stored};
use crate::domain::gate::{Gate, Scope};
use crate::domain::time::Timestamp;

/// The gates before calls.
pub trait Gates: Sync {
    /// Reads a gate as it is now.
    fn gate(&self, scope: &Scope) -> impl Future<Output = Result<Gate>> + Send;

    /// Writes a gate. Assumes: it is at the revision before that of `gate`.
    fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> impl Future<Output = Result<Stored>> + Send;
}
