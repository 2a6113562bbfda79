//! Sixty-four workflows at once: of those who want the same thing, exactly one gets it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use shared::domain::batch;
use shared::domain::id::{BatchId, Fence, WorkflowId};
use shared::domain::lock::{Bid, Lock, Term, bid};
use shared::domain::time::Timestamp;
use shared::ports::{Acquired, Joined, Released, Signalled, Store, Stored};
use tokio::sync::{Barrier, watch};

use crate::fixture::{Fixture, InMemory, LosingAnswers, OnDynamo};
use crate::samples::{lock_of, target, waiting};

const RACERS: usize = 64;
/// Nobody's clock moves: only the fence can tell one term from the next.
const NOW: Timestamp = Timestamp(1_000);
const LEASE_MS: u64 = 60_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    races(InMemory::start().await, 100, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_dynamodb() {
    races(OnDynamo::start().await, 10, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_dynamodb_losing_answers() {
    races(LosingAnswers::start().await, 5, 0).await;
}

/// Runs every race `rounds` times, and the one in which all must win, with its many more writes, `turns` times.
async fn races<F: Fixture>(fixture: F, rounds: u64, turns: u64) {
    let store = fixture.store();
    let mut fence = Fence(0);
    for round in 0..rounds {
        fence = one_of_all_wins(&store, round, fence).await;
        one_of_all_takes_over(&store, round).await;
        a_task_joins_one_batch(&store, round).await;
        a_revision_is_written_once(&store, round).await;
    }
    for turn in 0..turns {
        everybody_leads_once(&store, turn).await;
    }
}

/// Runs `racer` sixty-four times at once, from one start.
async fn all_at_once<T, Fut>(racer: impl Fn(usize) -> Fut) -> Vec<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(RACERS));
    let racers = (0..RACERS).map(|n| {
        let (start, racer) = (Arc::clone(&start), racer(n));
        tokio::spawn(async move {
            start.wait().await;
            racer.await
        })
    });
    join_all(racers).await.into_iter().map(|racer| racer.expect("a racer does not panic")).collect()
}

fn workflow(round: u64, n: usize) -> WorkflowId {
    WorkflowId::new(format!("w{round}-{n}"))
}

/// Bids once for a lock seen as `seen`; the term, if that wins it.
async fn bid_once(store: &impl Store, name: &str, me: WorkflowId, seen: Option<Lock>) -> Option<Term> {
    let target = target(name);
    let Bid::Acquire(acquisition) = bid(seen.as_ref(), &target, &me, NOW, LEASE_MS) else { return None };
    let fence = acquisition.next.fence;
    let acquired = store.acquire(&target, &acquisition).await.unwrap();
    (acquired == Acquired::Yes).then_some(Term { target, workflow: me, fence })
}

/// The only element of those that are there.
fn only<T>(found: Vec<Option<T>>) -> T {
    let mut found: Vec<T> = found.into_iter().flatten().collect();
    assert_eq!(found.len(), 1, "exactly one wins");
    found.remove(0)
}

async fn one_of_all_wins<S: Store + Send + 'static>(store: &Arc<S>, round: u64, last: Fence) -> Fence {
    const NAME: &str = "free";
    let seen = store.lock(&target(NAME)).await.unwrap();
    let won = all_at_once(|n| {
        let (store, seen) = (Arc::clone(store), seen.clone());
        async move { bid_once(&*store, NAME, workflow(round, n), seen).await }
    });
    let winner = only(won.await);
    assert!(winner.fence > last, "the fence rises");
    let lock = store.lock(&winner.target).await.unwrap().expect("held");
    assert!(lock.is_led_by(&winner));
    assert_eq!(store.release(&winner, lock.signals, NOW).await.unwrap(), Released::Yes);
    winner.fence
}

