//! What a process remembers of partitions that throttled it, from one event to the next.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::heat::Heat;
use crate::domain::id::Target;
use crate::domain::ration::Ration;
use crate::domain::shards::Shards;
use crate::domain::time::Timestamp;

/// The [rations](Ration) of a process, by shard, and how [hot](Heat) Targets are. A shard without a ration is put as it
/// comes.
#[derive(Debug, Default)]
pub struct Rations {
    rations: Mutex<HashMap<Target, Ration>>,
    heats: Mutex<HashMap<Target, Heat>>,
}

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

    /// Over how many shards tasks of this Target are spread now.
    pub(super) fn spread(&self, target: &Target, shards: Shards, now: Timestamp) -> u8 {
        match shards {
            Shards::Fixed(count) => count,
            Shards::ByLoad => self.heats().get(&target.whole()).map_or(1, |heat| heat.shards(now)),
        }
    }

    /// Notes that a shard of this Target has refused a put. Over how many tasks are spread now.
    pub(super) fn refused(&self, target: &Target, shards: Shards, now: Timestamp) -> u8 {
        self.heat(target, shards, now, |before| Heat::refused(before, now))
    }

    /// Notes that tasks of this Target have yielded so often in a row, at other processes.
    pub(super) fn heard(&self, target: &Target, shards: Shards, times: u8, now: Timestamp) {
        self.heat(target, shards, now, |before| Heat::heard(before, times, now));
    }

    fn heat(&self, target: &Target, shards: Shards, now: Timestamp, next: impl FnOnce(Option<Heat>) -> Heat) -> u8 {
        match shards {
            Shards::Fixed(count) => count,
            Shards::ByLoad => {
                let mut heats = self.heats();
                if heats.len() >= MANY {
                    heats.retain(|_, heat| !heat.is_over(now));
                }
                let next = next(heats.get(&target.whole()).copied());
                heats.insert(target.whole(), next);
                next.shards(now)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Ration>> {
        self.rations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heats(&self) -> MutexGuard<'_, HashMap<Target, Heat>> {
        self.heats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
