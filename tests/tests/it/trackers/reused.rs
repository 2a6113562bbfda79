//! Trackers that are read as they were, before the id was another one's, or not at all.

use groupage_core::domain::tracker::{Ending, State};
use groupage_core::ports::{Error, Result};
use groupage_lab::prelude::*;

/// Trackers of which some looks are answered otherwise.
struct Seen<'a, V> {
    now: &'a MemoryStore,
    view: V,
}

impl<V: Sync> layer::Layer for Seen<'_, V> {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        self.now
    }
}

impl<V: Fn(&TrackerId, Freshness) -> Option<Result<Looked>> + Sync> layer::Trackers for Seen<'_, V> {
    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        match (self.view)(id, freshness) {
            Some(seen) => seen,
            None => self.now.look(id, nodes, freshness).await,
        }
    }
}

async fn acked_after(how: Ending) {
    let memory = Memory::new(1);
    let (Memory { store, queues, env }, tracking) = (&memory, memory.tracking());
    let range = |text: &str| (ItemRange::parse(text).unwrap(), Outcome::Succeeded);
    let id = track(tracking, "t", 1_000).await;
    tracking.ack(&id, &[range("t:0:0-9")]).await.unwrap().unwrap();
    let used = store.look(&id, &[NodeId::group(0)], Freshness::Latest).await.unwrap();
    match how {
        Ending::Completed => {
            tracking.ack(&id, &[range("t:0:10-999")]).await.unwrap().unwrap();
            tracking.seal(&id).await.unwrap().unwrap();
        }
        Ending::Abandoned | Ending::Overdue => drop(tracking.abandon(&id).await.unwrap().unwrap()),
    }
    let ended = store.look(&id, &[NodeId::group(0)], Freshness::Latest).await.unwrap();
    env.sleep(365 * 24 * 3_600_000).await;
    assert_eq!(tracking.look_after(&id, Lifetimes::default()).await.unwrap().removed, 1);
    track(tracking, "t", 1_000).await;

    for (view, first) in [(used, 5), (ended, 505)] {
        let view = move |_: &TrackerId, freshness| (freshness == Freshness::Eventual).then(|| Ok(view.clone()));
        let old = Seen { now: store, view };
        let tracking = Tracking { store: &old, outbox: queues, env };
        let (first, last) = (format!("t:0:{first}"), format!("t:0:{}", first + 300));
        let acked = tracking.ack(&id, &[range(&first), range(&last)]).await.unwrap().unwrap();
        assert_eq!(acked.fresh, 2, "{how:?}: {first} and {last} are new");
    }
    let node = store.look(&id, &[NodeId::group(0)], Freshness::Latest).await.unwrap().nodes.remove(0);
    assert!([5, 305, 505, 805].into_iter().all(|bit| node.is_done(bit)) && node.count() == 4, "{how:?}");
    assert!(store.trackers().iter().all(|tracker| tracker.state == State::Open), "{how:?}");
}

#[tokio::test(start_paused = true)]
async fn an_old_view_of_a_tracker_loses_no_ack_of_the_next() {
    acked_after(Ending::Completed).await;
    acked_after(Ending::Abandoned).await;
}

/// A batch's other items do not wait, and the batch comes again until all are acked: a newer version may be able to
/// read it.
#[tokio::test(start_paused = true)]
async fn a_tracker_that_cannot_be_read_keeps_only_its_own_items_waiting() {
    let memory = Memory::new(1);
    let (Memory { store, queues: outbox, env }, tracking) = (&memory, memory.tracking());
    for id in ["t", "u", "v"] {
        track(tracking, id, 1).await;
    }
    let broken = || Err(Error::Broken { what: "tracker table", why: "a test".to_owned() });
    let one = Seen { now: store, view: |id: &TrackerId, _| (id.as_str() == "u").then(broken) };
    let items = || ["t:0:0", "u:0:0", "v:0:0"].map(|item| (ItemId::parse(item).unwrap(), Outcome::Failed)).to_vec();
    let settled = Tracking { store: &one, outbox, env }.settle(items()).await;
    assert_eq!(settled.unanswered.len(), 1);
    assert!(settled.all().is_err(), "whoever settled them asks again");
    for (id, failed) in [("t", 1), ("u", 0), ("v", 1)] {
        assert_eq!(tracking.progress(&TrackerId::new(id)).await.unwrap().unwrap().failed, failed, "{id}");
    }
}
