//! Tasks that end without a call: their lane goes on, and a notice that is refused keeps nobody back.

use super::*;
use crate::domain::lane::{Numbering, OnFailure};
use crate::domain::notice::UNDELIVERABLE;
use crate::domain::task::{RETENTION_DAYS, Status, Task};
use crate::domain::time::{DAY_MS, Timestamp};
use crate::domain::tracker::{Options, Outcome};
use crate::domain::{ItemId, NotificationQueue, Round, RouteName, Target, TrackerId, Traits};
use crate::memory::{MemoryQueues, MemoryStore};
use crate::ports::{self, Destination, Outgoing, Waiting};
use crate::routes::Routes;
use crate::steps::cancel::Cancelling;
use crate::steps::still::Still;
use crate::steps::track::Tracking;

/// Queues of which that for notices may refuse all.
#[derive(Default)]
struct Queues {
    inner: MemoryQueues,
    refuses: bool,
}

impl Outbox for Queues {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<ports::Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let is_refused = self.refuses && matches!(message.to, Destination::Notification(_));
            let refusal = || ports::Error::Broken { what: "send a message", why: "the queue refuses it".to_owned() };
            answers.extend(if is_refused { vec![Err(refusal())] } else { self.inner.send(vec![message]).await });
        }
        answers
    }
}

const ROUTES: &str = "version: 1\nroutes: [{ name: r, target: t, ordered_by: k, notify: { failure: default }, \
                      downstream: pull }]";
const NOW: Still = Still(1_000);

fn id(n: u8) -> TaskId {
    TaskId::new(format!("t{n}"))
}

fn lane_id() -> LaneId {
    LaneId::of(&RouteName::new("r"), "k")
}

fn notify() -> Notify {
    Notify { failure: NotificationQueue::Default, ..Notify::default() }
}

/// A lane of three tasks, each with an item of one tracker, whose first one has the turn.
async fn lane(store: &MemoryStore, outbox: &Queues) -> TrackerId {
    let tracking = Tracking { store, outbox, env: &NOW };
    let tracker = TrackerId::new("all");
    tracking.open(tracker.clone(), Options { deadline: None, notify: NotificationQueue::None }).await.unwrap().unwrap();
    tracking.add(&tracker, "key", 3).await.unwrap().unwrap();
    let arrival = |n| {
        let target = Target::of(&RouteName::new("r"), "t");
        let task = Task::new(id(n), target.clone(), "{}".to_owned(), String::new(), Timestamp(0));
        let item = ItemId::parse(&format!("all:0:{n}")).unwrap();
        Arrival { task: task.with_item(Some(item)), target, sequence: None }
    };
    let ordering = Ordering { store, outbox, env: &NOW };
    let lined = ordering.line_up(&lane_id(), Numbering::ByArrival, &[0, 1, 2].map(arrival), &notify()).await;
    assert!(lined.iter().all(Result::is_ok), "{lined:?}");
    tracker
}

async fn hand_over(
    store: &MemoryStore,
    outbox: &Queues,
    env: &Still,
    on_failure: OnFailure,
) -> Result<HandedOver, Error> {
    let over = Over { task: id(0), round: Round(0), lane: lane_id(), outcome: Outcome::Failed };
    Ordering { store, outbox, env }.hand_over(&[over], on_failure, &notify()).await
}

/// Tasks of which the tracker knows that they failed, and messages for people and for the rejected queue.
async fn heard(store: &MemoryStore, outbox: &Queues, tracker: &TrackerId) -> (u64, usize, usize) {
    let progress = Tracking { store, outbox, env: &NOW }.progress(tracker).await.unwrap().unwrap();
    let notices = outbox.inner.messages(&Destination::Notification(NotificationQueue::Default)).len();
    let rejected = outbox.inner.messages(&Destination::Rejected);
    assert!(rejected.iter().all(|notice| notice.attributes.iter().any(|(_, value)| value == UNDELIVERABLE)));
    (progress.failed, notices, rejected.len())
}

