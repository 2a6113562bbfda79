//! Lists: tokens without holes, none taken twice, one key takes once.

use std::collections::BTreeSet;
use std::sync::Arc;

use groupage_core::steps::list::{Listing, Taken};
use groupage_lab::prelude::*;

use super::start::{RACERS, all_at_once, some_at_once};
use crate::ports::fixture::Turned;

const PUTTERS: usize = 16;

async fn put(store: &impl Store, id: &ListId, key: &str, count: usize) -> (u64, u64) {
    let messages: Vec<String> = (0..count).map(|n| format!("{{\"id\":\"{key}-{n}\",\"payload\":{{}}}}")).collect();
    let outbox = MemoryQueues::new();
    let listing = Listing { store, outbox: &outbox, env: &Turned::default() };
    let (addition, _) = listing.put(id, key, &messages).await.unwrap().unwrap();
    (addition.start.0, addition.count)
}

async fn release(store: &impl Store, outbox: &MemoryQueues, id: &ListId, key: &str, count: u64) -> Taken {
    let listing = Listing { store, outbox, env: &Turned::default() };
    listing.release(id, key, count).await.unwrap().unwrap()
}

/// Sixteen put at once on a list that is not there yet.
pub async fn tokens_have_no_holes<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let id = ListId::new(format!("put-{round}"));
    let ranges = some_at_once(PUTTERS, |n| {
        let (store, id) = (Arc::clone(store), id.clone());
        async move { put(&*store, &id, &format!("k{n}"), 1 + n % 4).await }
    })
    .await;
    let mut tokens = BTreeSet::new();
    for (start, count) in ranges {
        assert!((start..start + count).all(|token| tokens.insert(token)), "a token was given twice");
    }
    assert!(tokens.iter().copied().eq(0..tokens.len() as u64), "there is a hole");
    assert_eq!(store.list(&id).await.unwrap().unwrap().tail.given.0, tokens.len() as u64);
}

/// Sixty-four release at once, one or three tasks each, from a list that has too few for all of them.
pub async fn no_token_is_taken_twice<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let id = ListId::new(format!("take-{round}"));
    put(&**store, &id, "k", 97).await;
    let outbox = Arc::new(MemoryQueues::new());
    let taken = all_at_once(|n| {
        let (store, id, outbox) = (Arc::clone(store), id.clone(), Arc::clone(&outbox));
        async move { release(&*store, &outbox, &id, &format!("r{n}"), if n % 2 == 0 { 1 } else { 3 }).await }
    })
    .await;
    let mut tokens = BTreeSet::new();
    for Taken { start, count, .. } in taken {
        assert!((start.0..start.0 + count).all(|token| tokens.insert(token)), "a token was taken twice");
    }
    assert_eq!(tokens.len(), 97, "a token was lost");
    let sent: BTreeSet<String> = outbox.messages(&Destination::Tasks).into_iter().map(|sent| sent.body).collect();
    assert_eq!((sent.len(), outbox.messages(&Destination::Tasks).len()), (97, 97));
    let list = store.list(&id).await.unwrap().unwrap();
    assert!(list.waiting() == 0 && list.head.reservations.is_empty());
}

/// Sixty-four repeats of one call at once.
pub async fn one_key_takes_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let id = ListId::new(format!("key-{round}"));
    put(&**store, &id, "k", 97).await;
    let outbox = Arc::new(MemoryQueues::new());
    let taken = all_at_once(|_| {
        let (store, id, outbox) = (Arc::clone(store), id.clone(), Arc::clone(&outbox));
        async move { release(&*store, &outbox, &id, "r", 5).await }
    })
    .await;
    assert_eq!(taken.len(), RACERS);
    assert!(taken.iter().all(|taken| (taken.start.0, taken.count) == (0, 5)), "{taken:?}");
    assert_eq!(store.list(&id).await.unwrap().unwrap().head.taken.0, 5);
}
