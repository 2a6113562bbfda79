//! Tasks that have waited for long, and the elections that are asked for them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, stream};

use super::scan::{Pages, segments};
use super::shelf::{Looked, Tally};
use super::{Longest, Report, Sweep};
use crate::domain::id::Target;
use crate::domain::message::MAX_TASKS;
use crate::domain::shelf::{Bookmark, Shelf};
use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Look, Outbox, Segment, Store, Waiting, WaitingPage, send_all};
use crate::steps::cancel::Cancelling;
use crate::steps::election_messages::{election_messages, elections, within_reach};
use crate::steps::{CONCURRENCY, Error};

/// A task that has waited for longer than this is looked into, in milliseconds: longer than any leader takes to come to
/// it, unless its Target has more tasks than it gets through.
pub const WAITED_MS: u64 = 60_000;

/// What the segments of one scan have in common.
struct Scan {
    /// When it began.
    now: Timestamp,
    /// When it ends.
    until: Timestamp,
    pages: Pages,
    /// The Targets that it has looked into.
    seen: Mutex<HashSet<Target>>,
}

impl Scan {
    fn is_new(&self, target: &Target) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(target.clone())
    }
}

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    pub(super) async fn tasks(&self, until: Timestamp) -> Tally {
        let scan = &Scan { now: self.env.now(), until, pages: Pages::of(self.budget), seen: Mutex::default() };
        let look = |segment, bookmark| self.waiting_in(scan, segment, bookmark);
        self.look_through(&Shelf::Waiting, segments(self.budget.segments), until, look).await
    }

    /// Goes on in one segment, page by page.
    async fn waiting_in(&self, scan: &Scan, segment: Segment, mut bookmark: Bookmark) -> Looked {
        let since = Timestamp(scan.now.0.saturating_sub(WAITED_MS));
        let unvisited_ms = bookmark.unvisited_ms(scan.now);
        let mut results = Vec::new();
        loop {
            let look = Look::at(segment, since, self.budget.page).behind(bookmark.after.as_ref());
            let page = self.store.waiting_long(look).await;
            let WaitingPage { tasks, ended, next } = match page {
                Ok(page) => page,
                Err(error) => return Looked::failed(results, bookmark, error),
            };
            results.extend(self.elect(scan, tasks, unvisited_ms).await);
            results.extend(self.tell_of(ended).await);
            match next {
                None => return Looked { results, bookmark: bookmark.ended() },
                Some(next) => bookmark = bookmark.moved_to(next),
            }
            if self.env.now() >= scan.until || !scan.pages.take_another() {
                return Looked { results, bookmark };
            }
        }
    }

    /// Asks for a leader wherever none is alive.
    async fn elect(&self, scan: &Scan, tasks: Vec<Waiting>, unvisited_ms: u64) -> Vec<Result<Report, Error>> {
        let mut waiting: BTreeMap<Target, Waiters> = BTreeMap::new();
        let mut stranded = 0;
        for Waiting { target, candidate, since } in tasks {
            if self.routes.get(&target.route()).is_none() {
                stranded += 1;
                continue;
            }
            let waiters = waiting.entry(target).or_insert(Waiters { oldest: since, tasks: Vec::new() });
            waiters.oldest = waiters.oldest.min(since);
            // More would be the leader's to find.
            if waiters.tasks.len() < MAX_TASKS {
                waiters.tasks.push(candidate);
            }
        }
        let oldest_waiting = waiting.values().map(|waiters| Longest { ms: scan.now.since(waiters.oldest) }).max();
        // Those of earlier pages have their election, or were not to have one.
        waiting.retain(|target, waiters| scan.is_new(target) && is_time(scan.now.since(waiters.oldest), unvisited_ms));
        let oldest_waiting = oldest_waiting.unwrap_or_default();
        let mut results = vec![Ok(Report { stranded, oldest_waiting, ..Report::default() })];
        let elected = stream::iter(waiting).map(|(target, waiters)| self.elect_one(target, waiters));
        results.extend(elected.buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await);
        results
    }

    /// Makes up for processes that ended tasks that waited, and died before all had heard of it.
    async fn tell_of(&self, ended: Vec<Waiting>) -> Vec<Result<Report, Error>> {
        let Self { store, outbox, env, .. } = *self;
        let telling = ended.into_iter().map(|entry| async move {
            Cancelling { store, outbox, env }.tell_again(self.routes, entry).await.map(|()| Report::default())
        });
        stream::iter(telling.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect().await
    }

    async fn elect_one(&self, target: Target, Waiters { oldest, tasks }: Waiters) -> Result<Report, Error> {
        let shards = self.routes.get(&target.route()).map_or(1, |route| route.shards);
        let leads_it = |lock: &Target| *lock == target || !target.stands_alone(shards);
        for of in within_reach(&target).filter(leads_it) {
            if self.store.lock(&of).await?.is_some_and(|lock| lock.is_led(self.env.now())) {
                return Ok(Report::default());
            }
        }
        // As if these workflows had lost before: they look whether their tasks still wait before they bid.
        send_all(self.outbox, election_messages(elections(self.env, &target, &tasks, oldest, 1))).await?;
        Ok(Report { tasks: tasks.len(), ..Report::default() })
    }
}

/// Tasks of one Target that have waited for long.
struct Waiters {
    oldest: Timestamp,
    tasks: Vec<Candidate>,
}

/// Whether tasks of which the oldest has waited for so long are sent on by a visit, if they were not visited for
/// `unvisited_ms`: when it has waited for [`WAITED_MS`], twice that, four and eight times that, and from then on every
/// sixteen times. Each time adds messages, and while nobody handles them they must not add up.
fn is_time(waited_ms: u64, unvisited_ms: u64) -> bool {
    let doublings = (waited_ms / WAITED_MS).max(1).ilog2();
    waited_ms % (WAITED_MS << doublings.min(4)) < unvisited_ms
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
