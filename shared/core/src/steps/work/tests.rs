//! A worker's claims and its places, beside other deliveries.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;

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
use crate::steps::still::Still;
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

const fn processor<'a>(
    store: &'a MemoryStore,
    outbox: &'a MemoryQueues,
    env: &'a Still,
    routes: &'a Routes,
    announced: &'a Announced,
    heartbeat: &'a Heartbeat<'a, MemoryStore, Still>,
) -> Processor<'a, MemoryStore, MemoryQueues, Silent, Still> {
    Processor { store, outbox, downstream: &Silent, env, routes, patience_ms: 1, announced, heartbeat }
}

#[tokio::test]
async fn a_batch_whose_worker_ends_its_session_is_free_at_once() {
    let (store, outbox, routes) = (MemoryStore::default(), MemoryQueues::default(), Routes::parse(ROUTES).unwrap());
    freeze(&store, "0a").await;
    let (env, route, pool) = (Still(1_000_000), RouteName::new("r"), Pool::new("r"));
    let announced = Announced::default();
    let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
    let heartbeat = |unique| Heartbeat::new(&store, &env, Timing::default(), SessionId::within(&pool, unique), unique);
    let first = heartbeat("9");
    first.open().await.unwrap().unwrap();
    assert!(Worker::new(processor(&first), route.clone()).claim_next().await.unwrap().is_some());
    // Its id comes first, and so does its half of the parts.
    let second = heartbeat("1");
    second.open().await.unwrap().unwrap();
    let mut second = Worker::new(processor(&second), route);
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
    let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
    let id = BatchId::new("0a");
    let frozen = store.batch(&id).await.unwrap().unwrap();
    let heartbeat = Heartbeat::new(&store, &env, Timing::default(), SessionId::within(&pool, "9"), "9");
    heartbeat.open().await.unwrap().unwrap();
    let mut worker = Worker::new(processor(&heartbeat), route.clone());
    let claimed = worker.claim_next().await.unwrap().unwrap();
    // Another worker read the batch before it was claimed.
    let (other, lease) = (SessionId::within(&pool, "1"), env.now().plus_ms(10_000));
    let passed =
        processor(&heartbeat).gatekeeper().admit(routes.get(&route).unwrap(), &frozen, &other, lease).await.unwrap();
    assert!(matches!(passed, Passed::Yes { .. }), "{passed:?}");
    let target = Scope::Target(frozen.target.whole());
    assert!(store.gate(&target).await.unwrap().counts(&id));
    let later = Still(1_000_500);
    let mut worker = Worker::new(Processor { env: &later, ..processor(&heartbeat) }, route);
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
    let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
    let read = store.batch(&id).await.unwrap().unwrap();
    let target = Scope::Target(read.target.whole());
    let kept = [(id.clone(), env.now().plus_ms(70_000))].into();
    let kept =
        Gate { revision: Revision(1), permits: Semaphore { leases: kept, ..Semaphore::default() }, ..Gate::default() };
    store.store_gate(&target, &kept, env.now()).await.unwrap();
    let heartbeat = |unique| Heartbeat::new(&store, &env, Timing::default(), SessionId::within(&pool, unique), unique);
    let lost = heartbeat("1");
    lost.open().await.unwrap().unwrap();
    let beat = store.session(lost.id()).await.unwrap().unwrap().beat;
    store.end_session(lost.id(), beat).await.unwrap();
    let tried = processor(&lost).claim_one(read.clone()).await;
    assert!(matches!(tried, Err(Stop::Ended(Outcome::ClaimLost))), "{tried:?}");
    assert!(!store.gate(&target).await.unwrap().counts(&id), "nobody calls it");
    // One that passed the gate before, by what it read of the batch, would call it without a place.
    let other = heartbeat("9");
    other.open().await.unwrap().unwrap();
    let tried = processor(&other).claim_one(read).await;
    assert!(matches!(tried, Err(Stop::Failed(Error::Conflict(_)))), "{tried:?}");
    let again = store.batch(&id).await.unwrap().unwrap();
    let tried = processor(&other).claim_one(again).await;
    assert!(tried.is_ok(), "{tried:?}");
}

