//! A worker's claims and its places, beside other deliveries.

use super::*;
use crate::domain::batch::Assumes;
use crate::domain::gate::{Admission, Asks, BreakerPolicy, Gate, Limits, OPENS_AFTER, Scope, Semaphore};
use crate::domain::outcome::{Failure, Fault, Reason, Results};
use crate::domain::session::Timing;
use crate::domain::{Candidate, Fence, Revision, Round, Target, TaskId};
use crate::memory::{MemoryQueues, MemoryStore};
use crate::ports::{Answer, Batches, Call, Gates, NoAnswer, Sessions};
use crate::routes::Routes;
use crate::steps::admit::{Gatekeeper, Passed};
use crate::steps::heartbeat::Heartbeat;
use crate::steps::process::notify::Announced;
use crate::steps::still::{Still, Turned};
use crate::steps::sweep::{Budget, Sweep};
use crate::steps::track::Lifetimes;

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

/// The dependencies of a worker of the route `r`: tables, queues, routes and a clock.
struct Stand<E> {
    store: MemoryStore,
    outbox: MemoryQueues,
    routes: Routes,
    announced: Announced,
    env: E,
}

/// The batch that is claimed.
const BATCH: &str = "0a";

fn target() -> Scope {
    Scope::Target(Target::new("r:t"))
}

impl<E: Env> Stand<E> {
    /// Tables in which these batches are frozen.
    async fn with(batches: &[&str], routes: &str, env: E) -> Self {
        let store = MemoryStore::default();
        for id in batches {
            freeze(&store, id).await;
        }
        let (outbox, routes) = (MemoryQueues::default(), Routes::parse(routes).unwrap());
        Self { store, outbox, routes, announced: Announced::default(), env }
    }

    /// Opens a session of the route's pool.
    async fn session(&self, unique: &str) -> Heartbeat<'_, MemoryStore, E> {
        let timing = Timing { expiry_ms: 600_000, ..Timing::default() };
        let session = SessionId::within(&Pool::new("r"), unique);
        let heartbeat = Heartbeat::new(&self.store, &self.env, timing, session, unique);
        heartbeat.open().await.unwrap().unwrap();
        heartbeat
    }

    const fn processor<'a>(
        &'a self,
        heartbeat: &'a Heartbeat<'a, MemoryStore, E>,
    ) -> Processor<'a, MemoryStore, MemoryQueues, Silent, E> {
        let Self { store, outbox, routes, announced, env } = self;
        Processor { store, outbox, downstream: &Silent, env, routes, patience_ms: 1, announced, heartbeat }
    }

    async fn batch(&self) -> Batch {
        self.store.batch(&BatchId::new(BATCH)).await.unwrap().unwrap()
    }

    /// Gives a batch the only permit of its Target until then.
    async fn permit(&self, batch: &str, until: Timestamp) {
        let permits = Semaphore { leases: [(BatchId::new(batch), until)].into(), ..Semaphore::default() };
        let gate = Gate { revision: Revision(1), permits, ..Gate::default() };
        self.store.store_gate(&target(), &gate, self.env.now()).await.unwrap();
    }

    async fn has_permit(&self) -> bool {
        self.store.gate(&target()).await.unwrap().counts(&BatchId::new(BATCH))
    }
}

fn worker<'a, E: Env>(
    processor: Processor<'a, MemoryStore, MemoryQueues, Silent, E>,
) -> Worker<'a, MemoryStore, MemoryQueues, Silent, E> {
    Worker::new(processor, RouteName::new("r"))
}

#[tokio::test]
async fn a_batch_whose_worker_ends_its_session_is_free_at_once() {
    let stand = Stand::with(&[BATCH], ROUTES, Still(1_000_000)).await;
    let first = stand.session("9").await;
    assert!(worker(stand.processor(&first)).claim_next().await.unwrap().is_some());
    // Its id comes first, and so does its half of the parts.
    let second = stand.session("1").await;
    let mut second = worker(stand.processor(&second));
    assert!(second.claim_next().await.unwrap().is_none(), "the first lives");
    first.end().await;
    assert!(second.claim_next().await.unwrap().is_some());
}

const ONE_OF_EACH: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: pull, \
                           limits: { in_flight_per_target: 1 } }]";

