//! What every `Outbox` and `Inbox` must do, in memory and on SQS's own protocol.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use embedded::{Ports, Stack, Storage};
use groupage_aws::config::Queues as Urls;
use groupage_aws::{Meter, Sqs};
use groupage_core::ports::{Error, postpone_one};
use groupage_lab::engine;
use groupage_lab::prelude::*;

use super::fixture::conformance;

/// Queues to run a claim on.
trait Fixture: Sized {
    type Queues: Outbox + Inbox;

    async fn start() -> Self;

    fn queues(&self) -> &Self::Queues;

    /// Receives everything that is visible now: bodies by destination, in any order.
    async fn bodies(&self) -> HashMap<Destination, Vec<String>>;

    /// Receives a message from batch-handler's queue: its receipt, and how often it was received.
    async fn take(&self) -> (String, u32);
}

struct InMemory(MemoryQueues);

/// Long enough for a claim.
const HIDDEN_MS: u64 = 60_000;

impl Fixture for InMemory {
    type Queues = MemoryQueues;

    async fn start() -> Self {
        Self(MemoryQueues::new())
    }

    fn queues(&self) -> &MemoryQueues {
        &self.0
    }

    async fn bodies(&self) -> HashMap<Destination, Vec<String>> {
        let mut bodies: HashMap<_, Vec<_>> = HashMap::new();
        while let Some(Delivery { outgoing, receipt, .. }) = self.0.receive(HIDDEN_MS) {
            // The others of its group come after it.
            self.0.delete(&receipt);
            bodies.entry(outgoing.to).or_default().push(outgoing.body);
        }
        // Queues for people: nobody receives from them.
        for to in [Destination::Rejected, DEFAULT] {
            let arrived = self.0.messages(&to);
            if !arrived.is_empty() {
                bodies.insert(to, arrived.into_iter().map(|outgoing| outgoing.body).collect());
            }
        }
        bodies
    }

    async fn take(&self) -> (String, u32) {
        let delivery = self.0.receive(HIDDEN_MS).expect("a message is visible");
        (delivery.receipt, delivery.received)
    }
}

struct OnSqs {
    stack: Option<Stack>,
    /// How long a receive waits for messages: a short poll of AWS looks only at some of a queue's servers.
    wait_s: i32,
    urls: Urls,
    client: Client,
    meter: Arc<Meter>,
    queues: Sqs,
}

impl OnSqs {
    fn url(&self, to: &Destination) -> &str {
        let queues = &self.urls;
        match to {
            Destination::Tasks => &queues.tasks,
            Destination::InOrder(_) | Destination::Gather(_) => &queues.in_order,
            Destination::Elect => &queues.elect,
            Destination::Group => &queues.group,
            Destination::Handle => &queues.handle,
            Destination::LongHandle => &queues.long_handle,
            Destination::Rejected => &queues.rejected,
            Destination::Notification(NotificationQueue::Default) => &queues.notifications,
            Destination::Notification(_) => panic!("no queue of the stack"),
        }
    }

    async fn receive(&self, url: &str) -> Vec<Message> {
        let request = self.client.receive_message().queue_url(url).max_number_of_messages(10);
        let request = request.wait_time_seconds(self.wait_s);
        let request =
            request.message_attribute_names("All").message_system_attribute_names(MessageSystemAttributeName::All);
        request.send().await.unwrap().messages.unwrap_or_default()
    }

    async fn messages(&self, at: &Destination) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let some = self.receive(self.url(at)).await;
            if some.is_empty() {
                return messages;
            }
            // A message group stands still until those in hand are deleted.
            for message in &some {
                let delete = self.client.delete_message().queue_url(self.url(at));
                delete.set_receipt_handle(message.receipt_handle.clone()).send().await.unwrap();
            }
            messages.extend(some);
        }
    }
}

impl Fixture for OnSqs {
    type Queues = Sqs;

    async fn start() -> Self {
        let (stack, wait_s, config, urls) = match engine::at_hand().await {
            Some(engine) => {
                (None, i32::from(!engine.lag.is_zero()), engine.config.clone(), engine.new_queues().await.unwrap())
            }
            None => {
                let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
                let (config, urls) = (stack.sdk_config().clone(), stack.queues().clone());
                (Some(stack), 0, config, urls)
            }
        };
        let meter = Arc::new(Meter::new());
        let queues = Sqs::new(&config, urls.clone(), Arc::clone(&meter));
        Self { client: Client::new(&config), stack, wait_s, urls, meter, queues }
    }

