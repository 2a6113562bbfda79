//! sweep: finds what lost its message, by schedule, and sends it on.
//!
//! It reads a bounded part of the tables each time, by their indexes, and derives every message from what they say, as
//! if the lost one were delivered again: where it was not lost after all, the repeat changes nothing. What it finds:
//!
//! | found | by | sent on |
//! |---|---|---|
//! | a session that is over | its pool | its claims to the batch-handler; then the session is ended |
//! | a batch that nobody fills or freezes | index of unfinished batches | to be finished |
//! | a batch that sleeps though its limit or breaker lets it through | the same | its message, sooner; see [`wake`](super::wake) |
//! | a frozen or paused batch that nobody calls | the same | its message anew; the old one is superseded |
//! | a claim whose session is gone | the same | to be taken over |
//! | an outcome whose follow-up is not done | the same | to be followed up |
//! | members that did not return | the same | their way back |
//! | tasks that have waited for long, with no leader alive | index of waiting tasks | an election |
//! | tasks that were cancelled, and of which somebody may not have heard | index of waiting tasks | see [`cancel`](super::cancel) |
//! | scheduled tasks whose time has come | index of what is due | an election |
//! | trackers that are due: complete, overdue, abandoned, not told of, forgotten | index of trackers | see [`track`] |
//! | releases and discards of lists that somebody left; idle lists | index of lists | see [`list`] |
//! | watermarks that nobody committed; streams that are over | index of streams | see [`stream`](super::stream) |
//!
//! It goes on where the sweep before it stopped, so that what cannot move starves nothing behind it (module `shelf`),
//! and looks through all indexes at once, so that none waits for another.
//!
//! Before a batch's message is sent the batch says so (a *nudge*): an earlier message is superseded, and the batch is
//! left alone for longer each time. What cannot be read or sent on is told at the end; it keeps nobody else waiting.
//!
//! A lock whose leader died needs no look of its own: its open batch is among the unfinished, its tasks among the
//! waiting, and the next leader takes it over.

mod due;
mod scan;
mod shelf;
mod waiting;
mod waking;

use std::sync::{Mutex, PoisonError};

use derive_more::AddAssign;
use futures::join;

use super::Error;
use super::heartbeat::lives_until;
use super::list::{self, Listing};
use super::stream::Streaming;
use super::track::{self, Lifetimes, Tracking};
use crate::domain::batch::{Assumes, Batch, FollowUp, Status};
use crate::domain::copies::Copies;
use crate::domain::id::{BatchId, Part};
use crate::domain::message::{Finish, Group, Handle};
use crate::domain::session::{Holder, Session};
use crate::domain::shelf::{Bookmark, Position, Shelf};
use crate::domain::time::Timestamp;
use crate::ports::{Ended, Env, Look, Outbox, Outgoing, Store, Stored, Unfinished, send_all};
use crate::routes::{Route, Routes};
use shelf::Tally;
use waking::Asleep;

/// What one sweep sent on.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions that were over and are ended now.
    pub sessions: usize,
    /// Batches sent to be finished.
    pub finishes: usize,
    /// Batches sent to the batch-handler: to be called, taken over or followed up.
    pub batches: usize,
    /// Waiting tasks that got an election.
    pub tasks: usize,
    /// Scheduled tasks that wait for a batch from now on.
    pub due: usize,
    /// Waiting tasks that no route wants any more; they stay as they are.
    pub stranded: usize,
    /// What became of trackers.
    pub trackers: track::Report,
    /// What became of lists.
    pub lists: list::Report,
    /// What became of streams.
    pub streams: super::stream::Report,
    /// For how long the oldest of the tasks that it came to has waited for a batch, from `waiting::WAITED_MS` on. A
    /// stranded task does not count, nor one that waits on a list, for its turn, or for its time.
    pub oldest_waiting: Longest,
    /// For how long some entry of an index was not visited.
    pub oldest_unvisited: Longest,
}

/// A time in milliseconds. Of several, the longest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Longest {
    /// The time.
    pub ms: u64,
}

impl std::ops::AddAssign for Longest {
    fn add_assign(&mut self, other: Self) {
        *self = other.max(*self);
    }
}

/// How much one sweep does at most; the next goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many segments sessions, unfinished batches and waiting tasks are scanned in. A Target's waiting tasks lie in
    /// one of them.
    pub segments: u8,
    /// Pages of each such scan; each segment has one at least.
    pub pages: usize,
    /// Sessions of a page.
    pub sessions: usize,
    /// Unfinished batches of a page.
    pub batches: usize,
    /// Waiting tasks of a page.
    pub page: usize,
    /// Trackers of one part.
    pub trackers: usize,
    /// Lists of one part.
    pub lists: usize,
    /// Streams of one part.
    pub streams: usize,
    /// After so long it visits nothing more, in milliseconds: less than the time between two sweeps.
    pub time_ms: u64,
}

impl Default for Budget {
    fn default() -> Self {
        let (sessions, batches, page) = (1_000, 5_000, 5_000);
        let (trackers, lists, streams) = (100, 100, 100);
        Self { segments: 16, pages: 400, sessions, batches, page, trackers, lists, streams, time_ms: 45_000 }
    }
}

