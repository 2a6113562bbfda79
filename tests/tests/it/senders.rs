//! What a sender that may only send tasks cannot make happen. Each test is an attack: the message comes by the real
//! entry of register-task, from a principal that the queue names and that is none of the stack's.

use groupage_aws::entry::{self, RouteSource};
use groupage_core::domain::sender::Senders;
use groupage_core::domain::tracker::{Options, Which};
use groupage_core::steps::stream::{Event, Streaming};
use groupage_lab::prelude::*;

const ROUTES: &str = parcels_route!["when: type == 'parcel'", "batch: { max_items: 10, wait_ms: 500 }"];

/// The role of register-task, that of the API, and somebody else's, as the queue names their messages.
const OWN: &str = "AROAREGISTER:groupage-register-task";
const API: &str = "AROAAPI:groupage-api";
const OUTSIDE: &str = "AROAOUTSIDE:shop";

struct Intake(entry::Stack<MemoryStore, MemoryQueues, TestEnv>);

impl Intake {
    fn new() -> Self {
        let principals = |id: &str| Some(vec![id.split(':').next().unwrap().to_owned()]);
        let routes = RouteSource::Fixed(Routes::parse(ROUTES).unwrap().into());
        let stack = entry::Stack::new(MemoryStore::new(), MemoryQueues::new(), TestEnv::new(1), routes);
        Self(entry::Stack { senders: Senders { own: principals(OWN), trusted: principals(API) }, ..stack })
    }

    /// One message of this sender comes to register-task, and is done with.
    async fn comes(&self, sender: &str, body: &str) {
        let mut event = entry::event([("m1".to_owned(), body.to_owned(), 1)]);
        event.records[0].attributes.insert("SenderId".to_owned(), sender.to_owned());
        let handled = entry::register_task(&self.0, event).await;
        assert_eq!(handled.response.batch_item_failures.len(), 0, "the message is done, whatever became of it");
    }

    fn rejected(&self) -> Vec<Outgoing> {
        self.0.queues.messages(&Destination::Rejected)
    }

    /// The reason of the only message that was rejected.
    fn reason(&self) -> String {
        let [rejected] = self.rejected().try_into().unwrap();
        rejected.attributes.into_iter().find(|(name, _)| *name == "Reason").unwrap().1
    }

    fn tasks(&self) -> Vec<TaskId> {
        self.0.store.tasks().into_iter().map(|task| task.id).collect()
    }

    const fn trackers(&self) -> Tracking<'_, MemoryStore, MemoryQueues, TestEnv> {
        Tracking { store: &self.0.store, outbox: &self.0.queues, env: &self.0.env }
    }

    const fn streams(&self) -> Streaming<'_, MemoryStore, MemoryQueues, TestEnv> {
        Streaming { store: &self.0.store, outbox: &self.0.queues, env: &self.0.env }
    }

    /// A sealed tracker `t` of one item.
    async fn track(&self) {
        let options = Options { deadline: None, notify: NotificationQueue::None };
        let id = TrackerId::new("t");
        self.trackers().open(id.clone(), options).await.unwrap().unwrap();
        self.trackers().add(&id, "k", 1).await.unwrap().unwrap();
        self.trackers().seal(&id).await.unwrap().unwrap();
    }

    async fn failed_items(&self) -> usize {
        let tracker = self.0.store.trackers().remove(0);
        self.trackers().items(&tracker, Which::Failed, None, 10).await.unwrap().items.len()
    }

    /// A stream `s` that was fed one event; its id.
    async fn feed(&self) -> String {
        let (id, options) = (StreamId::new("s"), stream::Options::default());
        let (stream, _) = self.streams().open(id.clone(), options).await.unwrap().unwrap();
        let offset = stream::Offset::parse("o-1").unwrap();
        let event = Event { offset, body: r#"{"payload":{"type":"parcel","truck":"t1"}}"#.to_owned() };
        self.streams().feed(None, &id, 0, &[event]).await.unwrap().unwrap();
        format!("s:{}:0", stream.life.opened_at.0)
    }

    /// Whether the stream's event counts as settled.
    async fn is_settled(&self) -> bool {
        let stream = self.0.store.stream(&StreamId::new("s")).await.unwrap().unwrap();
        self.0.store.see(&stream.life, &[NodeId::group(0)]).await.unwrap().bits.is_settled(0)
    }
}

fn rest() -> String {
    let task = |n| format!(r#"{{"id":"forged-{n}","payload":{{"type":"parcel","truck":"t1","n":{n}}}}}"#);
    // Since 1970: by its age its batch would wait for nobody.
    Rest::body(&[task(1), task(2)], Stage::Left(Timestamp(0)), Shard::HOME)
}

#[tokio::test(start_paused = true)]
async fn a_rest_is_only_taken_from_the_stack_itself() {
    for sender in [OUTSIDE, API, "AROAOUTSIDE:AROAREGISTER", ""] {
        let intake = Intake::new();
        intake.comes(sender, &rest()).await;
        assert_eq!(intake.tasks(), [], "{sender} speaks for the stack");
        assert_eq!(intake.reason(), "bad_sender");
    }
    let intake = Intake::new();
    intake.comes(OWN, &rest()).await;
    assert_eq!((intake.tasks().len(), intake.rejected().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sender_of_tasks_cannot_ack_an_item_with_a_task_of_its_own() {
    let named = r#"{"id":"a","payload":{"type":"parcel","truck":"t1"},"item":"t:0:0"}"#;
    let intake = Intake::new();
    intake.track().await;
    intake.comes(OUTSIDE, named).await;
    assert_eq!(intake.tasks(), [], "its outcome would ack the item");
    assert_eq!((intake.reason().as_str(), intake.failed_items().await), ("bad_sender", 0));
    intake.comes(API, named).await;
    assert_eq!(intake.tasks(), [TaskId::new("a")]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_of_tasks_cannot_fail_an_item_with_a_message_that_is_no_task() {
    for body in [r#"{"item":"t:0:0"}"#, r#"{"item":"t:0:0","payload":{"type":"none"}}"#] {
        let intake = Intake::new();
        intake.track().await;
        intake.comes(OUTSIDE, body).await;
        assert_eq!((intake.rejected().len(), intake.failed_items().await), (1, 0), "{body}");
        intake.comes(API, body).await;
        assert_eq!(intake.failed_items().await, 1, "{body}: nobody must wait for what will never be a task");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_of_tasks_cannot_settle_an_event_of_a_stream() {
    for (fields, is_task) in [(r#","payload":{"type":"parcel","truck":"t1"}"#, true), ("", false)] {
        let intake = Intake::new();
        let event = intake.feed().await;
        let body = format!(r#"{{"id":"forged","event":"{event}"{fields}}}"#);
        intake.comes(OUTSIDE, &body).await;
        assert_eq!((intake.tasks(), intake.is_settled().await), (vec![], false), "{body}");
        intake.comes(API, &body).await;
        assert_eq!((intake.tasks().len(), intake.is_settled().await), (usize::from(is_task), !is_task), "{body}");
    }
}
