//! As many calls as a gate lets through, and no two at one time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupage_core::domain::gate::{Admission, Asks, IN_PLACE_MS, Limits, Rates};
use groupage_lab::prelude::*;
use tokio::sync::Semaphore;

use super::start::{NOW, RACERS, all_at_once};

const IN_FLIGHT: usize = 3;
const GAP_MS: u64 = 100;

fn scope(name: &str, round: u64) -> Scope {
    Scope::Route(RouteName::new(format!("{name}-{round}")))
}

fn in_flight() -> Limits {
    Limits { in_flight: Some(IN_FLIGHT), ..Limits::default() }
}

/// Tries to pass until the gate itself says yes or no.
async fn pass(store: &impl Store, scope: &Scope, batch: &BatchId, limits: Limits) -> Option<()> {
    loop {
        match store.gate(scope).await.unwrap().admit(batch, Asks::Anew, limits, NOW, NOW.plus_ms(60_000)) {
            Admission::Admitted(next, _) => {
                let next = next.expect("something is limited");
                if store.store_gate(scope, &next, NOW).await.unwrap() == Stored::Yes {
                    return Some(());
                }
            }
            Admission::LinesUp { .. } | Admission::Later { .. } | Admission::Away { .. } => return None,
        }
    }
}

/// Asks until the gate is written: the time of the call or of the ticket, and the ticket.
async fn line_up(store: &impl Store, scope: &Scope, batch: &BatchId, limits: Limits) -> (Timestamp, Option<u64>) {
    loop {
        let gate = store.gate(scope).await.unwrap();
        let (next, time) = match gate.admit(batch, Asks::Anew, limits, NOW, NOW.plus_ms(60_000)) {
            Admission::Admitted(next, start) => (next, (start, None)),
            Admission::Later { gate: next, ticket, at } => (next, (at, ticket)),
            Admission::LinesUp { flow, behind } => {
                let Some(taken) = store.take_ticket(scope, flow, behind).await.unwrap() else { continue };
                let tag = taken.queue.flows[&flow].last;
                return (taken.time_of(tag, limits, NOW.plus_ms(60_000), NOW).unwrap_or(NOW), Some(tag));
            }
            Admission::Away { .. } => panic!("nothing has failed, and nobody holds calls back"),
        };
        let next = next.expect("each of them takes a time");
        if store.store_gate(scope, &next, NOW).await.unwrap() == Stored::Yes {
            return time;
        }
    }
}

async fn leave(store: &impl Store, scope: &Scope, batch: &BatchId) {
    while let Some(next) = store.gate(scope).await.unwrap().without(batch) {
        if store.store_gate(scope, &next, NOW).await.unwrap() == Stored::Yes {
            return;
        }
    }
}

/// Nobody leaves, so those who pass are all in flight at once.
pub async fn as_many_pass_as_may_be_in_flight<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let scope = scope("crowded", round);
    let passed = all_at_once(|n| {
        let (store, scope, batch) = (Arc::clone(store), scope.clone(), BatchId::new(format!("b{n}")));
        async move { pass(&*store, &scope, &batch, in_flight()).await.map(|_| batch) }
    });
    let passed: BTreeSet<BatchId> = passed.await.into_iter().flatten().collect();
    assert_eq!(passed.len(), IN_FLIGHT);
    let gate = store.gate(&scope).await.unwrap();
    assert_eq!(gate.permits.leases.into_keys().collect::<BTreeSet<_>>(), passed, "the gate knows who they are");
}

pub async fn no_two_calls_get_one_time<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let scope = scope("paced", round);
    let starts = all_at_once(|n| {
        let (store, scope, batch) = (Arc::clone(store), scope.clone(), BatchId::new(format!("b{n}")));
        async move { line_up(&*store, &scope, &batch, Limits { rates: Rates::every(GAP_MS), ..Limits::default() }).await }
    });
    let mut starts: Vec<(Timestamp, Option<u64>)> = starts.await;
    starts.sort();
    let called: Vec<u64> = starts.iter().filter(|(_, ticket)| ticket.is_none()).map(|(start, _)| start.0).collect();
    assert!(called.windows(2).all(|pair| pair[1] - pair[0] >= GAP_MS), "{starts:?}");
    let tickets: Vec<u64> = starts.iter().filter_map(|(_, ticket)| *ticket).collect();
    assert_eq!(tickets.iter().collect::<BTreeSet<_>>().len(), tickets.len(), "{starts:?}");
    let waits = |(start, ticket): &(Timestamp, Option<u64>)| ticket.is_some() == (start.since(NOW) > IN_PLACE_MS);
    assert!(starts.iter().all(waits), "{starts:?}");
}

/// A batch that finds the gate full waits until another leaves: none waits in vain, and there are never too many
/// inside.
pub async fn everybody_passes_once<S: Store + Send + 'static>(store: &Arc<S>, turn: u64) {
    let scope = scope("turns", turn);
    let inside = Arc::new(AtomicUsize::new(0));
    // One more for everybody who has left.
    let left = Arc::new(Semaphore::new(0));
    all_at_once(|n| {
        let (store, scope, batch) = (Arc::clone(store), scope.clone(), BatchId::new(format!("b{n}")));
        let (inside, left) = (Arc::clone(&inside), Arc::clone(&left));
        async move {
            while pass(&*store, &scope, &batch, in_flight()).await.is_none() {
                left.acquire().await.expect("it is never closed").forget();
            }
            assert!(inside.fetch_add(1, Ordering::SeqCst) < IN_FLIGHT, "too many calls in flight");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            leave(&*store, &scope, &batch).await;
            left.add_permits(1);
        }
    })
    .await;
    let gate = store.gate(&scope).await.unwrap();
    assert!(gate.permits.leases.is_empty());
    assert!(gate.revision.0 >= 2 * RACERS as u64, "everybody came and went");
}