#[tokio::test]
async fn sweep_wakes_what_waits_for_a_worker_behind_a_limit_that_is_removed() {
    let (store, outbox, announced) = (MemoryStore::default(), MemoryQueues::default(), Announced::default());
    (10..40).for_each(|n| freeze(&store, &format!("0{n}")).now_or_never().unwrap());
    let env = Still(1_000_000);
    let heartbeat = Heartbeat::new(&store, &env, Timing::default(), SessionId::new("r/1"), "1");
    heartbeat.open().await.unwrap().unwrap();
    let mut counts = Vec::new();
    for limits in ["pull, limits: { calls_per_minute: 1 }", "pull"] {
        let routes = Routes::parse(&ROUTES.replace("pull", limits)).unwrap();
        let (store, outbox, env, routes) = (&store, &outbox, &env, &routes);
        let (budget, every_ms, lifetimes) = (Budget::default(), 60_000, Lifetimes::default());
        Sweep { store, outbox, env, routes, budget, every_ms, lifetimes }.run().await.1.unwrap();
        let later = Still(env.0 + 1);
        let processor = processor(store, outbox, &later, routes, &announced, &heartbeat);
        let mut worker = Worker::new(processor, RouteName::new("r"));
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
    }
    assert_eq!(counts, [1, 28], "one is due within a minute anyway");
}

#[tokio::test]
async fn a_long_claim_that_is_renewed_keeps_its_place_and_one_that_is_not_loses_it() {
    for is_renewed in [true, false] {
        let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
        let routes = Routes::parse(ONE_OF_EACH).unwrap();
        freeze(&store, "0a").await;
        freeze(&store, "0b").await;
        let (env, route, pool) = (Still(1_000_000), RouteName::new("r"), Pool::new("r"));
        let announced = Announced::default();
        let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
        let timing = Timing { expiry_ms: 600_000, ..Timing::default() };
        let heartbeat = |unique| Heartbeat::new(&store, &env, timing, SessionId::within(&pool, unique), unique);
        let (first, second) = (heartbeat("1"), heartbeat("9"));
        first.open().await.unwrap().unwrap();
        second.open().await.unwrap().unwrap();
        let mut claimed = Worker::new(processor(&first), route.clone()).claim_next().await.unwrap().unwrap();
        // Places last for 10,002 ms here.
        for ms in [9_000, 18_000] {
            let env = Still(env.0 + ms);
            let later = |heartbeat| Processor { env: &env, ..processor(heartbeat) };
            if is_renewed {
                let worker = Worker::new(later(&first), route.clone());
                assert!(worker.renew(&mut claimed).await.unwrap());
            }
            let found = Worker::new(later(&second), route.clone()).claim_next().await.unwrap();
            assert_eq!(found.is_none(), is_renewed || ms < 10_000, "after {ms} ms");
        }
    }
}

#[tokio::test]
async fn a_batch_that_is_given_up_in_an_outage_gives_back_the_place_that_it_kept() {
    let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
    let options = "limits: { in_flight_per_target: 1, pause: route }, retry: { give_up_after_s: 60 }";
    let routes = Routes::parse(&ROUTES.replace("pull", &format!("pull, {options}"))).unwrap();
    freeze(&store, "0a").await;
    let (env, id, target) = (Still(1_000_000), BatchId::new("0a"), Scope::Target(Target::new("r:t")));
    let kept = [(id.clone(), env.now().plus_ms(70_000))].into();
    let kept =
        Gate { revision: Revision(1), permits: Semaphore { leases: kept, ..Semaphore::default() }, ..Gate::default() };
    store.store_gate(&target, &kept, env.now()).await.unwrap();
    let (failure, policy) = (
        Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream },
        BreakerPolicy { longest_pause_ms: 0, notifies: false },
    );
    let other = BatchId::new("0b");
    let fail = |gate: Gate, _| gate.failed((&other, &other), &failure, policy, Timestamp(0)).0.unwrap();
    let away = (0..OPENS_AFTER).fold(Gate::default(), fail);
    let probed = away.admit(&other, Asks::Anew, Limits::default(), env.now(), env.now().plus_ms(70_000));
    let Admission::Admitted(Some(probed), _) = probed else { panic!("{probed:?}") };
    let probed = Gate { revision: Revision(1), ..probed };
    store.store_gate(&Scope::Route(RouteName::new("r")), &probed, env.now()).await.unwrap();
    let announced = Announced::default();
    let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
    let heartbeat = Heartbeat::new(&store, &env, Timing::default(), SessionId::new("r/1"), "1");
    heartbeat.open().await.unwrap().unwrap();
    let batch = store.batch(&id).await.unwrap().unwrap();
    let tried = processor(&heartbeat).claim_one(batch).await;
    assert!(matches!(tried, Err(Stop::Recorded(..))), "{tried:?}");
    assert!(!store.gate(&target).await.unwrap().counts(&id));
}