#[tokio::test]
async fn a_claim_that_is_given_up_gives_its_place_back_though_another_worker_renewed_it() {
    let stand = Stand::with(&[BATCH], ONE_OF_EACH, Still(1_000_000)).await;
    let frozen = stand.batch().await;
    let heartbeat = stand.session("9").await;
    let claimed = worker(stand.processor(&heartbeat)).claim_next().await.unwrap().unwrap();
    // Another worker read the batch before it was claimed.
    let (other, lease) = (SessionId::within(&Pool::new("r"), "1"), stand.env.now().plus_ms(10_000));
    let route = stand.routes.get(&RouteName::new("r")).unwrap();
    let passed = stand.processor(&heartbeat).gatekeeper().admit(route, &frozen, &other, lease).await.unwrap();
    assert!(matches!(passed, Passed::Yes { .. }), "{passed:?}");
    assert!(stand.has_permit().await);
    let later = Still(1_000_500);
    worker(Processor { env: &later, ..stand.processor(&heartbeat) }).gave_up(claimed).await.unwrap();
    assert!(!stand.has_permit().await);
}

#[tokio::test]
async fn a_delivery_that_comes_to_no_call_gives_back_the_place_that_was_kept_while_it_waited() {
    let stand = Stand::with(&[BATCH], ONE_OF_EACH, Still(1_000_000)).await;
    let read = stand.batch().await;
    stand.permit(BATCH, stand.env.now().plus_ms(70_000)).await;
    let lost = stand.session("1").await;
    let beat = stand.store.session(lost.id()).await.unwrap().unwrap().beat;
    stand.store.end_session(lost.id(), beat).await.unwrap();
    let tried = stand.processor(&lost).claim_one(read.clone()).await;
    assert!(matches!(tried, Err(Stop::Ended(Outcome::ClaimLost))), "{tried:?}");
    assert!(!stand.has_permit().await, "nobody calls it");
    // One that passed the gate before, by what it read of the batch, would call it without a place.
    let other = stand.session("9").await;
    let tried = stand.processor(&other).claim_one(read).await;
    assert!(matches!(tried, Err(Stop::Failed(Error::Conflict(_)))), "{tried:?}");
    let tried = stand.processor(&other).claim_one(stand.batch().await).await;
    assert!(tried.is_ok(), "{tried:?}");
}

