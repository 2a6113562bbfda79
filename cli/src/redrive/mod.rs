//! `groupage redrive`: what ended in the rejected and dead-letter queues: list it, show why, send it again.
//!
//! Sending again is a send to the source queue, then a delete. A death in between leaves a message twice, under one id,
//! which every step takes in its stride. A message that its queue would refuse stays where it is, and its neighbours
//! go.

mod again;

use anyhow::{Context, Result};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use clap::Subcommand;
use groupage_aws::System;
use groupage_core::domain::notice::NotificationQueue;
use groupage_core::ports::Env;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::output::{Ending, Output, grouped, summary};
use crate::queues::{self, Queue};
use crate::stack;
use again::bodies_again;

/// List what ended in the rejected and dead-letter queues, show why, and send it again.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the queues and how many messages each holds. This is what `redrive` alone does.
    List,
    /// Show messages and why they ended here. They are hidden from others while it runs.
    Show {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most.
        #[arg(long, value_name = "N", default_value_t = 10)]
        most: u64,
        /// Print the bodies too. Those of rejected messages hold payloads.
        #[arg(long)]
        body: bool,
    },
    /// Send messages again to the queue they came from. A notice that its queue refused goes to that queue.
    Send {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most; all that are there now if not given.
        #[arg(long, value_name = "N")]
        most: Option<u64>,
    },
}

/// A message that ended, without its body unless asked for.
#[derive(Serialize)]
struct Ended {
    message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    received: u32,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Serialize)]
struct Sent {
    queue: String,
    sent: u64,
    /// They stay where they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<Left>,
    /// Counted at the start and not received: somebody else has them in hand.
    hidden: u64,
}

/// A message that cannot be sent again as it is.
#[derive(Serialize)]
struct Left {
    message_id: String,
    reason: String,
}

/// How long a message that is only looked at stays hidden from others, in seconds.
const LOOK_S: i32 = 10;
/// How long a message that is sent again stays hidden, in seconds: more than sending and deleting ten takes.
const SEND_S: i32 = 60;

/// Lists, shows or sends again. Messages that cannot be sent again stay where they are.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(stack).await?;
    let client = Client::new(&connection.config);
    let ended = queues::ended(&client, &connection.queues).await?;
    match &options.command {
        None | Some(Command::List) => list(&client, &ended, output).await,
        Some(Command::Show { queue, most, body }) => show(&client, find(&ended, queue)?, *most, *body, output).await,
        Some(Command::Send { queue, most }) => {
            send(&client, find(&ended, queue)?, &connection.queues.notifications, *most, output).await
        }
    }
}

async fn list(client: &Client, ended: &[Queue], output: &Output) -> Result<Ending> {
    let mut depths = Vec::new();
    for queue in ended {
        depths.push(queues::depth(client, &queue.name, &queue.url).await?);
    }
    output.result(&depths, || {
        summary(depths.iter().map(|depth| (depth.queue.as_str(), grouped(depth.ready + depth.in_flight))))
    });
    Ok(Ending::Well)
}

async fn show(client: &Client, queue: &Queue, most: u64, body: bool, output: &Output) -> Result<Ending> {
    let mut shown: Vec<Ended> = Vec::new();
    let mut receipts = Vec::new();
    while (shown.len() as u64) < most {
        let messages = receive(client, queue, most - shown.len() as u64, LOOK_S).await?;
        if messages.is_empty() {
            break;
        }
        receipts.extend(messages.iter().filter_map(|message| message.receipt_handle.clone()));
        shown.extend(messages.into_iter().map(|message| ended(message, body)));
    }
    show_again(client, queue, receipts).await;
    output.result(&shown, || {
        let rows = shown.iter().map(|ended| {
            let why = match (&ended.reason, &ended.detail) {
                (Some(reason), Some(detail)) => format!("{reason}: {detail}"),
                (Some(why), None) | (None, Some(why)) => why.clone(),
                (None, None) => format!("failed {} times; the step's log says why", ended.received),
            };
            let body = ended.body.as_ref().map(|body| format!("\n{body}")).unwrap_or_default();
            (ended.message_id.as_str(), format!("{why}{body}"))
        });
        if shown.is_empty() { format!("{} is empty", queue.name) } else { summary(rows) }
    });
    Ok(Ending::Well)
}

/// Makes messages that were only looked at visible again. The next look should not have to wait. If this fails, they
/// wait until the messages' time is over.
async fn show_again(client: &Client, queue: &Queue, receipts: Vec<String>) {
    for receipt in receipts {
        let request = client.change_message_visibility().queue_url(&queue.url).receipt_handle(receipt);
        let _ = request.visibility_timeout(0).send().await;
    }
}

async fn send(
    client: &Client,
    queue: &Queue,
    notifications: &str,
    most: Option<u64>,
    output: &Output,
) -> Result<Ending> {
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner().with_message(format!("sending {} again", queue.name));
    // Not more than were there at the start: what fails again at once must not go round for ever.
    let depth = queues::depth(client, &queue.name, &queue.url).await?;
    let there = depth.ready + depth.in_flight;
    let most = most.unwrap_or(there);
    let takes = queues::max_bytes(client, &queue.name, queue.source.as_deref().unwrap_or_default()).await?;
    let (mut sent, mut left, mut receipts) = (0, Vec::new(), Vec::new());
    while sent + (left.len() as u64) < most {
        let messages = receive(client, queue, most - sent - left.len() as u64, SEND_S).await?;
        if messages.is_empty() {
            break;
        }
        for message in messages {
            let (message_id, receipt) = (original_id(queue, &message), message.receipt_handle.clone());
            match bodies_again(message.body.clone().unwrap_or_default(), message_id.clone(), takes) {
                Ok(bodies) => {
                    send_again(client, queue, notifications, message, bodies).await?;
                    sent += 1;
                    progress.set_position(sent);
                }
                Err(why) => {
                    left.push(Left { message_id: message_id.unwrap_or_default(), reason: why.to_string() });
                    receipts.extend(receipt);
                }
            }
        }
    }
    progress.finish_and_clear();
    // Only now: this run would receive them again.
    show_again(client, queue, receipts).await;
    let done = sent + left.len() as u64;
    let sent = Sent { queue: queue.name.clone(), sent, left, hidden: most.min(there).saturating_sub(done) };
    output.result(&sent, || sent.text());
    Ok(if sent.left.is_empty() { Ending::Well } else { Ending::Badly })
}

