//! Workers that pull: batches of a route that wait to be claimed, instead of being handed on by messages.
//!
//! The workers of one route divide the parts of its key space among their live sessions, by the order of their ids, and
//! divide anew whenever one comes or goes; nobody assigns anything. Who finds nothing in its own parts helps with what
//! has been due for some seconds in the others. Two may want the same batch then, or while they see different sessions:
//! one conditional write decides. A worker whose session is over drops what it does and is done; its batches are found
//! in the index by the session that has its parts next.

use std::collections::HashMap;

use super::Error;
use super::claim::scopes;
use super::follow_up::{Counts, follow_up};
use super::keeper::Keeper;
use super::process::{Claimed, Processed, Processor, Tried};
use crate::domain::session::share;
use crate::domain::task::traces;
use crate::domain::trace::Traces;
use crate::domain::{Batch, BatchId, Part, Pool, Reason, RouteName, SessionId, Timestamp};
use crate::ports::{Downstream, Env, Look, Outbox, Store};

/// What a worker did with one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// Its outcome is recorded.
    Settled(Batch, Counts),
    /// The call failed for now; somebody will make it again.
    CallAgain {
        /// The batch, as it was claimed.
        batch: Batch,
        /// Why.
        reason: Reason,
    },
    /// Another worker has it now, and this one's result was dropped.
    ClaimLost(Batch),
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
    /// Claims that an error left behind.
    left: Vec<BatchId>,
}

/// What a worker found.
enum Found {
    /// A batch that is to be called.
    Claimed(Box<Claimed>),
    /// A batch that ended with its lost worker.
    Ended(Box<Batch>, Counts),
}

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
    pub fn new(processor: Processor<'a, S, Q, D, E>, keeper: &'a Keeper<'a, S, E>, route: RouteName) -> Self {
        Self { processor, keeper, route, later: HashMap::new(), left: Vec::new() }
    }

    /// Claims and processes one batch, if one can be claimed.
    ///
    /// # Errors
    /// A port did not answer, or another worker came first; try again.
    pub async fn work(&mut self) -> Result<Worked, Error> {
        let claimed = match self.next().await? {
            Some(Found::Claimed(claimed)) => claimed,
            Some(Found::Ended(settled, counts)) => return Ok(Worked::Settled(*settled, counts)),
            None => return Ok(Worked::Idle),
        };
        let batch = claimed.batch.clone();
        let processed = self.processor.finish(*claimed, self.keeper).await;
        if processed.is_err() {
            self.left.push(batch.id.clone());
        }
        match processed? {
            Processed::Recorded(settled, traces) => {
                let counts = self.follow_up(&settled, Some(traces)).await?;
                Ok(Worked::Settled(*settled, counts))
            }
            Processed::CallAgain { reason, .. } => Ok(Worked::CallAgain { batch, reason }),
            Processed::ClaimLost => Ok(Worked::ClaimLost(batch)),
            Processed::FollowedUp(_) | Processed::Waits(_) | Processed::Away(_) | Processed::Nothing => {
                Ok(Worked::Idle)
            }
        }
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
                Some(Found::Claimed(claimed)) => return Ok(Some(*claimed)),
                Some(Found::Ended(..)) => {}
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
        let holder = batch.claimed_by().cloned();
        match self.processor.try_claim(batch, self.keeper).await? {
            Tried::Claimed(claimed) => return Ok(Some(Found::Claimed(claimed))),
            Tried::Not(Processed::Recorded(settled, traces)) => {
                let counts = self.follow_up(&settled, Some(traces)).await?;
                return Ok(Some(Found::Ended(settled, counts)));
            }
            Tried::Not(Processed::Waits(wait)) => self.put_off(id.clone(), wait.back_at(), holder),
            Tried::Not(Processed::Away(until)) => self.put_off(id.clone(), Some(until), None),
            Tried::Not(_) => self.put_off(id.clone(), None, None),
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
        let own = share(&all, &live, self.keeper.id());
        let first = own.first().and_then(|first| all.iter().position(|part| part == first)).unwrap_or_default();
        let long_due = Timestamp(now.0.saturating_sub(HELP_AFTER_MS));
        let others = all.iter().cycle().skip(first + own.len()).take(all.len() - own.len());
        let others = others.map(|part| (*part, long_due));
        Ok(own.iter().map(|part| (*part, now)).chain(others).collect())
    }

    /// Leaves a batch that cannot be claimed alone for a while, or until its holder is gone.
    fn put_off(&mut self, id: BatchId, until: Option<Timestamp>, holder: Option<SessionId>) {
        let at = until.unwrap_or_else(|| self.processor.env.now().plus_ms(RETRY_MS));
        self.later.insert(id, Later { at, holder });
    }

    /// Ends a claim whose outcome the worker has recorded itself: gives its places back and derives what follows.
    ///
    /// # Errors
    /// A port did not answer; the outcome stands, and sweep derives what follows from it.
    pub async fn committed(&self, claimed: Claimed, settled: &Batch) -> Result<Counts, Error> {
        self.keeper.forget(&claimed.batch.id).await;
        self.processor.leave_settled(&scopes(&claimed.held), settled).await?;
        self.follow_up(settled, Some(traces(claimed.tasks.values()))).await
    }

    /// Ends a claim that somebody else has taken over. Its places are that worker's now.
    pub async fn lost(&self, claimed: Claimed) {
        self.keeper.forget(&claimed.batch.id).await;
    }

    /// Ends a claim without an outcome: the batch is claimed again.
    ///
    /// # Errors
    /// A port did not answer; the places it has at its gates are free when their lease is over.
    pub async fn gave_up(&mut self, claimed: Claimed) -> Result<(), Error> {
        let until = self.processor.env.now();
        self.keeper.forget(&claimed.batch.id).await;
        self.left.push(claimed.batch.id.clone());
        let (held, batch) = (&claimed.held, &claimed.batch);
        self.processor.gatekeeper().leave(held, &batch.id).await?;
        // Another worker that found the claim made may have renewed the lease, and went away.
        self.processor.leave_claimed(&scopes(held), batch, until).await
    }

    /// Derives what follows from a recorded outcome. The `traces` of its members are read if they are not known.
    ///
    /// # Errors
    /// A port did not answer; it may be repeated, and sweep repeats it.
    pub async fn follow_up(&self, settled: &Batch, traces: Option<Traces>) -> Result<Counts, Error> {
        let Processor { store, outbox, env, routes, .. } = self.processor;
        let route = routes.get(&self.route).ok_or_else(|| Error::UnknownRoute(self.route.clone()))?;
        follow_up(store, outbox, env, route, settled, traces).await
    }
}