impl Budget {
    /// The budget of sweeps that come so often. Only an embedded database is swept more than once a minute, and it
    /// reads the whole index for each segment.
    #[must_use]
    pub fn every(every_ms: u64) -> Self {
        let all = Self::default();
        if every_ms < 60_000 { Self { segments: 1, ..all } } else { all }
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

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Looks through everything once. Says what it sent on, and the first thing that went wrong: everything else was
    /// looked at all the same, and the next sweep finds what was missed.
    pub async fn run(&self) -> (Report, Result<(), Error>) {
        let until = self.env.now().plus_ms(self.budget.time_ms);
        let (sessions, tasks, due, batches, trackers, lists, streams) = join!(
            self.sessions(until),
            self.tasks(until),
            self.due(until),
            self.batches(until),
            self.trackers(until),
            self.lists(until),
            self.streams(until),
        );
        let mut all = Tally::default();
        for tally in [sessions, tasks, due, batches, trackers, lists, streams] {
            all.add(tally);
        }
        (all.report, all.failed.map_or(Ok(()), Err))
    }

    async fn sessions(&self, until: Timestamp) -> Tally {
        let read = |segment, after: Option<Position>| async move {
            self.store.all_sessions(segment, after.as_ref(), self.budget.sessions).await
        };
        let is_wanted = |session: &Session| {
            let of_route = session.id.pool().route();
            of_route.is_none_or(|route| self.routes.get(&route).is_some_and(Route::is_pulled))
        };
        self.scan(Shelf::Sessions, until, read, is_wanted, |session| self.look_at_session(session)).await
    }

    async fn look_at_session(&self, session: Session) -> Result<Report, Error> {
        match Holder::of(Some(&session), self.env.now()) {
            Holder::Expired(_) => self.free(&session).await,
            Holder::Lives(_) | Holder::Gone => Ok(Report::default()),
        }
    }

    /// Sends the claims of a session that is over on, and then ends it: who dies in between is followed by the next
    /// sweep. The handler ends it as well, if it comes first.
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

    async fn batches(&self, until: Timestamp) -> Tally {
        let now = self.env.now();
        let asleep = &Mutex::new(Asleep::default());
        let read = |segment, after: Option<Position>| async move {
            let page = self.store.all_unfinished(segment, after.as_ref(), self.budget.batches).await?;
            page.found
                .iter()
                .for_each(|entry| asleep.lock().unwrap_or_else(PoisonError::into_inner).add(&entry.what, now));
            Ok(page)
        };
        // A batch that wants to be pulled is its workers' affair, unless its route has none any more.
        let is_wanted = |entry: &Unfinished| {
            let is_ours = |route: &Route| !(entry.is_pulled && route.is_pulled());
            entry.due < now && self.routes.get(&entry.route).is_some_and(is_ours)
        };
        let look_at = |entry: Unfinished| async move { self.look_at(&entry.id, now).await };
        let mut tally = self.scan(Shelf::Batches, until, read, is_wanted, look_at).await;
        let asleep = std::mem::take(&mut *asleep.lock().unwrap_or_else(PoisonError::into_inner));
        tally.add(self.wake(asleep, until).await);
        tally
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
                let (id, target) = (batch.id.clone(), batch.target.clone());
                let finish = Finish { batch: id, target, copies: Copies::NONE };
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

    async fn trackers(&self, until: Timestamp) -> Tally {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let look_after = |id| async move {
            let trackers = Tracking { store, outbox, env }.look_after(&id, lifetimes).await?;
            Ok(Report { trackers, ..Report::default() })
        };
        let look = |part: Part, bookmark: Bookmark| async move {
            let look = Look::at(part, env.now(), self.budget.trackers).behind(bookmark.after.as_ref());
            let found = store.due_trackers(look).await;
            self.visit(found, bookmark, until, look_after).await
        };
        let parts = Part::all().map(|part| (part.tracker_key(), part));
        self.look_through(&Shelf::Trackers, parts, until, look).await
    }

    async fn lists(&self, until: Timestamp) -> Tally {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let look_after = |id| async move {
            let lists = Listing { store, outbox, env }.look_after(&id, lifetimes.retention_ms).await?;
            Ok(Report { lists, ..Report::default() })
        };
        let look = |part: Part, bookmark: Bookmark| async move {
            let look = Look::at(part, env.now(), self.budget.lists).behind(bookmark.after.as_ref());
            let found = store.due_lists(look).await;
            self.visit(found, bookmark, until, look_after).await
        };
        let parts = Part::all().map(|part| (part.list_key(), part));
        self.look_through(&Shelf::Lists, parts, until, look).await
    }

    async fn streams(&self, until: Timestamp) -> Tally {
        let Self { store, outbox, env, lifetimes, .. } = *self;
        let look_after = |id| async move {
            let streams = Streaming { store, outbox, env }.look_after(&id, lifetimes.retention_ms).await?;
            Ok(Report { streams, ..Report::default() })
        };
        let look = |part: Part, bookmark: Bookmark| async move {
            let look = Look::at(part, env.now(), self.budget.streams).behind(bookmark.after.as_ref());
            let found = store.due_streams(look).await;
            self.visit(found, bookmark, until, look_after).await
        };
        let parts = Part::all().map(|part| (part.stream_key(), part));
        self.look_through(&Shelf::Streams, parts, until, look).await
    }
}

#[cfg(test)]
mod tests;