#[tokio::test]
async fn sweep_wakes_what_waits_for_a_worker_behind_a_limit_that_is_removed() {
    let ids: Vec<String> = (10..40).map(|n| format!("0{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut stand = Stand::with(&ids, ROUTES, Still(1_000_000)).await;
    let mut counts = Vec::new();
    for (unique, limits) in [("1", "pull, limits: { calls_per_minute: 1 }"), ("2", "pull")] {
        stand.routes = Routes::parse(&ROUTES.replace("pull", limits)).unwrap();
        let heartbeat = stand.session(unique).await;
        let Stand { store, outbox, env, routes, .. } = &stand;
        let (budget, every_ms, lifetimes) = (Budget::default(), 60_000, Lifetimes::default());
        Sweep { store, outbox, env, routes, budget, every_ms, lifetimes }.run().await.1.unwrap();
        let later = Still(env.0 + 1);
        let mut worker = worker(Processor { env: &later, ..stand.processor(&heartbeat) });
        let (mut count, mut idle) = (0, 0);
        // An idle worker looks at ten more each time.
        while idle < 5 {
            let Some(next) = worker.claim_next().await.unwrap() else {
                idle += 1;
                continue;
            };
            let settled = next.batch.settled(Results::new(), env.now());
            store.store(&settled, Assumes::At(next.batch.revision)).await.unwrap();
            worker.committed(next, &settled).await.unwrap();
            count += 1;
        }
        counts.push(count);
        heartbeat.end().await;
    }
    assert_eq!(counts, [1, 28], "one is due within a minute anyway");
}

#[tokio::test]
async fn a_long_claim_that_is_renewed_keeps_its_place_and_one_that_is_not_loses_it() {
    for is_renewed in [true, false] {
        let stand = Stand::with(&[BATCH, "0b"], ONE_OF_EACH, Still(1_000_000)).await;
        let (first, second) = (stand.session("1").await, stand.session("9").await);
        let mut claimed = worker(stand.processor(&first)).claim_next().await.unwrap().unwrap();
        // Places last for 10,002 ms here.
        for ms in [9_000, 18_000] {
            let env = Still(stand.env.0 + ms);
            let later = |heartbeat| worker(Processor { env: &env, ..stand.processor(heartbeat) });
            if is_renewed {
                assert!(later(&first).renew(&mut claimed).await.unwrap());
            }
            let found = later(&second).claim_next().await.unwrap();
            assert_eq!(found.is_none(), is_renewed || ms < 10_000, "after {ms} ms");
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_given_up_in_an_outage_gives_back_the_place_that_it_kept() {
    let options = "limits: { in_flight_per_target: 1, pause: route }, retry: { give_up_after_s: 60 }";
    let routes = ROUTES.replace("pull", &format!("pull, {options}"));
    let stand = Stand::with(&[BATCH], &routes, Still(1_000_000)).await;
    let (now, until) = (stand.env.now(), stand.env.now().plus_ms(70_000));
    stand.permit(BATCH, until).await;
    let (failure, policy) = (
        Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream },
        BreakerPolicy { longest_pause_ms: 0, notifies: false },
    );
    let other = BatchId::new("0b");
    let fail = |gate: Gate, _| gate.failed((&other, &other), &failure, policy, Timestamp(0)).0.unwrap();
    let away = (0..OPENS_AFTER).fold(Gate::default(), fail);
    let probed = away.admit(&other, Asks::Anew, Limits::default(), now, until);
    let Admission::Admitted(Some(probed), _) = probed else { panic!("{probed:?}") };
    let probed = Gate { revision: Revision(1), ..probed };
    stand.store.store_gate(&Scope::Route(RouteName::new("r")), &probed, now).await.unwrap();
    let heartbeat = stand.session("1").await;
    let tried = stand.processor(&heartbeat).claim_one(stand.batch().await).await;
    assert!(matches!(tried, Err(Stop::Recorded(..))), "{tried:?}");
    assert!(!stand.has_permit().await);
}

#[tokio::test]
async fn a_ticket_is_written_into_its_batch_though_one_that_gave_up_has_written_that_meanwhile() {
    let stand = Stand::with(&[BATCH], ONE_OF_EACH, Still(1_000_000)).await;
    let read = stand.batch().await;
    stand.permit("other", stand.env.now().plus_ms(70_000)).await;
    stand.store.store(&read.clone().noted(), Assumes::At(read.revision)).await.unwrap();
    let heartbeat = stand.session("9").await;
    let processed = stand.processor(&heartbeat).process(read).await;
    assert!(matches!(processed, Err(Stop::Ended(Outcome::Waits(_)))), "{processed:?}");
    assert!(stand.batch().await.ticket.is_some(), "nobody has its ticket but itself");
}

const CALLED: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: { http: { url: 'https://x' } }, \
                      limits: { in_flight_per_target: 1 } }]";

#[tokio::test]
async fn a_claim_whose_batch_waited_for_its_place_has_no_more_time_and_its_place_lasts_longer() {
    let stand = Stand::with(&[BATCH], CALLED, Turned::at(Timestamp(1_000_000))).await;
    let begun = stand.env.now();
    stand.permit("other", begun.plus_ms(1_000)).await;
    let heartbeat = stand.session("9").await;
    let processor = stand.processor(&heartbeat);
    let Ok(claimed) = processor.claim_one(stand.batch().await).await else { panic!("it waits in place") };
    let (waited_ms, place) = (stand.env.now().since(begun), &claimed.held[0]);
    assert!(waited_ms >= 1_000, "{waited_ms}");
    assert!(place.lease.since(claimed.deadline) >= 1_000, "{place:?}, {:?}", claimed.deadline);
    let lease_ms = processor.lease_ms(stand.routes.get(&RouteName::new("r")).unwrap());
    assert_eq!(claimed.deadline, begun.plus_ms(lease_ms), "its function's time is not longer");
}

#[test]
fn a_failure_of_which_no_limiter_hears_waits_for_as_long_as_its_answer_asks() {
    let (store, env, routes) = (MemoryStore::default(), Still(1_000), Routes::parse(CALLED).unwrap());
    let policy = &routes.get(&RouteName::new("r")).unwrap().retry;
    for (asked_ms, waits_ms) in [(5_000, 5_000), (u64::MAX, policy.longest_pause_ms)] {
        let reason = Reason::new("http_503");
        let failure = Failure { reason, retry_after_ms: Some(asked_ms), fault: Fault::Downstream };
        let class = Gatekeeper { store: &store, env: &env }.unobserved(policy, &failure);
        let until = Timestamp(1_000 + waits_ms);
        assert_eq!((class.back, class.is_own_fault), (Some((until, until)), false));
    }
}
