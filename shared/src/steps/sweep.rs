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
//! | tasks that have waited for long, with no leader alive | index of waiting tasks | an election |
//!
//! A lock whose leader died needs no look of its own: its open batch is among the unfinished, its tasks among the
//! waiting, and whoever is elected next takes it over.

use std::collections::BTreeMap;

use super::{Error, register};
use crate::domain::batch::{Assumes, Batch, FollowUp, Status};
use crate::domain::id::{Part, Pool, RouteName, Target};
use crate::domain::message::{Finish, Group, Handle, MAX_TASKS};
use crate::domain::session::{Holder, Session};
use crate::domain::task::Candidate;
use crate::ports::{Env, Outbox, Outgoing, Segment, Store, Stored, send_all};
use crate::routes::Routes;

/// What one sweep sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions that were over and are ended now.
    pub sessions: usize,
    /// Batches sent to be finished.
    pub finishes: usize,
    /// Batches sent to the batch-handler: to be called, taken over or followed up.
    pub batches: usize,
    /// Waiting tasks that got an election.
    pub tasks: usize,
    /// Tasks and batches that no route wants any more; they stay as they are.
    pub stranded: usize,
}

/// How much one sweep reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Sessions of one pool.
    pub sessions: usize,
    /// Unfinished batches of one part of a route.
    pub batches: usize,
    /// Pages of the index of waiting tasks.
    pub pages: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { sessions: 500, batches: 100, pages: 20 }
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
}

/// A task that has waited longer than this beyond its route's window is looked into, in milliseconds: longer than any
/// leader takes to come to it, unless the Target has more tasks than it gets through.
pub const WAITED_MS: u64 = 60_000;
/// The index of waiting tasks is scanned in so many segments. Each sweep begins with another, so that a large index is
/// seen whole after as many.
const SEGMENTS: u8 = 16;
/// Entries of one page.
const PAGE: usize = 5_000;
/// The time between two sweeps, in milliseconds: which segment comes first follows from it.
const INTERVAL_MS: u64 = 60_000;

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Looks through everything once.
    ///
    /// # Errors
    /// A port did not answer; what was not sent on is found by the next sweep.
    pub async fn run(&self) -> Result<Report, Error> {
        let mut report = Report::default();
        let pulled = self.routes.iter().filter(|route| route.is_pulled()).map(|route| Pool::of_route(&route.name));
        for pool in Pool::of_handlers().chain(pulled) {
            self.sessions(&pool, &mut report).await?;
        }
        for route in self.routes.iter() {
            for part in Part::all() {
                self.batches(&route.name, part, &mut report).await?;
            }
        }
        self.tasks(&mut report).await?;
        Ok(report)
    }

    async fn sessions(&self, pool: &Pool, report: &mut Report) -> Result<(), Error> {
        for session in self.store.sessions(pool, self.budget.sessions).await? {
            if let Holder::Expired(_) = Holder::of(Some(&session), self.env.now()) {
                self.free(&session, report).await?;
            }
        }
        Ok(())
    }

    /// Sends the claims of a session that is over on, and then ends it: who dies in between is followed by the next
    /// sweep. The handler ends it as well; whoever comes first.
    async fn free(&self, session: &Session, report: &mut Report) -> Result<(), Error> {
        let mut messages = Vec::new();
        for claim in &session.claims {
            if let Some(batch) = self.store.batch(claim).await?
                && batch.claimed_by() == Some(&session.id)
                && !self.routes.is_pulled(&batch.target)
            {
                messages.push(Outgoing::handle(&Handle::about(&batch), 0));
            }
        }
        report.batches += messages.len();
        send_all(self.outbox, messages).await?;
        self.store.end_session(&session.id, session.beat).await?;
        report.sessions += 1;
        Ok(())
    }

    async fn batches(&self, route: &RouteName, part: Part, report: &mut Report) -> Result<(), Error> {
        let now = self.env.now();
        for id in self.store.unfinished(route, part, now, self.budget.batches).await? {
            // The index lags behind: the batch decides.
            let Some(batch) = self.store.batch(&id).await? else { continue };
            if batch.unfinished().is_some_and(|due| due < now) {
                self.send_on(batch, report).await?;
            }
        }
        Ok(())
    }

    async fn send_on(&self, batch: Batch, report: &mut Report) -> Result<(), Error> {
        let pulled = self.routes.is_pulled(&batch.target);
        let message = match &batch.status {
            Status::Open { .. } | Status::Closing => {
                let finish = Finish { batch: batch.id.clone(), target: batch.target.clone() };
                report.finishes += 1;
                Outgoing::group(&Group::Finish(finish), 0)
            }
            // Workers find it themselves.
            Status::Frozen | Status::Paused { .. } | Status::InProgress { .. } if pulled => return Ok(()),
            Status::Frozen | Status::Paused { .. } => {
                let nudged = batch.nudged(self.env.now());
                if self.store.store(&nudged, Assumes::At(batch.revision)).await? == Stored::Conflict {
                    // Somebody is at work on it.
                    return Ok(());
                }
                report.batches += 1;
                Outgoing::handle(&Handle::about(&nudged), 0)
            }
            Status::InProgress { claim } => {
                let session = self.store.session(&claim.session).await?;
                match Holder::of(session.as_ref(), self.env.now()) {
                    Holder::Lives(_) => return Ok(()),
                    Holder::Gone | Holder::Expired(_) => {
                        report.batches += 1;
                        Outgoing::handle(&Handle::about(&batch), 0)
                    }
                }
            }
            Status::Settled { follow_up: FollowUp::Pending, .. } => {
                report.batches += 1;
                Outgoing::handle(&Handle::about(&batch), 0)
            }
            Status::Settled { follow_up: FollowUp::Done, .. } | Status::Empty | Status::Void => return Ok(()),
        };
        Ok(send_all(self.outbox, vec![message]).await?)
    }

    async fn tasks(&self, report: &mut Report) -> Result<(), Error> {
        let now = self.env.now();
        let since = crate::domain::time::Timestamp(now.0.saturating_sub(WAITED_MS));
        let first = u8::try_from(now.0 / INTERVAL_MS % u64::from(SEGMENTS)).unwrap_or_default();
        let mut waiting: BTreeMap<Target, Vec<Candidate>> = BTreeMap::new();
        let mut pages = 0;
        for index in (first..SEGMENTS).chain(0..first) {
            let mut after = None;
            loop {
                if pages == self.budget.pages.max(usize::from(SEGMENTS)) {
                    return self.elect(waiting, report).await;
                }
                pages += 1;
                let segment = Segment { index, of: SEGMENTS };
                let page = self.store.waiting_long(since, segment, after.as_ref(), PAGE).await?;
                for (target, candidate) in page.tasks {
                    let tasks = waiting.entry(target).or_default();
                    // More would be the leader's to find.
                    if tasks.len() < MAX_TASKS {
                        tasks.push(candidate);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        self.elect(waiting, report).await
    }

    /// Asks for a leader wherever none is alive.
    async fn elect(&self, waiting: BTreeMap<Target, Vec<Candidate>>, report: &mut Report) -> Result<(), Error> {
        for (target, tasks) in waiting {
            if self.routes.get(&target.route()).is_none() {
                report.stranded += tasks.len();
                continue;
            }
            let holder = self.store.lock(&target).await?.and_then(|lock| lock.holder);
            if holder.is_some_and(|holder| holder.lease_until > self.env.now()) {
                continue;
            }
            report.tasks += tasks.len();
            send_all(self.outbox, register::elections(self.env, &target, &tasks)).await?;
        }
        Ok(())
    }
}
