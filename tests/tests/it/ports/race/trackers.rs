//! Trackers: no bit is lost, no two additions share an item, one write completes.

use std::collections::BTreeSet;
use std::sync::Arc;

use groupage_core::domain::tracker::{Addition, End, Ending, Place, State};
use groupage_lab::prelude::*;

use super::start::{RACERS, all_at_once, some_at_once};
use crate::ports::fixture::Turned;
use crate::ports::samples::{opened, tracked};

const MARKERS: u16 = 32;
const ADDERS: usize = 16;

/// Acks items of a tracker as a function does.
async fn ack(store: &impl Store, outbox: &MemoryQueues, ranges: &[(ItemRange, Outcome)]) {
    let tracking = Tracking { store, outbox, env: &Turned::default() };
    tracking.ack(&ranges[0].0.tracker, ranges).await.unwrap().unwrap();
}

async fn add(store: &impl Store, id: &TrackerId, key: &str, count: u64) -> (Addition, bool) {
    let outbox = MemoryQueues::new();
    let tracking = Tracking { store, outbox: &outbox, env: &Turned::default() };
    tracking.add(id, key, count).await.unwrap().unwrap()
}

fn range(tracker: &TrackerId, group: u32, first: u16, last: u16) -> ItemRange {
    ItemRange { tracker: tracker.clone(), group, first, last }
}

async fn node(store: &impl Trackers, id: &TrackerId, node: NodeId) -> Node {
    store.look(id, &[node], Freshness::Latest).await.unwrap().nodes.remove(0)
}

/// Thirty-two write the same words at once, each its own bits of them; half of them write failures.
pub async fn no_bit_is_lost<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    const EACH: u16 = 10;
    let id = opened(&**store, &format!("bits-{round}")).await.id;
    add(&**store, &id, "k", u64::from(MARKERS * EACH)).await;
    some_at_once(usize::from(MARKERS), |n| {
        let (store, id, n) = (Arc::clone(store), id.clone(), u16::try_from(n).unwrap());
        async move {
            let outcome = if n % 2 == 0 { Outcome::Failed } else { Outcome::Succeeded };
            let items = (n..MARKERS * EACH).step_by(usize::from(MARKERS));
            let ranges: Vec<_> = items.map(|bit| (range(&id, 0, bit, bit), outcome)).collect();
            ack(&*store, &MemoryQueues::new(), &ranges).await;
        }
    })
    .await;
    let group = node(&**store, &id, NodeId::group(0)).await;
    assert_eq!((group.leading(), group.failures), (Some(MARKERS * EACH), u64::from(MARKERS * EACH / 2)));
    for bit in 0..MARKERS * EACH {
        assert_eq!(group.has_failed(bit), bit % 2 == 0);
    }
}

pub async fn additions_are_gapless_and_share_no_item<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let id = opened(&**store, &format!("additions-{round}")).await.id;
    let added = some_at_once(ADDERS, |n| {
        let (store, id) = (Arc::clone(store), id.clone());
        async move { add(&*store, &id, &format!("k{n}"), 7_000 + n as u64).await.0 }
    });
    let mut added: Vec<Addition> = added.await;
    added.sort_by_key(|addition| addition.start);
    let mut next = 0;
    for addition in added {
        assert_eq!(addition.start, next);
        next += addition.count;
    }
    assert_eq!(tracked(&**store, &id).await.unwrap().items, next);
}

pub async fn one_key_adds_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let id = opened(&**store, &format!("key-{round}")).await.id;
    add(&**store, &id, "before", 3).await;
    let added = some_at_once(ADDERS, |_| {
        let (store, id) = (Arc::clone(store), id.clone());
        async move { add(&*store, &id, "k", 9).await }
    })
    .await;
    assert!(added.iter().all(|(addition, _)| (addition.start, addition.count) == (3, 9)), "{added:?}");
    assert!(added.iter().filter(|(_, fresh)| *fresh).count() <= 1);
    assert_eq!(tracked(&**store, &id).await.unwrap().items, 12);
}

/// Everybody acks one of the last items, of two groups, except one process that seals. The last of them completes the
/// tracker: its revisions show that it was written once for that, and once for the notice.
pub async fn one_write_completes<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let open = opened(&**store, &format!("completed-{round}")).await;
    let id = open.id;
    let outbox = Arc::new(MemoryQueues::new());
    let (half, size) = (RACERS as u64 / 2, u64::from(GROUP_SIZE));
    add(&**store, &id, "k", size + half - 1).await;
    let last = u16::try_from(size - half - 1).unwrap();
    ack(&**store, &outbox, &[(range(&id, 0, 0, last), Outcome::Succeeded)]).await;
    all_at_once(|n| {
        let (store, outbox, id) = (Arc::clone(store), Arc::clone(&outbox), id.clone());
        // The sealer is another one each time: the last to come to the start tends to be first to run.
        let item = (n as u64 + round * 21) % RACERS as u64;
        async move {
            if item == RACERS as u64 - 1 {
                let tracking = Tracking { store: &*store, outbox: &*outbox, env: &Turned::default() };
                tracking.seal(&id).await.unwrap().unwrap();
                return;
            }
            let Place { group, index } = Place::of(size - half + item).unwrap();
            ack(&*store, &outbox, &[(range(&id, group, index, index), Outcome::Failed)]).await;
        }
    })
    .await;
    let tracker = tracked(&**store, &id).await.unwrap();
    let State::Ended(End { how, failed, missing, told, .. }) = &tracker.state else {
        panic!("{tracker:?} is complete, and nobody saw it")
    };
    assert_eq!((*how, *failed, *missing, *told), (Ending::Completed, RACERS as u64 - 1, 0, true));
    assert_eq!(tracker.revision.0 - open.revision.0, 4, "grown, sealed, completed, told");
    let notices = outbox.messages(&Destination::Notification(NotificationQueue::Default));
    let bodies: BTreeSet<&String> = notices.iter().map(|notice| &notice.body).collect();
    assert_eq!(bodies.len(), 1, "all tell the same");
    let named = ItemId { tracker: id, at: Place::of(size - half).unwrap() };
    assert!(bodies.iter().all(|body| body.contains(&named.to_string())), "the failed ones are named");
}
