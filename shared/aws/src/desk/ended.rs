//! What ended in the rejected and dead-letter queues: why, and sending it again.
//!
//! Sending again is a send to the source queue, then a delete. A death in between leaves a message twice, under one id,
//! which every step takes in its stride. A message that its queue would refuse stays where it is, and its neighbours
//! go.

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use futures::FutureExt;
use groupage_core::domain::NotificationQueue;
use groupage_core::ports::Env;
use serde::Serialize;

use super::again::bodies_again;
use super::{About, Desk, Error, Queue, REJECTED};
use crate::System;

/// A message that ended.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// The id of the message as its sender sent it.
    pub message_id: String,
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Why it was rejected.
    pub reason: Option<String>,
    /// The same for people.
    pub detail: Option<String>,
    /// How often it was received.
    pub received: u32,
    /// The size of its body.
    pub bytes: usize,
    /// Its body, if that was asked for. Those of rejected messages hold payloads.
    pub body: Option<String>,
}

impl Ended {
    /// Whether this is its id, or that of a task or the batch that it is about.
    pub fn is_named(&self, id: &str) -> bool {
        let About { tasks, batch, .. } = &self.about;
        self.message_id == id || batch.as_deref() == Some(id) || tasks.iter().any(|task| task == id)
    }

    /// Why it ended here, for people.
    pub fn why(&self) -> String {
        match (&self.reason, &self.detail) {
            (Some(reason), Some(detail)) => format!("{reason}: {detail}"),
            (Some(why), None) | (None, Some(why)) => why.clone(),
            (None, None) => format!("failed {} times; the step's log says why", self.received),
        }
    }
}

/// What sending again came to.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// The queue that they were in.
    pub queue: String,
    /// Messages that were sent again.
    pub sent: u64,
    /// They stay where they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
    /// Counted at the start and not received: somebody else has them in hand.
    pub hidden: u64,
}

/// What deleting came to.
#[derive(Clone, Debug, Serialize)]
pub struct Dropped {
    /// The queue that they were in.
    pub queue: String,
    /// Messages that were deleted.
    pub dropped: u64,
    /// Named, and in no message that was received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Counted at the start and not received: somebody else has them in hand.
    pub hidden: u64,
}

/// A message that cannot be sent again as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// Its first id.
    pub message_id: String,
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Why.
    pub reason: String,
}

/// How long a message that is only looked at stays hidden from others, in seconds.
pub(super) const LOOK_S: i32 = 10;
/// How long a message that is sent again stays hidden, in seconds: more than sending and deleting ten takes.
pub(super) const SEND_S: i32 = 60;

impl Desk {
    /// Up to `most` of the messages in a queue, with their bodies if asked for. They are hidden from others meanwhile.
    pub async fn look(&self, queue: &Queue, most: u64, with_body: bool) -> Result<Vec<Ended>, Error> {
        let messages = self.some(queue, most, LOOK_S).await?;
        self.show_again(queue, messages.iter().filter_map(|message| message.receipt_handle.clone()).collect()).await;
        Ok(messages.iter().map(|message| ended(queue, message, with_body)).collect())
    }

