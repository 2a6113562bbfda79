//! What is due, in memory.

use crate::domain::time::Timestamp;

/// The ids of up to `limit` entries that are due before `before`, those that have been so for longest first.
pub(super) fn due<'a, Id: Ord + Clone + 'a>(
    entries: impl Iterator<Item = (Timestamp, &'a Id)>,
    before: Timestamp,
    limit: usize,
) -> Vec<Id> {
    let mut due: Vec<_> = entries.filter(|(due, _)| *due < before).collect();
    due.sort();
    due.into_iter().take(limit).map(|(_, id)| id.clone()).collect()
}
