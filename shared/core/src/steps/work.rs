//! Workers that pull: batches of a route that wait to be claimed, instead of being handed on by messages.
//!
//! The workers of one route divide the parts of its key space among their live sessions, by the order of their ids, and
//! divide anew whenever one comes or goes; nobody assigns anything. Who finds nothing in its own parts helps with what
//! has been due for some seconds in the others. Two may want the same batch then, or while they see different sessions:
//! one conditional write decides. A worker whose session is over drops what it does and is done; its batches are found
//! in the index by the session that has its parts next.

use std::collections::HashMap;

use super::Error;
use super::process::{Claimed, Counts, Outcome, Processor, Stop, follow_up, scopes};
use crate::domain::session::share;
use crate::domain::task::traces;
use crate::domain::{Batch, BatchId, Part, Pool, RouteName, SessionId, Timestamp};
use crate::ports::{Downstream, Env, Look, Outbox, Store};

/// A worker of one route, over its ports.
#[derive(Debug)]
pub struct Worker<'a, S, Q, D, E> {
    processor: Processor<'a, S, Q, D, E>,
    route: RouteName,
    later: HashMap<BatchId, Later>,
    /// Claims that an error left behind.
    left: Vec<BatchId>,
}

/// What a worker found: a batch that is to be called, or one that ended without a call.
type Found = Result<Box<Claimed>, (Batch, Outcome)>;

/// When a batch that could not be claimed is worth another look.
#[derive(Debug)]
struct Later {
    /// Not before this time,
    at: Timestamp,
    /// or before this session, which has it now, is gone.
    holder: Option<SessionId>,
}

/// This many sessions of a pool are looked at: more than there are parts never get work alone.
const MAX_WORKERS: usize = 1_000;
/// This many batches of one part are looked at for one that can be claimed, beside those known to be of no use yet.
const LOOK: usize = 10;

impl<'a, S: Store, Q: Outbox, D: Downstream, E: Env> Worker<'a, S, Q, D, E> {
    /// A worker whose session lies in the pool of `route`. It may claim once the session is opened.
    pub fn new(processor: Processor<'a, S, Q, D, E>, route: RouteName) -> Self {
        Self { processor, route, later: HashMap::new(), left: Vec::new() }
    }

    /// Claims and processes one batch; `None` if none can be claimed now.
    ///
    /// # Errors
    /// A port did not answer, or another worker came first; try again.
    pub async fn work(&mut self) -> Result<Option<(Batch, Outcome)>, Error> {
        let claimed = match self.next().await? {
            Some(Ok(claimed)) => claimed,
            Some(Err(ended)) => return Ok(Some(ended)),
            None => return Ok(None),
        };
        let stage = self.processor.finish(&claimed).await;
        let batch = claimed.batch;
        if matches!(stage, Err(Stop::Failed(_))) {
            self.left.push(batch.id.clone());
        }
        Ok(Some((batch, self.processor.settle(stage).await?)))
    }