/// How soon a batch that found no place is looked at again, in milliseconds.
const RETRY_MS: u64 = 500;
/// After so long a batch that is due is anybody's, in milliseconds.
const HELP_AFTER_MS: u64 = 3_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Assumes;
    use crate::domain::gate::{Gate, Scope};
    use crate::domain::session::Timing;
    use crate::domain::{Candidate, Fence, Revision, Round, Target, TaskId};
    use crate::memory::{MemoryQueues, MemoryStore};
    use crate::ports::{Answer, Batches, Call, Gates, NoAnswer, Sessions};
    use crate::routes::Routes;
    use crate::steps::admit::Passed;
    use crate::steps::announce::Announced;

    /// A clock that stands still: what happens, happens at once.
    struct Still(u64);

    impl Env for Still {
        fn now(&self) -> Timestamp {
            Timestamp(self.0)
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
        let candidate =
            Candidate { id: TaskId::new(id), round: Round(0), bytes: 2, traits: crate::domain::Traits::default() };
        let open = Batch::open(BatchId::new(id), Target::new("r:t"), Fence(1), &[candidate], Timestamp(0), 0);
        store.store(&open, Assumes::Absent).await.unwrap();
        let frozen = open.frozen(open.members.clone()).pulled_from(Timestamp(1));
        store.store(&frozen, Assumes::At(open.revision)).await.unwrap();
    }

    const fn processor<'a>(
        store: &'a MemoryStore,
        outbox: &'a MemoryQueues,
        env: &'a Still,
        routes: &'a Routes,
        announced: &'a Announced,
    ) -> Processor<'a, MemoryStore, MemoryQueues, Silent, Still> {
        Processor { store, outbox, downstream: &Silent, env, routes, patience_ms: 1, announced }
    }

    #[tokio::test]
    async fn a_batch_whose_worker_ends_its_session_is_free_at_once() {
        let (store, outbox, routes) = (MemoryStore::default(), MemoryQueues::default(), Routes::parse(ROUTES).unwrap());
        freeze(&store, "0a").await;
        let (env, route, pool) = (Still(1_000_000), RouteName::new("r"), Pool::new("r"));
        let announced = Announced::default();
        let processor = processor(&store, &outbox, &env, &routes, &announced);
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

    const ONE_OF_EACH: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: pull, \
                               limits: { in_flight_per_target: 1 } }]";

    #[tokio::test]
    async fn a_claim_that_is_given_up_gives_its_place_back_though_another_worker_renewed_it() {
        let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
        let routes = Routes::parse(ONE_OF_EACH).unwrap();
        freeze(&store, "0a").await;
        let (env, route, pool) = (Still(1_000_000), RouteName::new("r"), Pool::new("r"));
        let announced = Announced::default();
        let processor = processor(&store, &outbox, &env, &routes, &announced);
        let id = BatchId::new("0a");
        let frozen = store.batch(&id).await.unwrap().unwrap();
        let keeper = Keeper::new(&store, &env, Timing::default(), SessionId::within(&pool, "9"), "9");
        keeper.open().await.unwrap().unwrap();
        let mut worker = Worker::new(processor, &keeper, route.clone());
        let claimed = worker.claim_next().await.unwrap().unwrap();
        // Another worker read the batch before it was claimed.
        let (other, lease) = (SessionId::within(&pool, "1"), env.now().plus_ms(10_000));
        let passed = processor.gatekeeper().admit(routes.get(&route).unwrap(), &frozen, &other, lease).await.unwrap();
        assert!(matches!(passed, Passed::Yes { .. }), "{passed:?}");
        let target = Scope::Target(frozen.target.whole());
        assert!(store.gate(&target).await.unwrap().counts(&id));
        let later = Still(1_000_500);
        let mut worker = Worker::new(Processor { env: &later, ..processor }, &keeper, route);
        worker.gave_up(claimed).await.unwrap();
        assert!(!store.gate(&target).await.unwrap().counts(&id));
    }

    #[tokio::test]
    async fn a_delivery_that_comes_to_no_call_gives_back_the_place_that_was_kept_while_it_waited() {
        let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
        let routes = Routes::parse(ONE_OF_EACH).unwrap();
        freeze(&store, "0a").await;
        let (env, pool, id) = (Still(1_000_000), Pool::new("r"), BatchId::new("0a"));
        let announced = Announced::default();
        let processor = processor(&store, &outbox, &env, &routes, &announced);
        let read = store.batch(&id).await.unwrap().unwrap();
        let target = Scope::Target(read.target.whole());
        let kept = [(id.clone(), env.now().plus_ms(70_000))].into();
        let kept = Gate { revision: Revision(1), in_flight: kept, ..Gate::default() };
        store.store_gate(&target, &kept, env.now()).await.unwrap();
        let keeper = |unique| Keeper::new(&store, &env, Timing::default(), SessionId::within(&pool, unique), unique);
        let lost = keeper("1");
        lost.open().await.unwrap().unwrap();
        let beat = store.session(lost.id()).await.unwrap().unwrap().beat;
        store.end_session(lost.id(), beat).await.unwrap();
        let tried = processor.try_claim(read.clone(), &lost).await.unwrap();
        assert!(matches!(tried, Tried::Not(Processed::ClaimLost)), "{tried:?}");
        assert!(!store.gate(&target).await.unwrap().counts(&id), "nobody calls it");
        // One that passed the gate before, by what it read of the batch, would call it without a place.
        let other = keeper("9");
        other.open().await.unwrap().unwrap();
        let tried = processor.try_claim(read, &other).await;
        assert!(matches!(tried, Err(Error::Conflict(_))), "{tried:?}");
        let again = store.batch(&id).await.unwrap().unwrap();
        let tried = processor.try_claim(again, &other).await.unwrap();
        assert!(matches!(tried, Tried::Claimed(_)), "{tried:?}");
    }
}
