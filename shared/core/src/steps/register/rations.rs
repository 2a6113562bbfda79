//! What a process remembers of partitions that throttled it, from one event to the next.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::id::Target;
use crate::domain::ration::Ration;
use crate::domain::time::Timestamp;

/// The [rations](Ration) of a process, by shard. A shard without a ration is put as it comes.
#[derive(Debug, Default)]
pub struct Rations(Mutex<HashMap<Target, Ration>>);

/// From this number on, those that are over are looked for and forgotten.
const MANY: usize = 1_000;

impl Rations {
    /// Takes one put of this Target, if it may be made now.
    pub(super) fn take(&self, target: &Target, now: Timestamp) -> bool {
        let mut rations = self.lock();
        let Some(ration) = rations.get_mut(target) else { return true };
        if ration.is_over(now) {
            rations.remove(target);
            return true;
        }
        let taken = ration.take(now);
        taken.is_some_and(|left| {
            *ration = left;
            true
        })
    }

    /// Notes that tasks of this Target have come back so often in a row, since others were throttled.
    pub(super) fn expect(&self, target: &Target, times: u8, now: Timestamp) {
        let mut rations = self.lock();
        // Also if that is over: the process has met no refusal since, and offered twice its limit a Target gets more.
        if rations.contains_key(target) {
            return;
        }
        if rations.len() >= MANY {
            rations.retain(|_, ration| !ration.is_over(now));
        }
        rations.insert(target.clone(), Ration::expected(times, now));
    }

    /// Notes that a put of this Target was throttled. Whether that is news.
    pub(super) fn throttled(&self, target: &Target, now: Timestamp) -> bool {
        let mut rations = self.lock();
        let before = rations.get(target).copied();
        if before.is_some_and(|before| before.is_quiet(now)) {
            return false;
        }
        rations.retain(|_, ration| !ration.is_over(now));
        rations.insert(target.clone(), Ration::refused(before, now));
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Ration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