async fn one_of_all_takes_over<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let name = format!("expired-{round}");
    let dead = Term { target: target(&name), workflow: WorkflowId::new("dead"), fence: Fence(5) };
    let mut seen = lock_of(&dead);
    if let Some(holder) = &mut seen.holder {
        holder.lease_until = NOW;
    }
    let first = shared::domain::lock::Acquisition { assumes: shared::domain::lock::Assumes::Free, next: seen.clone() };
    assert_eq!(store.acquire(&dead.target, &first).await.unwrap(), Acquired::Yes);
    let won = all_at_once(|n| {
        let (store, name, seen) = (Arc::clone(store), name.clone(), Some(seen.clone()));
        async move { bid_once(&*store, &name, workflow(round, n), seen).await }
    });
    let winner = only(won.await);
    assert!(winner.fence > dead.fence);
    assert_eq!(store.release(&dead, 0, NOW).await.unwrap(), Released::Lost);
}

/// Every workflow bids, and signals when it loses, until it has led: nobody waits in vain.
async fn everybody_leads_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let inside = Arc::new(AtomicUsize::new(0));
    let (released, releases) = watch::channel(0_u64);
    let released = Arc::new(released);
    let terms = all_at_once(|n| {
        let racer = Racer {
            store: Arc::clone(store),
            me: workflow(round, n),
            inside: Arc::clone(&inside),
            released: Arc::clone(&released),
            releases: releases.clone(),
        };
        racer.lead_once(format!("turns-{round}"))
    })
    .await;
    let fences: BTreeSet<Fence> = terms.into_iter().collect();
    assert_eq!(fences.len(), RACERS, "every term has a fence of its own");
}

struct Racer<S> {
    store: Arc<S>,
    me: WorkflowId,
    inside: Arc<AtomicUsize>,
    released: Arc<watch::Sender<u64>>,
    releases: watch::Receiver<u64>,
}

impl<S: Store + Send> Racer<S> {
    async fn lead_once(mut self, name: String) -> Fence {
        let mut seen = None;
        loop {
            // Marked before the bid: a release in between is not missed.
            self.releases.mark_unchanged();
            match bid(seen.as_ref(), &target(&name), &self.me, NOW, LEASE_MS) {
                Bid::Acquire(acquisition) => match self.store.acquire(&target(&name), &acquisition).await.unwrap() {
                    Acquired::Yes => return self.lead(&name, acquisition.next.fence).await,
                    Acquired::No(lock) => seen = lock,
                },
                Bid::Held(holder) => match self.store.signal(&target(&name), &holder).await.unwrap() {
                    Signalled::Yes => {
                        self.releases.changed().await.expect("somebody leads");
                        seen = None;
                    }
                    Signalled::No(lock) => seen = lock,
                },
                Bid::Leads(_) => panic!("a workflow leads once"),
            }
        }
    }

    async fn lead(self, name: &str, fence: Fence) -> Fence {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "one leader at a time");
        let term = Term { target: target(name), workflow: self.me, fence };
        tokio::task::yield_now().await;
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1);
        let mut signals = 0;
        loop {
            match self.store.release(&term, signals, NOW).await.unwrap() {
                Released::Yes => break,
                Released::Signalled(now) => signals = now,
                Released::Lost => panic!("nobody takes over a live lease"),
            }
        }
        self.released.send_modify(|count| *count += 1);
        fence
    }
}

async fn a_task_joins_one_batch<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let candidate = waiting(&**store, &format!("t{round}"), &target("joins")).await;
    let joined = all_at_once(|n| {
        let (store, candidate) = (Arc::clone(store), candidate.clone());
        async move {
            let batch = BatchId::new(format!("b{n}"));
            let joined = store.join(&candidate.id, candidate.round, &batch).await.unwrap();
            (joined == Joined::Yes).then_some(batch)
        }
    });
    let batch = only(joined.await);
    assert_eq!(crate::samples::now(&**store, &candidate.id).await.status.batch(), Some(&batch));
}

async fn a_revision_is_written_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let open = crate::samples::batch(&format!("r{round}"), &target("revisions"), 1);
    store.store(&open, batch::Assumes::Absent).await.unwrap();
    let written = all_at_once(|n| {
        let store = Arc::clone(store);
        let next = open.settled(shared::domain::outcome::Results::new(), Timestamp(n as u64));
        let assumes = batch::Assumes::At(open.revision);
        async move { (store.store(&next, assumes).await.unwrap() == Stored::Yes).then_some(next) }
    });
    let winner = only(written.await);
    assert_eq!(store.batch(&open.id).await.unwrap(), Some(winner));
}