    /// Sends messages again: up to `most`, or all that are there now. `told` hears of how many went so far.
    ///
    /// # Errors
    /// SQS did not answer. What was sent is sent; the call may be repeated.
    pub async fn send_again(&self, queue: &Queue, most: Option<u64>, told: impl Fn(u64)) -> Result<Sent, Error> {
        // Not more than were there at the start: what fails again at once must not go round for ever.
        let depth = self.depth(queue).await?;
        let there = depth.ready + depth.in_flight;
        let most = most.unwrap_or(there);
        let takes = self.max_bytes(&queue.name, queue.source.as_deref().unwrap_or_default()).await?;
        let (mut sent, mut left, mut receipts) = (0, Vec::new(), Vec::new());
        while sent + (left.len() as u64) < most {
            let messages = self.receive(queue, most - sent - left.len() as u64, SEND_S).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let (message_id, receipt) = (original_id(&queue.name, &message), message.receipt_handle.clone());
                let body = message.body.clone().unwrap_or_default();
                match bodies_again(body.clone(), message_id.clone(), takes) {
                    Ok(bodies) => {
                        self.send_one_again(queue, message, bodies).await?;
                        sent += 1;
                        told(sent);
                    }
                    Err(why) => {
                        let about = About::of(&queue.name, &body, message_id.as_deref());
                        left.push(Left { about, message_id: message_id.unwrap_or_default(), reason: why.to_string() });
                        receipts.extend(receipt);
                    }
                }
            }
        }
        // Only now: this run would receive them again.
        self.show_again(queue, receipts).await;
        let done = sent + left.len() as u64;
        Ok(Sent { queue: queue.name.clone(), sent, left, hidden: most.min(there).saturating_sub(done) })
    }

    /// Deletes messages for ever: those that have one of these ids, or are about a task or batch that has, or without
    /// ids all that are there now. `told` hears of how many went so far.
    ///
    /// # Errors
    /// SQS did not answer. What was deleted is deleted; the call may be repeated.
    pub async fn drop_ended(&self, queue: &Queue, ids: &[String], told: impl Fn(u64)) -> Result<Dropped, Error> {
        let depth = self.depth(queue).await?;
        let there = depth.ready + depth.in_flight;
        let (mut dropped, mut missing, mut kept) = (0, ids.to_vec(), Vec::new());
        while dropped + (kept.len() as u64) < there && (ids.is_empty() || !missing.is_empty()) {
            let messages = self.receive(queue, there - dropped - kept.len() as u64, SEND_S).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let ended = ended(queue, &message, false);
                if ids.is_empty() || ids.iter().any(|id| ended.is_named(id)) {
                    self.delete(queue, &message).await?;
                    missing.retain(|id| !ended.is_named(id));
                    dropped += 1;
                    told(dropped);
                } else {
                    kept.extend(message.receipt_handle);
                }
            }
        }
        let done = dropped + kept.len() as u64;
        self.show_again(queue, kept).await;
        let hidden = if ids.is_empty() { there.saturating_sub(done) } else { 0 };
        Ok(Dropped { queue: queue.name.clone(), dropped, missing, hidden })
    }

    pub(super) async fn some(&self, queue: &Queue, most: u64, hidden_s: i32) -> Result<Vec<Message>, Error> {
        let mut all: Vec<Message> = Vec::new();
        while (all.len() as u64) < most {
            let messages = self.receive(queue, most - all.len() as u64, hidden_s).await?;
            if messages.is_empty() {
                break;
            }
            all.extend(messages);
        }
        Ok(all)
    }

    /// Makes messages that were only looked at visible again. The next look should not have to wait. If this fails,
    /// they wait until the messages' time is over.
    pub(super) async fn show_again(&self, queue: &Queue, receipts: Vec<String>) {
        for receipt in receipts {
            let request = self.client.change_message_visibility().queue_url(&queue.url).receipt_handle(receipt);
            let _ = request.visibility_timeout(0).send().boxed().await;
        }
    }

    async fn send_one_again(&self, queue: &Queue, message: Message, bodies: Vec<String>) -> Result<(), Error> {
        let source = source(queue, &self.queues.notifications, &message);
        let source = source.as_str();
        // On a standard queue it is the message's tenant, and keeps no order.
        let group = system_attribute(&message, &MessageSystemAttributeName::MessageGroupId);
        // SQS drops what it has seen in the last five minutes, by its content if nothing else tells it apart.
        let keeps_order = group.is_some() && source.ends_with(".fifo");
        for body in bodies {
            let fresh = keeps_order.then(|| System.fresh_id());
            let request = self.client.send_message().queue_url(source).message_body(body);
            let request = request.set_message_group_id(group.clone()).set_message_deduplication_id(fresh);
            request.send().boxed().await.map_err(|error| Error::of("sending again from", &queue.name, error))?;
        }
        self.delete(queue, &message).await
    }

    pub(super) async fn delete(&self, queue: &Queue, message: &Message) -> Result<(), Error> {
        let request = self.client.delete_message().queue_url(&queue.url);
        let deleted = request.set_receipt_handle(message.receipt_handle.clone()).send().boxed().await;
        deleted.map(|_| ()).map_err(|error| Error::of("deleting from", &queue.name, error))
    }

    pub(super) async fn receive(&self, queue: &Queue, most: u64, hidden_s: i32) -> Result<Vec<Message>, Error> {
        let received = self
            .client
            .receive_message()
            .queue_url(&queue.url)
            .max_number_of_messages(i32::try_from(most.min(10)).unwrap_or(10))
            .visibility_timeout(hidden_s)
            // A long poll asks all of SQS's servers; a short one may miss messages.
            .wait_time_seconds(1)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
            .send()
            .boxed()
            .await;
        let received = received.map_err(|error| Error::of("receiving from", &queue.name, error))?;
        Ok(received.messages.unwrap_or_default())
    }
}