impl Sent {
    fn text(&self) -> String {
        let hidden = match self.hidden {
            0 => String::new(),
            hidden => format!("; {} more are hidden, try again in a minute", grouped(hidden)),
        };
        let left = match self.left.len() as u64 {
            0 => String::new(),
            left => format!("; {} cannot be sent again and stay:", grouped(left)),
        };
        let each: String =
            self.left.iter().map(|Left { message_id, reason }| format!("\n  {message_id}: {reason}")).collect();
        format!("{} sent again from {}{hidden}{left}{each}", grouped(self.sent), self.queue)
    }
}

async fn send_again(
    client: &Client,
    queue: &Queue,
    notifications: &str,
    message: Message,
    bodies: Vec<String>,
) -> Result<()> {
    let source = source(queue, notifications, &message);
    let source = source.as_str();
    let group = system_attribute(&message, &MessageSystemAttributeName::MessageGroupId);
    // SQS drops what it has seen in the last five minutes, by its content if nothing else tells it apart.
    let group = group.filter(|_| source.ends_with(".fifo"));
    for body in bodies {
        let fresh = group.is_some().then(|| System.fresh_id());
        let request = client.send_message().queue_url(source).message_body(body);
        let request = request.set_message_group_id(group.clone()).set_message_deduplication_id(fresh);
        let sent = request.send().await;
        sent.map_err(|error| queues::Error::new("sending again from", &queue.name, error))?;
    }
    let deleted = client.delete_message().queue_url(&queue.url).set_receipt_handle(message.receipt_handle).send().await;
    deleted.map_err(|error| queues::Error::new("deleting from", &queue.name, error))?;
    Ok(())
}

/// Where to send a message again: to where its queue's messages come from, or to the queue that refused it as a notice.
/// In any other queue than the rejected one an attribute of that name is the sender's, and says nothing.
fn source(queue: &Queue, notifications: &str, message: &Message) -> String {
    let refused_by = if queue.name == queues::REJECTED { attribute(message, "Queue") } else { None };
    match refused_by.map(|queue| NotificationQueue::parse(&queue)) {
        Some(Ok(NotificationQueue::Default)) => notifications.to_owned(),
        Some(Ok(NotificationQueue::Url(url))) => url,
        Some(Ok(NotificationQueue::None) | Err(_)) | None => queue.source.clone().unwrap_or_default(),
    }
}

/// The id of the message as its sender sent it. A dead-letter queue keeps it. What is rejected is sent on as a message
/// of our own, beside the first one's id; in any other queue an attribute of that name is the sender's, and says
/// nothing.
fn original_id(queue: &Queue, message: &Message) -> Option<String> {
    let first = if queue.name == queues::REJECTED { attribute(message, "MessageId") } else { None };
    first.or_else(|| message.message_id.clone())
}

fn attribute(message: &Message, name: &str) -> Option<String> {
    message.message_attributes.as_ref()?.get(name)?.string_value.clone()
}

fn system_attribute(message: &Message, name: &MessageSystemAttributeName) -> Option<String> {
    message.attributes.as_ref()?.get(name).cloned()
}

async fn receive(client: &Client, queue: &Queue, most: u64, hidden_s: i32) -> Result<Vec<Message>> {
    let received = client
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
        .await;
    let received = received.map_err(|error| queues::Error::new("receiving from", &queue.name, error))?;
    Ok(received.messages.unwrap_or_default())
}

fn ended(message: Message, with_body: bool) -> Ended {
    let received = system_attribute(&message, &MessageSystemAttributeName::ApproximateReceiveCount);
    let received = received.and_then(|count| count.parse().ok());
    Ended {
        message_id: attribute(&message, "MessageId").or_else(|| message.message_id.clone()).unwrap_or_default(),
        reason: attribute(&message, "Reason"),
        detail: attribute(&message, "Detail"),
        received: received.unwrap_or_default(),
        bytes: message.body.as_ref().map_or(0, String::len),
        body: message.body.filter(|_| with_body),
    }
}

fn find<'a>(ended: &'a [Queue], name: &str) -> Result<&'a Queue> {
    let known = || ended.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = ended.iter().find(|queue| queue.name == name);
    found.with_context(|| format!("no queue is named `{name}`; there are {}", known()))
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::MessageAttributeValue;

    use super::*;

    #[test]
    fn only_the_rejected_queue_says_which_message_came_first() {
        let first = MessageAttributeValue::builder().data_type("String").string_value("first").build().unwrap();
        let message = Message::builder().message_id("m-1").message_attributes("MessageId", first).build();
        let queue = |name: &str| Queue { name: name.to_owned(), url: String::new(), source: None };
        assert_eq!(original_id(&queue("rejected"), &message).as_deref(), Some("first"));
        assert_eq!(original_id(&queue("tasks-dlq"), &message).as_deref(), Some("m-1"));
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
