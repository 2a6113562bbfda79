//! How much of batches one look may read. A batch's item is read whole, and one of a thousand members may cost fifty
//! read units.

use crate::domain::Batch;

/// Batches are read until the ids of the members of those before have this many bytes.
const BYTES_OF_IDS: usize = 64 * 1_024;

/// Bytes that are left. The batch that is read last may exceed them.
#[derive(Debug)]
pub(super) struct Allowance(usize);

impl Default for Allowance {
    fn default() -> Self {
        Self(BYTES_OF_IDS)
    }
}

impl Allowance {
    /// Whether another batch may be read.
    pub(super) const fn covers_one(&self) -> bool {
        self.0 > 0
    }

    /// A batch was read.
    pub(super) fn take(&mut self, batch: &Batch) {
        let bytes: usize = batch.members.iter().map(|member| member.id.as_str().len()).sum();
        self.0 = self.0.saturating_sub(bytes);
    }
}