#[tokio::test]
async fn a_lane_that_stood_still_goes_on_past_a_cancelled_task_that_has_expired() {
    let later = Still(NOW.0 + (RETENTION_DAYS + 1) * DAY_MS);
    // A process may have died after it was forgotten that the task waited.
    for (expires, has_left) in [(false, false), (false, true), (true, false), (true, true)] {
        let (store, outbox, routes) = (MemoryStore::new(), Queues::default(), Routes::parse(ROUTES).unwrap());
        lane(&store, &outbox).await;
        hand_over(&store, &outbox, &NOW, OnFailure::Hold).await.unwrap();
        let cancelling = Cancelling { store: &store, outbox: &outbox, env: &NOW };
        assert!(matches!(cancelling.cancel(&routes, &[id(1)]).await[..], [(_, Ok(Ok(())))]));
        if has_left {
            let next = store.queued(&lane_id(), Turn(1), Turn(2), 1).await.unwrap();
            let held = store.lane(&lane_id()).await.unwrap().unwrap();
            store.store_lane(&held.resumed(next.first(), later.now()).unwrap()).await.unwrap();
            store.leave(&lane_id(), &next).await.unwrap();
        }
        if expires {
            store.expire(later.now(), || false);
            assert_eq!(store.read(&[id(1)], Freshness::Latest).await.unwrap(), []);
        }
        let ordering = Ordering { store: &store, outbox: &outbox, env: &later };
        ordering.resume(&lane_id(), &notify()).await.unwrap();
        let lane = store.lane(&lane_id()).await.unwrap().unwrap();
        assert_eq!(lane.state, State::Taken(id(2)), "expires: {expires}, has left: {has_left}");
        let waits = store.read(&[id(2)], Freshness::Latest).await.unwrap();
        assert!(matches!(waits[0].status, Status::Created { .. }), "{waits:?}");
    }
}

#[tokio::test]
async fn a_refused_notice_keeps_no_task_that_is_passed_over_from_being_counted() {
    let (store, mut outbox) = (MemoryStore::new(), Queues { refuses: true, ..Queues::default() });
    let tracker = lane(&store, &outbox).await;
    for env in [NOW, Still(NOW.0 + DAY_MS - 1)] {
        let handed = hand_over(&store, &outbox, &env, OnFailure::FailRest).await.unwrap();
        assert_eq!((handed.stopped, handed.untold), (1, 2), "{handed:?}");
        assert_eq!(heard(&store, &outbox, &tracker).await, (2, 0, 0));
    }
    let told = store.copy();
    let handed = hand_over(&store, &outbox, &Still(NOW.0 + DAY_MS), OnFailure::FailRest).await.unwrap();
    assert_eq!((handed.untold, heard(&store, &outbox, &tracker).await), (0, (2, 0, 2)), "given up after a day");
    assert_eq!(store.lanes()[0].1, 0);
    // Nobody would come back after the lane goes on.
    let ordering = Ordering { store: &told.copy(), outbox: &outbox, env: &NOW };
    assert!(matches!(ordering.resume(&lane_id(), &notify()).await, Ok(Resumed::Yes { .. })));
    assert_eq!(heard(&store, &outbox, &tracker).await, (2, 0, 4));
    outbox.refuses = false;
    let handed = hand_over(&told, &outbox, &NOW, OnFailure::FailRest).await.unwrap();
    assert_eq!((handed.untold, told.lanes()[0].1), (0, 0));
    assert_eq!(heard(&store, &outbox, &tracker).await, (2, 2, 4), "sent once the queue takes it");
}

#[tokio::test]
async fn a_refused_notice_keeps_neither_the_tracker_nor_the_lane_of_a_cancelled_task_back() {
    let (store, mut outbox) = (MemoryStore::new(), Queues { refuses: true, ..Queues::default() });
    let (tracker, routes) = (lane(&store, &outbox).await, Routes::parse(ROUTES).unwrap());
    let each = Cancelling { store: &store, outbox: &outbox, env: &NOW }.cancel(&routes, &[id(0)]).await;
    assert!(matches!(each[..], [(_, Ok(Ok(())))]), "{each:?}");
    assert_eq!(store.lane(&lane_id()).await.unwrap().unwrap().state, State::Taken(id(1)));
    assert_eq!(heard(&store, &outbox, &tracker).await, (1, 0, 0));
    let entry = || Waiting {
        target: Target::of(&RouteName::new("r"), "t"),
        candidate: Candidate { id: id(0), round: Round(0), bytes: 0, traits: Traits::default() },
        since: NOW.now(),
    };
    let untold = store.copy();
    for (env, tells) in [(Still(NOW.0 + DAY_MS - 1), false), (Still(NOW.0 + DAY_MS), true)] {
        let told = Cancelling { store: &store, outbox: &outbox, env: &env }.tell_again(&routes, entry()).await;
        assert_eq!((told.is_ok(), store.untold().is_empty()), (tells, tells));
    }
    assert_eq!(heard(&store, &outbox, &tracker).await, (1, 0, 1), "given up after a day");
    outbox.refuses = false;
    Cancelling { store: &untold, outbox: &outbox, env: &NOW }.tell_again(&routes, entry()).await.unwrap();
    assert_eq!((untold.untold(), heard(&store, &outbox, &tracker).await), (Vec::new(), (1, 1, 1)));
}