    /// Claims the next batch without calling anything: for a worker that does the work itself and records the outcome
    /// in a transaction of its own. It does the [`tasks`](Claimed::tasks), commits, and says what came of that:
    /// [`committed`](Self::committed), [`lost`](Self::lost) or [`gave_up`](Self::gave_up).
    ///
    /// # Errors
    /// As [`work`](Self::work); a batch that cannot be read or claimed keeps no other from being so.
    pub async fn claim_next(&mut self) -> Result<Option<Claimed>, Error> {
        loop {
            match self.next().await? {
                Some(Ok(claimed)) => return Ok(Some(*claimed)),
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Found>, Error> {
        let mut failed = Ok(None);
        // Whatever part they lie in, nobody else can claim them while this session lives.
        let mut left = std::mem::take(&mut self.left).into_iter();
        while let Some(id) = left.next() {
            match self.try_one(&id).await {
                Ok(Some(found)) => {
                    self.left.extend(left);
                    return Ok(Some(found));
                }
                Ok(None) => {}
                Err(error) => {
                    self.left.push(id);
                    failed = Err(error);
                }
            }
        }
        for (part, before) in self.parts().await? {
            let look = Look::at(part, before, LOOK + self.later.len());
            for id in self.processor.store.unfinished(&self.route, look).await?.all() {
                if self.later.contains_key(&id) {
                    continue;
                }
                match self.try_one(&id).await {
                    Ok(Some(found)) => return Ok(Some(found)),
                    Ok(None) => {}
                    Err(error) => {
                        self.put_off(id, None, None);
                        failed = Err(error);
                    }
                }
            }
        }
        failed
    }

    async fn try_one(&mut self, id: &BatchId) -> Result<Option<Found>, Error> {
        let Processor { store, .. } = self.processor;
        // The index lags: what it shows may be done, or another's.
        let Some(batch) = store.batch(id).await? else {
            self.put_off(id.clone(), None, None);
            return Ok(None);
        };
        let (holder, found) = (batch.claimed_by().cloned(), batch.clone());
        let stop = match self.processor.claim_one(batch).await {
            Ok(claimed) => return Ok(Some(Ok(Box::new(claimed)))),
            Err(stop) => stop,
        };
        match self.processor.settle(Err(stop)).await? {
            outcome @ Outcome::Settled(_) => return Ok(Some(Err((found, outcome)))),
            Outcome::Waits(wait) => self.put_off(id.clone(), wait.back_at(), holder),
            Outcome::Away(until) | Outcome::UnderWay { until } => self.put_off(id.clone(), Some(until), None),
            Outcome::FollowedUp(_) | Outcome::CallAgain { .. } | Outcome::ClaimLost | Outcome::Nothing => {
                self.put_off(id.clone(), None, None);
            }
        }
        Ok(None)
    }

    /// The parts to look through, in this order, for batches that were due before the time beside them: its own, and
    /// then everybody's, for what has been due for a while because the session with that part is busy.
    async fn parts(&mut self) -> Result<Vec<(Part, Timestamp)>, Error> {
        let Processor { store, env, .. } = self.processor;
        let sessions = store.sessions(&Pool::of_route(&self.route), None, MAX_WORKERS).await?.all();
        let now = env.now();
        let live: Vec<_> =
            sessions.into_iter().filter(|session| session.expires_at > now).map(|session| session.id).collect();
        let lives = |holder: &SessionId| live.contains(holder);
        self.later.retain(|_, later| later.at > now && later.holder.as_ref().is_none_or(lives));
        let all: Vec<Part> = Part::all().map(Part::pulled).collect();
        let own = share(&all, &live, self.processor.heartbeat.id());
        let first = own.first().and_then(|first| all.iter().position(|part| part == first)).unwrap_or_default();
        let long_due = Timestamp(now.0.saturating_sub(HELP_AFTER_MS));
        let others = all.iter().cycle().skip(first + own.len()).take(all.len() - own.len());
        let others = others.map(|part| (*part, long_due));
        Ok(own.iter().map(|part| (*part, now)).chain(others).collect())
    }

    /// Leaves a batch that cannot be claimed alone for a while, or until its holder is gone. One that nobody holds is
    /// left alone by its time in the index, which the worker that wakes it may bring forward.
    fn put_off(&mut self, id: BatchId, until: Option<Timestamp>, holder: Option<SessionId>) {
        let now = self.processor.env.now();
        let shown = if holder.is_none() { now.plus_ms(LAG_MS) } else { Timestamp(u64::MAX) };
        let at = until.map_or_else(|| now.plus_ms(RETRY_MS), |until| until.min(shown));
        self.later.insert(id, Later { at, holder });
    }

    /// Renews the places of a claim whose work is not done yet. Each lasts for twice the processor's patience and 10 s:
    /// a worker that does not call this before that time is over makes one call more than the route's limits allow.
    /// `false` says that it was too late for that.
    ///
    /// # Errors
    /// A port did not answer; the places last as long as before.
    pub async fn renew(&self, claimed: &mut Claimed) -> Result<bool, Error> {
        let (processor, batch) = (&self.processor, &claimed.batch);
        let until = processor.env.now().plus_ms(processor.lease_ms(processor.route(batch)?));
        processor.gatekeeper().renew(&mut claimed.held, &batch.id, until).await
    }

    /// Ends a claim whose outcome the worker has recorded itself: gives its places back and derives what follows.
    ///
    /// # Errors
    /// A port did not answer; the outcome stands, and sweep derives what follows from it.
    pub async fn committed(&self, claimed: Claimed, settled: &Batch) -> Result<Counts, Error> {
        self.processor.heartbeat.forget(&claimed.batch.id).await;
        self.processor.release_settled(&scopes(&claimed.held), settled).await?;
        let Processor { store, outbox, env, .. } = self.processor;
        let route = self.processor.route(settled)?;
        follow_up(store, outbox, env, route, settled, Some(traces(claimed.tasks.values()))).await
    }

    /// Ends a claim that somebody else has taken over. Its places are that worker's now.
    pub async fn lost(&self, claimed: Claimed) {
        self.processor.heartbeat.forget(&claimed.batch.id).await;
    }

    /// Ends a claim without an outcome: the batch is claimed again.
    ///
    /// # Errors
    /// A port did not answer; the places it has at its gates are free when their lease is over.
    pub async fn gave_up(&mut self, claimed: Claimed) -> Result<(), Error> {
        let until = self.processor.env.now();
        self.processor.heartbeat.forget(&claimed.batch.id).await;
        self.left.push(claimed.batch.id.clone());
        let (held, batch) = (&claimed.held, &claimed.batch);
        self.processor.gatekeeper().leave(held, &batch.id).await?;
        // Another worker that found the claim made may have renewed the lease, and went away.
        self.processor.release_claimed(&scopes(held), batch, until).await
    }
}

/// How soon a batch that found no place is looked at again, in milliseconds.
const RETRY_MS: u64 = 500;
/// The index shows a batch's latest time after so long, in milliseconds.
const LAG_MS: u64 = 3_000;
/// After so long a batch that is due is anybody's, in milliseconds.
const HELP_AFTER_MS: u64 = 3_000;

#[cfg(test)]
mod tests;