/// Where to send a message again: to where its queue's messages come from, or to the queue that refused it as a notice.
/// In any other queue than the rejected one an attribute of that name is the sender's, and says nothing.
fn source(queue: &Queue, notifications: &str, message: &Message) -> String {
    let refused_by = if queue.name == REJECTED { attribute(message, "Queue") } else { None };
    match refused_by.map(|queue| NotificationQueue::parse(&queue)) {
        Some(Ok(NotificationQueue::Default)) => notifications.to_owned(),
        Some(Ok(NotificationQueue::Url(url))) => url,
        Some(Ok(NotificationQueue::None) | Err(_)) | None => queue.source.clone().unwrap_or_default(),
    }
}

/// The id of the message as its sender sent it. A dead-letter queue keeps it. What is rejected is sent on as a message
/// of our own, beside the first one's id; in any other queue an attribute of that name is the sender's, and says
/// nothing.
fn original_id(queue: &str, message: &Message) -> Option<String> {
    let first = if queue == REJECTED { attribute(message, "MessageId") } else { None };
    first.or_else(|| message.message_id.clone())
}

fn attribute(message: &Message, name: &str) -> Option<String> {
    message.message_attributes.as_ref()?.get(name)?.string_value.clone()
}

fn system_attribute(message: &Message, name: &MessageSystemAttributeName) -> Option<String> {
    message.attributes.as_ref()?.get(name).cloned()
}

fn ended(queue: &Queue, message: &Message, with_body: bool) -> Ended {
    let received = system_attribute(message, &MessageSystemAttributeName::ApproximateReceiveCount);
    let received = received.and_then(|count| count.parse().ok());
    let message_id = original_id(&queue.name, message);
    let body = message.body.as_deref().unwrap_or_default();
    // An attribute of a sender's own says nothing of why a step failed.
    let of_rejected = |name| if queue.name == REJECTED { attribute(message, name) } else { None };
    Ended {
        about: About::of(&queue.name, body, message_id.as_deref()),
        message_id: message_id.unwrap_or_default(),
        reason: of_rejected("Reason"),
        detail: of_rejected("Detail"),
        received: received.unwrap_or_default(),
        bytes: body.len(),
        body: message.body.clone().filter(|_| with_body),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::MessageAttributeValue;

    use super::*;

    #[test]
    fn only_the_rejected_queue_says_which_message_came_first() {
        let first = MessageAttributeValue::builder().data_type("String").string_value("first").build().unwrap();
        let message = Message::builder().message_id("m-1").message_attributes("MessageId", first).build();
        assert_eq!(original_id("rejected", &message).as_deref(), Some("first"));
        assert_eq!(original_id("tasks-dlq", &message).as_deref(), Some("m-1"));
    }

    #[test]
    fn a_notice_goes_to_the_queue_that_refused_it_and_all_else_to_its_source() {
        let to = |name: &str, queue: Option<&str>| {
            let ended = Queue { name: name.to_owned(), url: "r".to_owned(), source: Some("tasks".to_owned()) };
            let value = |queue: &str| MessageAttributeValue::builder().data_type("String").string_value(queue).build();
            let attributes = queue.map(|queue| ("Queue".to_owned(), value(queue).unwrap()));
            let message = Message::builder().body("{}").set_message_attributes(Some(attributes.into_iter().collect()));
            source(&ended, "notifications", &message.build())
        };
        assert_eq!(to("rejected", None), "tasks");
        assert_eq!(to("rejected", Some("default")), "notifications");
        assert_eq!(to("rejected", Some("https://sqs.invalid/q")), "https://sqs.invalid/q");
        assert_eq!(to("tasks-dlq", Some("https://sqs.invalid/q")), "tasks", "a sender's own attribute");
    }
}
