//! Tasks that have waited for long, and the elections that are asked for them.

use std::collections::BTreeMap;

use super::{Report, Sweep};
use crate::domain::id::Target;
use crate::domain::message::MAX_TASKS;
use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Outbox, Segment, Store, WaitingPage, send_all};
use crate::steps::Error;
use crate::steps::ballot::{election_messages, elections, within_reach};

/// A task that has waited for longer than this is looked into, in milliseconds: longer than any leader takes to come to
/// it, unless its Target has more tasks than it gets through.
pub const WAITED_MS: u64 = 60_000;
/// The index of waiting tasks is scanned in so many segments, beginning with another each time: one that is too large
/// for a single sweep does not keep the others from being looked at.
const SEGMENTS: u8 = 16;
/// Entries of one page.
const PAGE: usize = 5_000;

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    pub(super) async fn tasks(&self) -> Result<Report, Error> {
        let now = self.env.now();
        let since = Timestamp(now.0.saturating_sub(WAITED_MS));
        let first = u8::try_from(now.0 / self.every_ms.max(1) % u64::from(SEGMENTS)).unwrap_or_default();
        let mut waiting: BTreeMap<Target, Waiters> = BTreeMap::new();
        let mut pages_left = self.budget.pages.saturating_sub(usize::from(SEGMENTS));
        for index in (first..SEGMENTS).chain(0..first) {
            let segment = Segment { index, of: SEGMENTS };
            let mut after = None;
            loop {
                let WaitingPage { tasks, next } = self.store.waiting_long(since, segment, after.as_ref(), PAGE).await?;
                for task in tasks {
                    let waiters = waiting.entry(task.target).or_insert(Waiters { oldest: now, tasks: Vec::new() });
                    waiters.oldest = waiters.oldest.min(task.since);
                    // More would be the leader's to find.
                    if waiters.tasks.len() < MAX_TASKS {
                        waiters.tasks.push(task.candidate);
                    }
                }
                after = next;
                if after.is_none() || pages_left == 0 {
                    break;
                }
                pages_left -= 1;
            }
        }
        self.elect(waiting, now).await
    }

    /// Asks for a leader wherever none is alive.
    async fn elect(&self, waiting: BTreeMap<Target, Waiters>, now: Timestamp) -> Result<Report, Error> {
        let (mut report, mut failed) = (Report::default(), Ok(()));
        for (target, Waiters { oldest, tasks }) in waiting {
            let Some(route) = self.routes.get(&target.route()) else {
                report.stranded += tasks.len();
                continue;
            };
            if is_time(now.since(oldest), self.every_ms) {
                match self.elect_one(&target, route.shards, &tasks, oldest).await {
                    Ok(true) => report.tasks += tasks.len(),
                    Ok(false) => {}
                    Err(error) => failed = failed.and(Err(error)),
                }
            }
        }
        failed.map(|()| report)
    }

    async fn elect_one(
        &self,
        target: &Target,
        shards: u8,
        tasks: &[Candidate],
        oldest: Timestamp,
    ) -> Result<bool, Error> {
        let leads_it = |lock: &Target| lock == target || !target.stands_alone(shards);
        for lock in within_reach(target).filter(leads_it) {
            if self.store.lock(&lock).await?.is_some_and(|lock| lock.is_led(self.env.now())) {
                return Ok(false);
            }
        }
        // As if these workflows had lost before: they look whether their tasks still wait before they bid.
        send_all(self.outbox, election_messages(elections(self.env, target, tasks, oldest, 1))).await?;
        Ok(true)
    }
}

/// Tasks of one Target that have waited for long.
struct Waiters {
    oldest: Timestamp,
    tasks: Vec<Candidate>,
}

/// Whether tasks of which the oldest has waited for so long are sent on by this sweep, of all that come `every_ms`: when
/// it has waited for [`WAITED_MS`], twice that, four and eight times that, and from then on every sixteen times. Each
/// time adds messages, and while nobody handles them they must not add up.
fn is_time(waited_ms: u64, every_ms: u64) -> bool {
    let doublings = (waited_ms / WAITED_MS).max(1).ilog2();
    waited_ms % (WAITED_MS << doublings.min(4)) < every_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_asks_for_a_leader_at_growing_intervals_and_misses_none() {
        for every_ms in [1_000, 60_000] {
            let sweeps = (0..12 * 60 * 60 * 1_000 / every_ms).map(|n| n * every_ms + 777);
            let asked = sweeps.filter(|waited_ms| *waited_ms > WAITED_MS && is_time(*waited_ms, every_ms)).count();
            assert_eq!(asked, 4 + 44, "after 1, 2, 4, 8 and then every 16 minutes of 12 hours");
        }
    }
}
