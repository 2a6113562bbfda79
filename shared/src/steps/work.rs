//! Workers that pull: batches of a route that wait to be claimed, instead of being handed on by messages.
//!
//! The workers of one route divide the parts of its key space among their live sessions, by the order of their ids, and
//! divide anew whenever one comes or goes; nobody assigns anything. While two see different sessions they may want the same
//! batch: then one conditional write decides. A worker whose session is over drops what it does and is done; its batches
//! are found in the index by whoever has its parts next.

use std::collections::HashMap;

use super::Error;
use super::call::members;
use super::follow_up::{Counts, follow_up};
use super::keeper::Keeper;
use super::process::{Claimed, Processed, Processor, Tried};
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, Part, Pool, RouteName, SessionId};
use crate::domain::outcome::Reason;
use crate::domain::session::share;
use crate::domain::task::Task;
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
    later: HashMap<BatchId, Later>,
}

/// When a batch that could not be claimed is worth another look.
#[derive(Debug)]
struct Later {
    /// Not before this time,
    at: Timestamp,
    /// or before this session, which has it now, is gone.
    holder: Option<SessionId>,
}

/// So many sessions of a pool are looked at: more than there are parts never get work alone.
const MAX_WORKERS: usize = 1_000;
/// So many batches of one part are looked at for one that can be claimed, beside those known to be of no use yet.
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
    /// in a transaction of its own. It reads the [`tasks`](Self::tasks), commits, and says what came of that:
    /// [`committed`](Self::committed) or [`lost`](Self::lost). A claim that it just drops is made again, by this worker
    /// as long as its session lives, else by another.
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
        let lives = |holder: &SessionId| live.contains(holder);
        self.later.retain(|_, later| later.at > now && later.holder.as_ref().is_none_or(lives));
        for part in share(&parts, &live, self.keeper.id()) {
            for id in store.unfinished(&self.route, part, now, LOOK + self.later.len()).await? {
                if self.later.contains_key(&id) {
                    continue;
                }
                // The index lags: what it shows may be done, or another's.
                let Some(batch) = store.batch(&id).await? else { continue };
                let holder = batch.claimed_by().cloned();
                match self.processor.try_claim(batch, self.keeper).await? {
                    Tried::Claimed(claimed) => return Ok(Some(*claimed)),
                    Tried::Not(Processed::Waits { until }) => {
                        let at = until.unwrap_or_else(|| env.now().plus_ms(RETRY_MS));
                        self.later.insert(id, Later { at, holder });
                    }
                    Tried::Not(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// The tasks of a claimed batch, in the order of its members; one that somebody deleted is left out.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn tasks(&self, claimed: &Claimed) -> Result<Vec<Task>, Error> {
        let mut tasks = members(self.processor.store, &claimed.batch).await?;
        Ok(claimed.batch.members.iter().filter_map(|member| tasks.remove(&member.id)).collect())
    }

    /// Ends a claim whose outcome the worker has recorded itself: gives its places back and derives what follows.
    ///
    /// # Errors
    /// A port did not answer; the outcome stands, and sweep derives what follows from it.
    pub async fn committed(&self, claimed: Claimed, settled: &Batch) -> Result<Counts, Error> {
        self.keeper.forget(&claimed.batch.id).await;
        self.processor.leave(&claimed).await?;
        self.follow_up(settled).await
    }

    /// Ends a claim that somebody else has taken over. Its places are that worker's now.
    pub async fn lost(&self, claimed: Claimed) {
        self.keeper.forget(&claimed.batch.id).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Assumes;
    use crate::domain::id::{Fence, Round, Target, TaskId};
    use crate::domain::session::Timing;
    use crate::domain::task::Candidate;
    use crate::memory::{MemoryQueues, MemoryStore};
    use crate::ports::{Answer, Batches, Call, NoAnswer};
    use crate::routes::Routes;

    /// A clock that stands still: what happens, happens at once.
    struct Still;

    impl Env for Still {
        fn now(&self) -> Timestamp {
            Timestamp(1_000_000)
        }

        fn random(&self) -> f64 {
            0.5
        }

        fn fresh_id(&self) -> String {
            "fresh".to_owned()
        }

        async fn sleep(&self, _: u64) {}
    }

    struct Silent;

    impl Downstream for Silent {
        async fn call(&self, _: &Call<'_>) -> Result<Answer, NoAnswer> {
            Err(NoAnswer::Connection)
        }
    }

    const ROUTES: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: pull }]";

    async fn freeze(store: &MemoryStore, id: &str) {
        let candidate = Candidate { id: TaskId::new(id), round: Round(0), bytes: 2 };
        let open = Batch::open(BatchId::new(id), Target::new("r:t"), Fence(1), &[candidate], Timestamp(0), 0);
        store.store(&open, Assumes::Absent).await.unwrap();
        let frozen = open.frozen(open.members.clone()).due_at(Timestamp(1));
        store.store(&frozen, Assumes::At(open.revision)).await.unwrap();
    }

    #[tokio::test]
    async fn a_batch_whose_worker_ends_its_session_is_free_at_once() {
        let (store, outbox, routes) = (MemoryStore::default(), MemoryQueues::default(), Routes::parse(ROUTES).unwrap());
        freeze(&store, "0a").await;
        let (env, route, pool) = (Still, RouteName::new("r"), Pool::new("r"));
        let processor = Processor {
            store: &store,
            outbox: &outbox,
            downstream: &Silent,
            env: &env,
            routes: &routes,
            patience_ms: 1,
        };
        let keeper = |unique| Keeper::new(&store, &env, Timing::default(), SessionId::within(&pool, unique), unique);
        let first = keeper("9");
        first.open().await.unwrap().unwrap();
        assert!(Worker::new(processor, &first, route.clone()).claim_next().await.unwrap().is_some());
        // Its id comes first, and so does its half of the parts.
        let second = keeper("1");
        second.open().await.unwrap().unwrap();
        let mut second = Worker::new(processor, &second, route);
        assert!(second.claim_next().await.unwrap().is_none(), "the first lives");
        first.end().await;
        assert!(second.claim_next().await.unwrap().is_some());
    }
}
