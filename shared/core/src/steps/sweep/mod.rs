//! sweep: finds what lost its message, by schedule, and sends it on.
//!
//! It reads a bounded part of the tables each time, by their indexes, and derives every message from what they say, as if
//! the lost one were delivered again: where it was not lost after all, the repeat changes nothing. What it finds:
//!
//! | found | by | sent on |
//! |---|---|---|
//! | a session that is over | its pool | its claims to the batch-handler; then the session is ended |
//! | a batch that nobody fills or freezes | index of unfinished batches | to be finished |
//! | a frozen or paused batch that nobody calls | the same | its message anew; the old one is superseded |
//! | a claim whose session is gone | the same | to be taken over |
//! | an outcome whose follow-up is not done | the same | to be followed up |
//! | members that did not return | the same | their way back |
//! | tasks that have waited for long, with no leader alive | index of waiting tasks | an election |
//! | trackers that are due: complete, overdue, abandoned, not told of, forgotten | index of trackers | see [`track`] |
//! | releases and discards of lists that somebody left; idle lists | index of lists | see [`list`] |
//! | watermarks that nobody committed; streams that are over | index of streams | see [`stream`](super::stream) |
//!
//! Before a batch's message is sent the batch says so (a *nudge*): an earlier message is superseded, and the batch is left
//! alone for longer each time. What cannot be read or sent on is told at the end; it keeps nobody else waiting.
//!
//! A lock whose leader died needs no look of its own: its open batch is among the unfinished, its tasks among the
//! waiting, and whoever is elected next takes it over.

mod waiting;

use futures::{StreamExt, stream};

use super::Error;
use super::keeper::lives_until;
use super::list::{self, Listing};
use super::shape::counts;
use super::stream::Streaming;
use super::track::{self, Lifetimes, Tracking};
use crate::domain::batch::{Assumes, Batch, FollowUp, Status};
use crate::domain::id::{BatchId, Part, Pool};
use crate::domain::message::{Finish, Group, Handle};
use crate::domain::session::{Holder, Session};
use crate::domain::time::Timestamp;
use crate::ports::{self, Ended, Env, Outbox, Outgoing, Store, Stored, send_all};
use crate::routes::{Route, Routes};

counts! {
    /// What one sweep sent on.
    pub struct Report {
        /// Sessions that were over and are ended now.
        pub sessions: usize,
        /// Batches sent to be finished.
        pub finishes: usize,
        /// Batches sent to the batch-handler: to be called, taken over or followed up.
        pub batches: usize,
        /// Waiting tasks that got an election.
        pub tasks: usize,
        /// Waiting tasks that no route wants any more; they stay as they are.
        pub stranded: usize,
        /// What became of trackers.
        pub trackers: track::Report,
        /// What became of lists.
        pub lists: list::Report,
        /// What became of streams.
        pub streams: super::stream::Report,
    }
}

/// What has come of a sweep so far, and the first thing that went wrong.
struct Tally {
    report: Report,
    failed: Result<(), Error>,
}

impl Tally {
    fn count(&mut self, swept: Result<Report, Error>) {
        match swept {
            Ok(swept) => self.report += swept,
            Err(error) if self.failed.is_ok() => self.failed = Err(error),
            Err(_) => {}
        }
    }

    /// Counts what came of looks through parts, some at once.
    async fn count_all(&mut self, looks: impl IntoIterator<Item = impl Future<Output = Vec<Result<Report, Error>>>>) {
        let mut swept = stream::iter(looks).buffer_unordered(PARTS_AT_ONCE);
        while let Some(of_part) = swept.next().await {
            of_part.into_iter().for_each(|swept| self.count(swept));
        }
    }
}

/// Looks after all that were found, one after the other: one that cannot be looked after keeps no other from it.
async fn each<Id, F: Future<Output = Result<Report, Error>>>(
    found: ports::Result<Vec<Id>>,
    look_after: impl FnMut(Id) -> F,
) -> Vec<Result<Report, Error>> {
    match found {
        Ok(ids) => stream::iter(ids).then(look_after).collect().await,
        Err(error) => vec![Err(error.into())],
    }
}

/// How much one sweep reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Sessions of one pool.
    pub sessions: usize,
    /// Unfinished batches of one part of a route.
    pub batches: usize,
    /// Pages of the index of waiting tasks; each segment has one at least.
    pub pages: usize,
    /// Trackers of one part.
    pub trackers: usize,
    /// Lists of one part.
    pub lists: usize,
    /// Streams of one part.
    pub streams: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { sessions: 500, batches: 100, pages: 20, trackers: 100, lists: 100, streams: 100 }
    }
}

/// sweep, over its ports.
#[derive(Debug)]
pub struct Sweep<'a, S, Q, E> {
    /// All tables.
    pub store: &'a S,
    /// Where messages go.
    pub outbox: &'a Q,
    /// Time and ids.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// How much is read.
    pub budget: Budget,
    /// The time between two sweeps, in milliseconds.
    pub every_ms: u64,
    /// How long trackers live.
    pub lifetimes: Lifetimes,
}