    fn queues(&self) -> &Sqs {
        &self.queues
    }

    async fn bodies(&self) -> HashMap<Destination, Vec<String>> {
        let mut bodies = HashMap::new();
        for to in DESTINATIONS.into_iter().chain([Destination::InOrder(LaneId::new("any"))]) {
            let arrived: Vec<_> = self.messages(&to).await.into_iter().filter_map(|message| message.body).collect();
            if !arrived.is_empty() {
                bodies.insert(to, arrived);
            }
        }
        bodies
    }

    async fn take(&self) -> (String, u32) {
        let message = self.receive(self.url(&Destination::Handle)).await.pop().expect("a message is visible");
        let attributes = message.attributes.unwrap_or_default();
        let count = &attributes[&MessageSystemAttributeName::ApproximateReceiveCount];
        (message.receipt_handle.unwrap(), count.parse().unwrap())
    }
}

conformance![
    of_queues:
    every_message_arrives_once_where_it_was_sent,
    a_delayed_message_is_not_received_yet,
    messages_of_tenants_come_beside_those_without_one,
    messages_of_one_lane_arrive_in_their_order,
    nothing_is_sent_when_there_is_nothing_to_send,
    a_message_that_is_postponed_comes_again_when_its_time_is_over,
    a_message_that_is_postponed_for_longer_does_not_come_now;
    of_sqs:
    who_has_some_of_a_targets_rests_in_hand_is_the_only_one,
    more_messages_than_go_in_one_request_are_postponed_and_one_that_is_gone_is_no_failure,
    attributes_arrive_with_their_message,
    a_notification_goes_to_the_queue_its_route_names_and_to_nobody_if_it_says_none,
    what_a_queue_refuses_fails_alone_and_in_its_place,
];

const DEFAULT: Destination = Destination::Notification(NotificationQueue::Default);
const DESTINATIONS: [Destination; 7] = [
    Destination::Tasks,
    Destination::Elect,
    Destination::Group,
    Destination::Handle,
    Destination::LongHandle,
    Destination::Rejected,
    DEFAULT,
];

fn outgoing(to: &Destination, body: impl Into<String>) -> Outgoing {
    Outgoing { to: to.clone(), body: body.into(), delay_ms: 0, attributes: Vec::new(), tenant: None }
}

async fn every_message_arrives_once_where_it_was_sent<F: Fixture>(fixture: F) {
    let mut wanted: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut messages = Vec::new();
    for n in 0..57 {
        let to = n % DESTINATIONS.len();
        wanted.entry(to).or_default().push(format!("message {n:02}"));
        messages.push(outgoing(&DESTINATIONS[to], format!("message {n:02}")));
    }
    let outcomes = fixture.queues().send(messages).await;
    assert_eq!(outcomes.len(), 57);
    assert!(outcomes.iter().all(Result::is_ok));
    let mut found = fixture.bodies().await;
    for (to, bodies) in wanted {
        let mut arrived = found.remove(&DESTINATIONS[to]).unwrap_or_default();
        arrived.sort();
        assert_eq!(arrived, bodies);
    }
    assert!(found.is_empty());
}

async fn a_delayed_message_is_not_received_yet<F: Fixture>(fixture: F) {
    let late = Outgoing { delay_ms: 60_000, ..outgoing(&Destination::Elect, "late") };
    let outcomes = fixture.queues().send(vec![late, outgoing(&Destination::Elect, "now")]).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(fixture.bodies().await, HashMap::from([(Destination::Elect, vec!["now".to_owned()])]));
}

async fn messages_of_tenants_come_beside_those_without_one<F: Fixture>(fixture: F) {
    let of =
        |tenant: usize| Outgoing { tenant: Some(format!("parcels:{tenant}")), ..outgoing(&Destination::Handle, "a") };
    let messages = vec![of(0), of(0), outgoing(&Destination::Handle, "a"), of(1)];
    assert!(fixture.queues().send(messages).await.iter().all(Result::is_ok));
    // None of a tenant's waits until another of it is done, as in a queue that keeps order.
    assert_eq!(fixture.bodies().await, HashMap::from([(Destination::Handle, vec!["a".to_owned(); 4])]));
}

