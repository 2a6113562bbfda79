//! Workers that pull: batches of a route that wait to be claimed, instead of being handed on by messages.
//!
//! The workers of one route divide the parts of its key space among their live sessions, by the order of their ids, and
//! divide anew whenever one comes or goes; nobody assigns anything. While two see different sessions they may want the same
//! batch: then one conditional write decides. A worker whose session is over drops what it does and is done; its batches
//! are found in the index by whoever has its parts next.

use std::collections::HashMap;

use super::Error;
use super::follow_up::{Counts, follow_up};
use super::keeper::Keeper;
use super::process::{Claimed, Processed, Processor, Tried};
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, Part, Pool, RouteName};
use crate::domain::outcome::Reason;
use crate::domain::session::share;
use crate::domain::time::Timestamp;
use crate::ports::{Downstream, Env, Outbox, Store};

/// What a worker did with one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// Its outcome is recorded.
    Settled(Batch, Counts),
    /// The call failed for now; somebody will make it again.
    CallAgain {
        /// The batch.
        batch: BatchId,
        /// Why.
        reason: Reason,
    },
    /// Another worker has it now, and this one's result was dropped.
    ClaimLost(BatchId),
    /// No batch can be claimed now.
    Idle,
}

/// A worker of one route, over its ports.
#[derive(Debug)]
pub struct Worker<'a, S, Q, D, E> {
    processor: Processor<'a, S, Q, D, E>,
    keeper: &'a Keeper<'a, S, E>,
    route: RouteName,
    /// Batches that cannot be claimed before this time.
    later: HashMap<BatchId, Timestamp>,
}

/// So many sessions of a pool are looked at: more than there are parts never get work alone.
const MAX_WORKERS: usize = 1_000;
/// So many batches of one part are looked at for one that can be claimed.
const LOOK: usize = 10;

impl<'a, S: Store, Q: Outbox, D: Downstream, E: Env> Worker<'a, S, Q, D, E> {
    /// A worker whose session lies in the pool of `route`. It may claim once the session is opened.
    #[must_use]
    pub fn new(processor: Processor<'a, S, Q, D, E>, keeper: &'a Keeper<'a, S, E>, route: RouteName) -> Self {
        Self { processor, keeper, route, later: HashMap::new() }
    }

    /// Claims and processes one batch, if one can be claimed.
    ///
    /// # Errors
    /// A port did not answer, or another worker came first; try again.
    pub async fn work(&mut self) -> Result<Worked, Error> {
        let Some(claimed) = self.claim_next().await? else { return Ok(Worked::Idle) };
        let batch = claimed.batch.id.clone();
        match self.processor.finish(claimed, self.keeper).await? {
            Processed::Recorded(settled) => {
                let counts = self.follow_up(&settled).await?;
                Ok(Worked::Settled(settled, counts))
            }
            Processed::CallAgain { reason, .. } => Ok(Worked::CallAgain { batch, reason }),
            Processed::ClaimLost => Ok(Worked::ClaimLost(batch)),
            Processed::FollowedUp | Processed::Waits { .. } | Processed::Nothing => Ok(Worked::Idle),
        }
    }

    /// Claims the next batch without calling anything: for a worker that does the work itself and records the outcome
    /// in a transaction of its own.
    ///
    /// # Errors
    /// As [`work`](Self::work).
    pub async fn claim_next(&mut self) -> Result<Option<Claimed>, Error> {
        let Processor { store, env, .. } = self.processor;
        let sessions = store.sessions(&Pool::of_route(&self.route), MAX_WORKERS).await?;
        let now = env.now();
        let live: Vec<_> =
            sessions.into_iter().filter(|session| session.expires_at > now).map(|session| session.id).collect();
        let parts: Vec<Part> = Part::all().collect();
        self.later.retain(|_, at| *at > now);
        for part in share(&parts, &live, self.keeper.id()) {
            for id in store.unfinished(&self.route, part, now, LOOK).await? {
                if self.later.contains_key(&id) {
                    continue;
                }
                // The index lags: what it shows may be done, or another's.
                let Some(batch) = store.batch(&id).await? else { continue };
                match self.processor.try_claim(batch, self.keeper).await? {
                    Tried::Claimed(claimed) => return Ok(Some(*claimed)),
                    Tried::Not(Processed::Waits { until }) => {
                        self.later.insert(id, until.unwrap_or_else(|| env.now().plus_ms(RETRY_MS)));
                    }
                    Tried::Not(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// Derives what follows from a recorded outcome.
    ///
    /// # Errors
    /// A port did not answer; it may be repeated, and sweep repeats it.
    pub async fn follow_up(&self, settled: &Batch) -> Result<Counts, Error> {
        let Processor { store, outbox, routes, .. } = self.processor;
        let route = routes.get(&self.route).ok_or_else(|| Error::UnknownRoute(self.route.clone()))?;
        follow_up(store, outbox, route, settled).await
    }
}

/// How soon a batch that found no place is looked at again, in milliseconds.
const RETRY_MS: u64 = 500;
