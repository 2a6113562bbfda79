//! Messages a second through the embedded SQS: sent, and received and deleted again, by what an answer survives.

use std::time::Instant;

use anyhow::{Error, Result, anyhow};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use embedded::Durability;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::prelude::*;

/// Requests under way at once.
const IN_FLIGHT: usize = 8;
/// Messages of one request: as many as SQS takes.
const AT_ONCE: u64 = 10;

/// Messages a second through the embedded SQS, by what an acknowledged message survives.
///
/// Each round sends messages to queues in memory, to queues with a journal, and to the same with --fsync, in turn, and
/// receives and deletes them again. So all three meet the same machine. Ten messages make a request, and eight requests
/// are under way.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many messages, for each of the three.
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    messages: u64,
    /// Bytes of a message's body.
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    bytes: u32,
    /// How often.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
}

/// What an acknowledged message survives.
const SURVIVES: [(&str, Option<Durability>); 3] =
    [("nothing", None), ("kill -9", Some(Durability::Process)), ("a power cut", Some(Durability::Machine))];

/// What one run came to.
#[derive(Debug, Serialize)]
struct Run {
    survives: &'static str,
    messages: u64,
    sent_per_second: f64,
    /// Received and deleted.
    handled_per_second: f64,
}

/// Runs the benchmark.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut runs = Vec::new();
    for _ in 0..options.rounds {
        for (survives, durability) in SURVIVES {
            runs.push(one(options, survives, durability).await?);
        }
    }
    output.result(&runs, &tables(&runs));
    Ok(())
}

async fn one(options: &Args, survives: &'static str, durability: Option<Durability>) -> Result<Run> {
    let folder = tempfile::tempdir().map_err(|error| anyhow!("cannot make a temporary folder: {error}"))?;
    let storage = match durability {
        Some(durability) => Storage::Folder(folder.path().to_owned(), durability),
        None => Storage::Memory,
    };
    let stack = Stack::start(storage, Ports::default()).await?;
    let (client, queue) = (Client::new(stack.sdk_config()), stack.queues().notifications.clone());
    let rate = |began: Instant| options.messages as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    let sends = (0..options.messages)
        .step_by(AT_ONCE as usize)
        .map(|first| send(&client, &queue, first..(first + AT_ONCE).min(options.messages), options.bytes as usize));
    stream::iter(sends).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    let sent_per_second = rate(began);
    let began = Instant::now();
    let handlers = (0..IN_FLIGHT).map(|_| handle_all(&client, &queue));
    futures::future::try_join_all(handlers).await?;
    let run = Run { survives, messages: options.messages, sent_per_second, handled_per_second: rate(began) };
    stack.shutdown().await;
    Ok(run)
}

async fn send(client: &Client, queue: &str, numbers: std::ops::Range<u64>, bytes: usize) -> Result<()> {
    let entry = |number: u64| {
        let body = format!("{number:0bytes$}");
        SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(body).build().map_err(failed)
    };
    let entries = numbers.map(entry).collect::<Result<Vec<_>, _>>()?;
    let sent = client.send_message_batch().queue_url(queue).set_entries(Some(entries)).send().await.map_err(failed)?;
    match sent.failed.first() {
        Some(refused) => Err(failed(&refused.code)),
        None => Ok(()),
    }
}

/// Whatever the SDK or a queue said.
fn failed(said: impl std::fmt::Debug) -> Error {
    anyhow!("a queue did not answer: {said:?}")
}

/// Receives and deletes until the queue is empty.
async fn handle_all(client: &Client, queue: &str) -> Result<()> {
    loop {
        let receive = client.receive_message().queue_url(queue).max_number_of_messages(10);
        let messages = receive.send().await.map_err(failed)?.messages.unwrap_or_default();
        if messages.is_empty() {
            return Ok(());
        }
        let entry = |(number, message): (usize, aws_sdk_sqs::types::Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
            entry.set_receipt_handle(message.receipt_handle).build().map_err(failed)
        };
        let entries = messages.into_iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
        client.delete_message_batch().queue_url(queue).set_entries(Some(entries)).send().await.map_err(failed)?;
    }
}