async fn messages_of_one_lane_arrive_in_their_order<F: Fixture>(fixture: F) {
    let lane = |key: usize| Destination::InOrder(LaneId::of(&RouteName::new("parcels"), &format!("key {key}")));
    let messages = (0..60).map(|n| outgoing(&lane(n % 3), format!("{} of {}", n / 3, n % 3))).collect();
    assert!(fixture.queues().send(messages).await.iter().all(Result::is_ok));
    let found: Vec<String> = fixture.bodies().await.into_values().flatten().collect();
    for key in 0..3 {
        let of_key: Vec<&String> = found.iter().filter(|body| body.ends_with(&format!("of {key}"))).collect();
        let sent: Vec<String> = (0..20).map(|n| format!("{n} of {key}")).collect();
        assert!(of_key.iter().copied().eq(&sent), "{of_key:?}");
    }
}

async fn nothing_is_sent_when_there_is_nothing_to_send<F: Fixture>(fixture: F) {
    assert!(fixture.queues().send(Vec::new()).await.is_empty());
}

async fn a_message_that_is_postponed_comes_again_when_its_time_is_over<F: Fixture>(fixture: F) {
    fixture.queues().send(vec![outgoing(&Destination::Handle, "again")]).await;
    for times in 1..4 {
        let (receipt, received) = fixture.take().await;
        assert_eq!(received, times);
        postpone_one(fixture.queues(), &Destination::Handle, &receipt, 0).await.unwrap();
    }
}

async fn a_message_that_is_postponed_for_longer_does_not_come_now<F: Fixture>(fixture: F) {
    fixture.queues().send(vec![outgoing(&Destination::Handle, "later")]).await;
    let (receipt, _) = fixture.take().await;
    // Longer than SQS hides any message: the longest it can is what it gets.
    for delay_ms in [30_000, u64::from(u32::MAX) * 1_000] {
        postpone_one(fixture.queues(), &Destination::Handle, &receipt, delay_ms).await.unwrap();
        assert!(fixture.bodies().await.is_empty());
    }
}

async fn who_has_some_of_a_targets_rests_in_hand_is_the_only_one(fixture: OnSqs) {
    let of = |target: &str| Destination::Gather(Target::new(target));
    let url = fixture.url(&of("parcels:t0")).to_owned();
    assert!(fixture.queues.send(vec![outgoing(&of("parcels:t0"), "first")]).await[0].is_ok());
    let first = fixture.receive(&url).await.remove(0);
    let more = vec![outgoing(&of("parcels:t0"), "second"), outgoing(&of("parcels:t1"), "of another")];
    assert!(fixture.queues.send(more).await.iter().all(Result::is_ok));
    let bodies = |messages: Vec<Message>| messages.into_iter().filter_map(|message| message.body).collect::<Vec<_>>();
    assert_eq!(bodies(fixture.receive(&url).await), ["of another"]);
    // Who hides it keeps the others of its group waiting.
    let receipt = first.receipt_handle.unwrap();
    postpone_one(&fixture.queues, &of("parcels:t0"), &receipt, 60_000).await.unwrap();
    assert_eq!(bodies(fixture.receive(&url).await), [""; 0]);
    fixture.client.delete_message().queue_url(&url).receipt_handle(receipt).send().await.unwrap();
    assert_eq!(bodies(fixture.messages(&of("parcels:t0")).await), ["second"]);
}

