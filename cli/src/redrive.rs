//! `groupage redrive`: what ended in the rejected and dead-letter queues: list it, show why, send it again.
//!
//! Sending again is a send to the source queue, then a delete: who dies in between leaves a message twice, which every
//! step takes in its stride.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use clap::Subcommand;
use groupage_aws::System;
use groupage_core::ports::Env;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::{Ending, Output, grouped, summary};
use crate::queues::{self, Queue};
use crate::stack;

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
    /// Send messages again to the queue they came from.
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
    /// Counted at the start and not received: somebody else has them in hand.
    hidden: u64,
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
        Some(Command::Send { queue, most }) => send(&client, find(&ended, queue)?, *most, output).await,
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
    for receipt in receipts {
        let request = client.change_message_visibility().queue_url(&queue.url).receipt_handle(receipt);
        // Whoever looks next should not have to wait; if this fails, they wait for ten seconds.
        let _ = request.visibility_timeout(0).send().await;
    }
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

async fn send(client: &Client, queue: &Queue, most: Option<u64>, output: &Output) -> Result<Ending> {
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner().with_message(format!("sending {} again", queue.name));
    // Not more than were there at the start: what fails again at once must not go round for ever.
    let depth = queues::depth(client, &queue.name, &queue.url).await?;
    let there = depth.ready + depth.in_flight;
    let most = most.unwrap_or(there);
    let mut sent = 0;
    while sent < most {
        let messages = receive(client, queue, most - sent, SEND_S).await?;
        if messages.is_empty() {
            break;
        }
        for message in messages {
            send_again(client, queue, message).await?;
            sent += 1;
            progress.set_position(sent);
        }
    }
    progress.finish_and_clear();
    let sent = Sent { queue: queue.name.clone(), sent, hidden: most.min(there).saturating_sub(sent) };
    output.result(&sent, || {
        let hidden = match sent.hidden {
            0 => String::new(),
            hidden => format!("; {} more are hidden, try again in a minute", grouped(hidden)),
        };
        format!("{} sent again from {}{hidden}", grouped(sent.sent), sent.queue)
    });
    Ok(Ending::Well)
}

async fn send_again(client: &Client, queue: &Queue, message: Message) -> Result<()> {
    let source = queue.source.as_deref().unwrap_or_default();
    let body = with_id(&message);
    let group = system_attribute(&message, &MessageSystemAttributeName::MessageGroupId);
    // SQS drops what it has seen in the last five minutes, by its content if nothing else tells it apart.
    let group = group.filter(|_| source.ends_with(".fifo"));
    let fresh = group.is_some().then(|| System.fresh_id());
    let request = client.send_message().queue_url(source).message_body(body);
    let request = request.set_message_group_id(group).set_message_deduplication_id(fresh);
    let sent = request.send().await;
    sent.map_err(|error| queues::Error::new("sending again from", &queue.name, error))?;
    let deleted = client.delete_message().queue_url(&queue.url).set_receipt_handle(message.receipt_handle).send().await;
    deleted.map_err(|error| queues::Error::new("deleting from", &queue.name, error))?;
    Ok(())
}

/// The body to send again. A task that brought no id is known by its message's, which sending again would change: so
/// it gets that id.
fn with_id(message: &Message) -> String {
    let body = message.body.clone().unwrap_or_default();
    let original = attribute(message, "MessageId").or_else(|| message.message_id.clone());
    let fields = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&body);
    match (fields, original) {
        (Ok(fields), Some(id)) if fields.contains_key("payload") && !fields.contains_key("id") => {
            body.replacen('{', &format!(r#"{{"id":"{id}","#), 1)
        }
        (Ok(_) | Err(_), _) => body,
    }
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
    use super::*;

    fn message(body: &str) -> Message {
        Message::builder().message_id("m-1").body(body).build()
    }

    #[test]
    fn a_task_without_an_id_keeps_the_one_of_its_message() {
        assert_eq!(with_id(&message(r#"{ "payload": {"a": 1.0} }"#)), r#"{"id":"m-1", "payload": {"a": 1.0} }"#);
    }

    #[test]
    fn whatever_else_ended_here_is_sent_as_it_is() {
        for body in [r#"{"id":"a","payload":{}}"#, r#"{"lead":{}}"#, "no json", ""] {
            assert_eq!(with_id(&message(body)), body);
        }
    }
}
