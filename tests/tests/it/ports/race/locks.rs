//! One leader at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupage_core::domain::lock::{Acquisition, Assumes, Bid, Holder, bid};
use groupage_lab::prelude::*;
use tokio::sync::watch;

use super::start::{NOW, RACERS, all_at_once, only};
use crate::ports::samples::{lock_of, target};

const LEASE_MS: u64 = 60_000;

fn workflow(round: u64, n: usize) -> WorkflowId {
    WorkflowId::new(format!("w{round}-{n}"))
}

fn bidder(me: &WorkflowId) -> Holder {
    Holder { workflow: me.clone(), waits_since: NOW, lease_until: NOW.plus_ms(LEASE_MS) }
}

/// Bids once for a lock seen as `seen`; the term, if that wins it.
async fn bid_once(store: &impl Store, name: &str, me: WorkflowId, seen: Option<Lock>) -> Option<Term> {
    let target = target(name);
    let Bid::Acquire(acquisition) = bid(seen.as_ref(), &target, &bidder(&me), NOW) else { return None };
    let fence = acquisition.next.fence;
    let acquired = store.acquire(&target, &acquisition).await.unwrap();
    (acquired == Acquired::Yes).then_some(Term { target, workflow: me, fence })
}

pub async fn one_of_all_wins<S: Store + Send + 'static>(store: &Arc<S>, round: u64, last: Fence) -> Fence {
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
    assert_eq!(store.release(&winner, Seq(0), lock.signals, NOW).await.unwrap(), Released::Yes);
    winner.fence
}

pub async fn one_of_all_takes_over<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let name = format!("expired-{round}");
    let dead = Term { target: target(&name), workflow: WorkflowId::new("dead"), fence: Fence(5) };
    let mut seen = lock_of(&dead);
    if let Some(holder) = &mut seen.holder {
        holder.lease_until = NOW;
    }
    let first = Acquisition { assumes: Assumes::Free, next: seen.clone() };
    assert_eq!(store.acquire(&dead.target, &first).await.unwrap(), Acquired::Yes);
    let won = all_at_once(|n| {
        let (store, name, seen) = (Arc::clone(store), name.clone(), Some(seen.clone()));
        async move { bid_once(&*store, &name, workflow(round, n), seen).await }
    });
    let winner = only(won.await);
    assert!(winner.fence > dead.fence);
    assert_eq!(store.release(&dead, Seq(0), 0, NOW).await.unwrap(), Released::Lost);
}

/// Every workflow bids, and signals when it loses, until it has led: nobody waits in vain.
pub async fn everybody_leads_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
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
            match bid(seen.as_ref(), &target(&name), &bidder(&self.me), NOW) {
                Bid::Acquire(acquisition) => match self.store.acquire(&target(&name), &acquisition).await.unwrap() {
                    Acquired::Yes => return self.lead(&name, acquisition.next.fence).await,
                    Acquired::No(lock) => seen = lock,
                },
                Bid::Held(leader) => match self.store.signal(&leader).await.unwrap() {
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
            match self.store.release(&term, Seq(0), signals, NOW).await.unwrap() {
                Released::Yes => break,
                Released::Signalled(now) => signals = now.signals,
                Released::Lost => panic!("nobody takes over a live lease"),
            }
        }
        self.released.send_modify(|count| *count += 1);
        fence
    }
}