async fn more_messages_than_go_in_one_request_are_postponed_and_one_that_is_gone_is_no_failure(fixture: OnSqs) {
    let to = Destination::Handle;
    let all = (0..12).map(|n| outgoing(&to, format!("{n}"))).collect();
    assert!(fixture.queues.send(all).await.iter().all(Result::is_ok));
    let mut receipts = Vec::new();
    while receipts.len() < 12 {
        receipts
            .extend(fixture.receive(fixture.url(&to)).await.into_iter().filter_map(|message| message.receipt_handle));
    }
    let delete = fixture.client.delete_message().queue_url(fixture.url(&to)).receipt_handle(&receipts[11]);
    delete.send().await.unwrap();
    let answers = fixture.queues.postpone(&to, receipts, 0).await;
    assert!(answers.len() == 12 && answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(fixture.messages(&to).await.len(), 11);
}

#[tokio::test]
async fn in_memory_messages_of_a_group_come_together_or_not_at_all() {
    let queues = MemoryQueues::new();
    let of = |target: &str| Destination::Gather(Target::new(target));
    let sent = [("parcels:t0", "a"), ("parcels:t1", "c"), ("parcels:t0", "b"), ("parcels:t0", "d")];
    queues.send(sent.map(|(target, body)| outgoing(&of(target), body)).to_vec()).await;
    let receive = || queues.receive_together(|_| 2, HIDDEN_MS);
    let bodies = |messages: &[Delivery]| messages.iter().map(|it| it.outgoing.body.clone()).collect::<Vec<_>>();
    let first = receive();
    assert_eq!(bodies(&first), ["a", "b"]);
    assert_eq!(bodies(&receive()), ["c"], "the rest of its group waits for whoever has the first");
    assert_eq!(bodies(&receive()), [""; 0]);
    queues.delete(&first[1].receipt);
    postpone_one(&queues, &of("parcels:t0"), &first[0].receipt, 0).await.unwrap();
    assert_eq!(bodies(&receive()), ["a", "d"], "what comes again keeps its place");
}

async fn attributes_arrive_with_their_message(fixture: OnSqs) {
    let attributes = vec![("Reason", "not_json".to_owned()), ("Detail", "line 1".to_owned())];
    let message = Outgoing { attributes, ..outgoing(&Destination::Rejected, "{") };
    assert!(fixture.queues.send(vec![message]).await[0].is_ok());
    let received = fixture.messages(&Destination::Rejected).await.remove(0).message_attributes.unwrap();
    assert_eq!(received["Reason"].string_value(), Some("not_json"));
    assert_eq!(received["Detail"].string_value(), Some("line 1"));
}

async fn a_notification_goes_to_the_queue_its_route_names_and_to_nobody_if_it_says_none(fixture: OnSqs) {
    let name = format!("{}-own", fixture.urls.elect.rsplit('/').next().unwrap());
    let url = fixture.client.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap();
    let own = Destination::Notification(NotificationQueue::Url(url.clone()));
    let nobody = Destination::Notification(NotificationQueue::None);
    let outcomes = fixture.queues.send(vec![outgoing(&own, "mine"), outgoing(&nobody, "lost")]).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(fixture.receive(&url).await.remove(0).body.as_deref(), Some("mine"));
    assert!(fixture.bodies().await.is_empty());
}

async fn what_a_queue_refuses_fails_alone_and_in_its_place(fixture: OnSqs) {
    let url = format!("{}-that-is-not-there", fixture.urls.elect);
    let nowhere = Destination::Notification(NotificationQueue::Url(url));
    let outcomes = fixture
        .queues
        .send(vec![
            outgoing(&Destination::Elect, "first"),
            outgoing(&Destination::Elect, "x".repeat(300_000)),
            outgoing(&nowhere, "second"),
            outgoing(&Destination::Elect, "third"),
        ])
        .await;
    assert!(matches!(outcomes[..], [Ok(()), Err(Error::Broken { .. }), Err(Error::Broken { .. }), Ok(())]));
    let mut bodies = fixture.bodies().await.remove(&Destination::Elect).unwrap_or_default();
    bodies.sort();
    assert_eq!(bodies, ["first", "third"]);
}

#[tokio::test]
async fn requests_are_counted_as_the_queue_counts_them() {
    let fixture = OnSqs::start().await;
    let mut messages: Vec<_> = (0..23).map(|n| outgoing(&Destination::Elect, n.to_string())).collect();
    messages.push(outgoing(&Destination::Group, "x".repeat(100_000)));
    fixture.queues.send(messages).await;
    assert_eq!(fixture.meter.snapshot().sqs.send, 3 + 2);
    assert_eq!(fixture.stack.expect("embedded").sqs_requests().send, 3 + 2);
}