/// A clock that goes on only while somebody sleeps.
struct Asleep(AtomicU64);

impl Env for Asleep {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        "fresh".to_owned()
    }

    async fn sleep(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_ticket_is_written_into_its_batch_though_one_that_gave_up_has_written_that_meanwhile() {
    let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
    let routes = Routes::parse(ONE_OF_EACH).unwrap();
    freeze(&store, "0a").await;
    let (env, id, announced) = (Still(1_000_000), BatchId::new("0a"), Announced::default());
    let processor = |heartbeat| processor(&store, &outbox, &env, &routes, &announced, heartbeat);
    let read = store.batch(&id).await.unwrap().unwrap();
    let taken = [(BatchId::new("other"), env.now().plus_ms(70_000))].into();
    let full =
        Gate { revision: Revision(1), permits: Semaphore { leases: taken, ..Semaphore::default() }, ..Gate::default() };
    store.store_gate(&Scope::Target(read.target.whole()), &full, env.now()).await.unwrap();
    store.store(&read.clone().noted(), Assumes::At(read.revision)).await.unwrap();
    let session = SessionId::within(&Pool::new("r"), "9");
    let heartbeat = Heartbeat::new(&store, &env, Timing::default(), session, "9");
    heartbeat.open().await.unwrap().unwrap();
    let processed = processor(&heartbeat).process(read).await;
    assert!(matches!(processed, Err(Stop::Ended(Outcome::Waits(_)))), "{processed:?}");
    assert!(store.batch(&id).await.unwrap().unwrap().ticket.is_some(), "nobody has its ticket but itself");
}

const CALLED: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: { http: { url: 'https://x' } }, \
                      limits: { in_flight_per_target: 1 } }]";

#[tokio::test]
async fn a_claim_whose_batch_waited_for_its_place_has_no_more_time_and_its_place_lasts_longer() {
    let (store, outbox) = (MemoryStore::default(), MemoryQueues::default());
    let routes = Routes::parse(CALLED).unwrap();
    freeze(&store, "0a").await;
    let (env, id, announced) = (Asleep(AtomicU64::new(1_000_000)), BatchId::new("0a"), Announced::default());
    let session = SessionId::within(&Pool::new("r"), "9");
    let heartbeat = Heartbeat::new(&store, &env, Timing::default(), session, "9");
    let processor = Processor {
        store: &store,
        outbox: &outbox,
        downstream: &Silent,
        env: &env,
        routes: &routes,
        patience_ms: 1,
        announced: &announced,
        heartbeat: &heartbeat,
    };
    let read = store.batch(&id).await.unwrap().unwrap();
    let (begun, of_other) = (env.now(), env.now().plus_ms(1_000));
    let full = Gate {
        revision: Revision(1),
        permits: Semaphore { leases: [(BatchId::new("other"), of_other)].into(), ..Semaphore::default() },
        ..Gate::default()
    };
    store.store_gate(&Scope::Target(read.target.whole()), &full, begun).await.unwrap();
    let Ok(claimed) = processor.claim_one(read).await else { panic!("it waits in place") };
    let (waited_ms, place) = (env.now().since(begun), &claimed.held[0]);
    assert!(waited_ms >= 1_000, "{waited_ms}");
    assert!(place.lease.since(claimed.deadline) >= 1_000, "{place:?}, {:?}", claimed.deadline);
    let lease_ms = processor.lease_ms(routes.get(&RouteName::new("r")).unwrap());
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