/// How many parts are looked through at once.
const PARTS_AT_ONCE: usize = 8;

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Looks through everything once. Says what it sent on, and the first thing that went wrong: everything else was looked
    /// at all the same, and the next sweep finds what was missed.
    pub async fn run(&self) -> (Report, Result<(), Error>) {
        let mut tally = Tally { report: Report::default(), failed: Ok(()) };
        let pulled = self.routes.iter().filter(|route| route.is_pulled()).map(|route| Pool::of_route(&route.name));
        for pool in Pool::of_handlers().chain(pulled) {
            tally.count(self.sessions(&pool).await);
        }
        tally.count(self.tasks().await);
        // A batch that wants to be pulled is its workers' affair, unless its route has none any more.
        let shelves = self.routes.iter().flat_map(|route| {
            let left_over = Part::all().map(Part::pulled).filter(|_| !route.is_pulled());
            Part::all().chain(left_over).map(move |part| (route, part))
        });
        tally.count_all(shelves.map(|(route, part)| self.batches(route, part)).collect::<Vec<_>>()).await;
        tally.count_all(Part::all().map(|part| self.trackers(part)).collect::<Vec<_>>()).await;
        tally.count_all(Part::all().map(|part| self.lists(part)).collect::<Vec<_>>()).await;
        tally.count_all(Part::all().map(|part| self.streams(part)).collect::<Vec<_>>()).await;
        (tally.report, tally.failed)
    }

    async fn sessions(&self, pool: &Pool) -> Result<Report, Error> {
        let (mut report, mut failed) = (Report::default(), Ok(()));
        for session in self.store.sessions(pool, self.budget.sessions).await? {
            if let Holder::Expired(_) = Holder::of(Some(&session), self.env.now()) {
                match self.free(&session).await {
                    Ok(freed) => report += freed,
                    Err(error) => failed = failed.and(Err(error)),
                }
            }
        }
        failed.map(|()| report)
    }

    /// Sends the claims of a session that is over on, and then ends it: who dies in between is followed by the next
    /// sweep. The handler ends it as well; whoever comes first.
    async fn free(&self, session: &Session) -> Result<Report, Error> {
        let mut report = Report::default();
        for claim in &session.claims {
            // It may have died before it made the claim, or after it recorded the outcome.
            if let Some(batch) = self.store.batch(claim).await?
                && batch.claimed_by().is_none_or(|by| *by == session.id)
                && batch.unfinished().is_some()
                && !(self.routes.is_pulled(&batch.target) && batch.is_callable())
            {
                report += self.send_on(batch).await?;
            }
        }
        let ended = self.store.end_session(&session.id, session.beat).await?;
        report.sessions += usize::from(ended == Ended::Yes);
        Ok(report)
    }

    async fn batches(&self, route: &Route, part: Part) -> Vec<Result<Report, Error>> {
        let now = self.env.now();
        let found = self.store.unfinished(&route.name, part, now, self.budget.batches).await;
        each(found, |id| async move { self.look_at(&id, now).await }).await
    }

    async fn look_at(&self, id: &BatchId, now: Timestamp) -> Result<Report, Error> {
        // The index lags behind: the batch decides.
        match self.store.batch(id).await? {
            Some(batch) if batch.unfinished().is_some_and(|due| due < now) => self.send_on(batch).await,
            Some(_) | None => Ok(Report::default()),
        }
    }

    async fn send_on(&self, batch: Batch) -> Result<Report, Error> {
        let pulled = self.routes.is_pulled(&batch.target);
        let mut nudged = batch.nudged(self.env.now());
        let mut report = Report::default();
        let message = match &batch.status {
            Status::Open { .. } | Status::Closing => {
                report.finishes += 1;
                let finish = Finish { batch: batch.id.clone(), target: batch.target.clone() };
                Some(Outgoing::group(&Group::Finish(finish), 0))
            }
            Status::Frozen | Status::Paused { .. } | Status::InProgress { .. } if pulled => {
                // Its route was not pulled when it was frozen: from now on its workers find it.
                nudged = nudged.pulled_from(self.env.now());
                None
            }
            Status::Frozen
            | Status::Paused { .. }
            | Status::Settled { follow_up: FollowUp::Pending | FollowUp::Returning, .. } => {
                report.batches += 1;
                Some(Outgoing::handle(&Handle::about(&nudged), 0))
            }
            Status::InProgress { claim } => {
                if lives_until(self.store, self.env, &claim.session).await?.is_some() {
                    return Ok(report);
                }
                report.batches += 1;
                Some(Outgoing::handle(&Handle::about(&nudged), 0))
            }
            Status::Settled { follow_up: FollowUp::Done, .. } | Status::Empty | Status::Void => return Ok(report),
        };
        if self.store.store(&nudged, Assumes::At(batch.revision)).await? == Stored::Conflict {
            // Somebody is at work on it.
            return Ok(Report::default());
        }
        send_all(self.outbox, message.into_iter().collect()).await?;
        Ok(report)
    }

    async fn trackers(&self, part: Part) -> Vec<Result<Report, Error>> {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let found = store.due_trackers(part, env.now(), self.budget.trackers).await;
        let look_after = |id| async move {
            let trackers = Tracking { store, outbox, env }.look_after(&id, lifetimes).await?;
            Ok(Report { trackers, ..Report::default() })
        };
        each(found, look_after).await
    }

    async fn lists(&self, part: Part) -> Vec<Result<Report, Error>> {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let found = store.due_lists(part, env.now(), self.budget.lists).await;
        let look_after = |id| async move {
            let lists = Listing { store, outbox, env }.look_after(&id, lifetimes.retention_ms).await?;
            Ok(Report { lists, ..Report::default() })
        };
        each(found, look_after).await
    }

    async fn streams(&self, part: Part) -> Vec<Result<Report, Error>> {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let found = store.due_streams(part, env.now(), self.budget.streams).await;
        let look_after = |id| async move {
            let streams = Streaming { store, outbox, env }.look_after(&id, lifetimes.retention_ms).await?;
            Ok(Report { streams, ..Report::default() })
        };
        each(found, look_after).await
    }
}
