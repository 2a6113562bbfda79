//! The notice of a tracker's end, when its answer was lost.

use groupage_core::domain::tracker::Options;
use groupage_core::ports::{Error, Result};
use groupage_lab::prelude::*;

/// Sends, and never answers.
struct Unanswered<'a>(&'a MemoryQueues);

impl Outbox for Unanswered<'_> {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let sent = self.0.send(messages).await;
        let lost = |_| Err(Error::Unavailable { what: "sending", why: "the answer was lost".to_owned() });
        sent.into_iter().map(lost).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_overdue_trackers_notice_is_the_same_after_a_late_ack() {
    let (store, queues, env) = (MemoryStore::new(), MemoryQueues::new(), TestEnv::new(1));
    let unanswered = Unanswered(&queues);
    let tracking = Tracking { store: &store, outbox: &unanswered, env: &env };
    let id = TrackerId::new("t");
    let options = Options { deadline: Some(env.now().plus_ms(1_000)), notify: NotificationQueue::Default };
    tracking.open(id.clone(), options).await.unwrap().unwrap();
    tracking.add(&id, "k", 3).await.unwrap().unwrap();
    let first = (ItemRange::parse("t:0:0").unwrap(), Outcome::Failed);
    tracking.ack(&id, &[first]).await.unwrap().unwrap();
    // Somebody looks at the tracker to ack another of its items, and then the deadline comes.
    let group = store.look(&id, &[NodeId::group(0)], Freshness::Latest).await.unwrap().nodes.remove(0);
    env.sleep(2_000).await;
    assert_eq!(tracking.look_after(&id, Lifetimes::default()).await.unwrap().overdue, 1);
    store.mark(&id, &group.marking(&[Mark { bit: 1, failures: 1 }]).unwrap()).await.unwrap();

    env.sleep(200_000).await;
    let tracking = Tracking { store: &store, outbox: &queues, env: &env };
    assert_eq!(tracking.look_after(&id, Lifetimes::default()).await.unwrap().told, 1);
    let notices = queues.messages(&Destination::Notification(NotificationQueue::Default));
    assert_eq!(notices.len(), 2);
    assert_eq!(notices[0].body, notices[1].body, "two notices of one end");
    assert!(notices[0].body.contains(r#""failed":1"#));
}

/// A queue that was deleted must not keep trackers for ever.
#[tokio::test(start_paused = true)]
async fn a_tracker_whose_notice_cannot_be_sent_is_removed_after_its_retention() {
    let (store, queues, env) = (MemoryStore::new(), MemoryQueues::new(), TestEnv::new(1));
    let unanswered = Unanswered(&queues);
    let tracking = Tracking { store: &store, outbox: &unanswered, env: &env };
    let (id, lifetimes) = (TrackerId::new("t"), Lifetimes::default());
    let options = Options { deadline: None, notify: NotificationQueue::Default };
    tracking.open(id.clone(), options).await.unwrap().unwrap();
    tracking.seal(&id).await.unwrap().unwrap();
    env.sleep(lifetimes.retention_ms - 1).await;
    assert!(tracking.look_after(&id, lifetimes).await.is_err(), "it says that the notice cannot be sent");
    env.sleep(3_600_000).await;
    assert_eq!(tracking.look_after(&id, lifetimes).await.unwrap().removed, 1);
    assert!(store.trackers().is_empty());
}
