//! Queues whose messages are in the journal before anybody is told that they were taken.
//!
//! | a process that dies | leaves |
//! |---|---|
//! | before an answer to a send | the message or none; its sender knows of none |
//! | after it | the message |
//! | with messages in hand | all of them, visible at once, received once more |
//! | before an answer to a delete | the message or none; it may be received again |
//!
//! Delays go on where they were. What a FIFO queue recognises is known for five minutes from the sending, or from a
//! start in between; its sequence numbers begin anew with each process.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustack_sqs_core::{handler::RustackSqsHandler, provider::RustackSqs};
use rustack_sqs_http::{body::SqsResponseBody, dispatch::SqsHandler, response::json_response};
use rustack_sqs_model::{
    error::SqsError,
    input::{
        DeleteMessageBatchInput, DeleteMessageInput, PurgeQueueInput, ReceiveMessageInput, SendMessageBatchInput,
        SendMessageInput,
    },
    operations::SqsOperation,
    types::SendMessageBatchRequestEntry,
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::live::Live;
use crate::journal::{Change, Journal, Kept, NotWritten, Number};

pub(super) type Answer = Result<http::Response<SqsResponseBody>, SqsError>;

/// Queues with a journal.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) provider: Arc<RustackSqs>,
    plain: RustackSqsHandler,
    journal: Journal,
    pub(super) live: Mutex<Live>,
    /// Held while messages get their ids. A message may be handed out before its sender's answer is ready; who receives
    /// it waits here until its id is known.
    sending: tokio::sync::Mutex<()>,
}

impl Queues {
    pub(super) fn new(provider: Arc<RustackSqs>, journal: Journal) -> Self {
        let plain = RustackSqsHandler::new(Arc::clone(&provider));
        Self { provider, plain, journal, live: Mutex::default(), sending: tokio::sync::Mutex::default() }
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn change(&self, operation: SqsOperation, body: Bytes) -> Answer {
        match operation {
            SqsOperation::SendMessage => self.send(read(&body)?).await,
            SqsOperation::SendMessageBatch => self.send_batch(read(&body)?).await,
            SqsOperation::DeleteMessage => self.delete(read(&body)?).await,
            SqsOperation::DeleteMessageBatch => self.delete_batch(read(&body)?).await,
            SqsOperation::PurgeQueue => {
                let queue = name(&read::<PurgeQueueInput>(&body)?.queue_url);
                let answer = self.plain.handle_operation(operation, body).await?;
                self.journal.write(Change::Purged(queue)).await.map_err(failed)?;
                Ok(answer)
            }
            SqsOperation::CreateQueue
            | SqsOperation::DeleteQueue
            | SqsOperation::SetQueueAttributes
            | SqsOperation::TagQueue
            | SqsOperation::UntagQueue => {
                let answer = self.plain.handle_operation(operation, body).await?;
                let queues = self.provider.export_snapshot().await?.queues;
                self.journal.write(Change::Queues(queues)).await.map_err(failed)?;
                Ok(answer)
            }
            _ => self.plain.handle_operation(operation, body).await,
        }
    }

    async fn send(&self, input: SendMessageInput) -> Answer {
        let mut kept = keep(&input);
        let (output, written) = {
            let _turn = self.sending.lock().await;
            let output = self.provider.send_message(input).await?;
            let id = output.message_id.as_deref().unwrap_or_default();
            let is_new = self.name(&mut kept, id, &output.md5_of_message_body, &output.md5_of_message_attributes);
            (output, self.journal.write(Change::Sent(is_new.then_some(kept).into_iter().collect())))
        };
        written.await.map_err(failed)?;
        answer(&output)
    }

    async fn send_batch(&self, input: SendMessageBatchInput) -> Answer {
        let mut kept: Vec<(String, Kept)> =
            input.entries.iter().map(|entry| keep_entry(&input.queue_url, entry)).collect();
        let (output, written) = {
            let _turn = self.sending.lock().await;
            let output = self.provider.send_message_batch(input).await?;
            kept.retain_mut(|(entry, kept)| {
                let sent = output.successful.iter().find(|sent| sent.id == *entry);
                sent.is_some_and(|sent| {
                    let body = Some(sent.md5_of_message_body.clone());
                    self.name(kept, &sent.message_id, &body, &sent.md5_of_message_attributes)
                })
            });
            (output, self.journal.write(Change::Sent(kept.into_iter().map(|(_, kept)| kept).collect())))
        };
        written.await.map_err(failed)?;
        answer(&output)
    }

    /// Gives a message that was sent its number, id and digests; says whether it is new.
    fn name(&self, kept: &mut Kept, id: &str, body: &Option<String>, attributes: &Option<String>) -> bool {
        let Some(number) = self.live().sent(id) else { return false };
        kept.number = number.0;
        id.clone_into(&mut kept.id);
        kept.digest = digest(body.as_deref(), attributes.as_deref());
        true
    }

    async fn receive(&self, input: ReceiveMessageInput) -> Answer {
        let queue = name(&input.queue_url);
        let asked = input.attribute_names.iter().chain(&input.message_system_attribute_names);
        let shows_source = asked.into_iter().any(|name| name == "All" || name == "DeadLetterQueueSourceArn");
        let mut output = self.provider.receive_message(input).await?;
        if !output.messages.is_empty() {
            drop(self.sending.lock().await);
            let messages = self.live().received(&queue, shows_source, &mut output.messages);
            // A step that handles a message must know if another may have begun with it: the count is written first.
            self.journal.write(Change::Received { queue, messages, at_ms: now_ms() }).await.map_err(failed)?;
        }
        answer(&output)
    }

    async fn delete(&self, input: DeleteMessageInput) -> Answer {
        let receipt = input.receipt_handle.clone();
        let output = self.provider.delete_message(input).await?;
        self.consume([receipt.as_str()]).await?;
        answer(&output)
    }

    async fn delete_batch(&self, input: DeleteMessageBatchInput) -> Answer {
        let receipts: Vec<String> = input.entries.iter().map(|entry| entry.receipt_handle.clone()).collect();
        let output = self.provider.delete_message_batch(input).await?;
        self.consume(receipts.iter().map(String::as_str)).await?;
        answer(&output)
    }

    async fn consume(&self, receipts: impl IntoIterator<Item = &str> + Send) -> Result<(), SqsError> {
        let messages: Vec<Number> = {
            let mut live = self.live();
            receipts.into_iter().filter_map(|receipt| live.consumed(receipt)).collect()
        };
        self.journal.write(Change::Consumed { messages, at_ms: now_ms() }).await.map_err(failed)
    }
}

/// How the queues are served.
#[derive(Clone, Debug)]
pub(super) struct KeptHandler(pub(super) Arc<Queues>);

impl SqsHandler for KeptHandler {
    fn handle_operation(&self, operation: SqsOperation, body: Bytes) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        let queues = Arc::clone(&self.0);
        Box::pin(async move {
            if operation == SqsOperation::ReceiveMessage {
                // A receiver that goes away takes no messages.
                return queues.receive(read(&body)?).await;
            }
            // If its client goes away, what memory has taken must still reach the journal.
            let change = tokio::spawn(async move { queues.change(operation, body).await });
            change.await.unwrap_or_else(|error| Err(SqsError::internal_error(error.to_string())))
        })
    }
}

fn keep(input: &SendMessageInput) -> Kept {
    let queue = name(&input.queue_url);
    let deduplication = queue.ends_with(".fifo").then(|| {
        let content = || format!("{:x}", Sha256::digest(&input.message_body));
        input.message_deduplication_id.clone().unwrap_or_else(content)
    });
    Kept {
        queue,
        body: Some(input.message_body.clone()),
        attributes: input.message_attributes.clone(),
        group: input.message_group_id.clone(),
        deduplication,
        sent_ms: now_ms(),
        delay_ms: input.delay_seconds.map(|seconds| i64::from(seconds) * 1_000),
        ..Kept::default()
    }
}

/// An entry of a batch, and its name in there.
fn keep_entry(queue_url: &str, entry: &SendMessageBatchRequestEntry) -> (String, Kept) {
    let entry = entry.clone();
    let input = SendMessageInput {
        queue_url: queue_url.to_owned(),
        message_body: entry.message_body,
        delay_seconds: entry.delay_seconds,
        message_deduplication_id: entry.message_deduplication_id,
        message_group_id: entry.message_group_id,
        message_attributes: entry.message_attributes,
        message_system_attributes: entry.message_system_attributes,
    };
    (entry.id, keep(&input))
}

/// What the queue made of body and attributes.
pub(super) fn digest(body: Option<&str>, attributes: Option<&str>) -> String {
    format!("{}{}", body.unwrap_or_default(), attributes.unwrap_or_default())
}

/// A queue's name, which is the end of its URL.
fn name(queue_url: &str) -> String {
    queue_url.rsplit('/').next().unwrap_or_default().to_owned()
}

pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, SqsError> {
    serde_json::from_slice(body).map_err(|error| SqsError::invalid_parameter_value(error.to_string()))
}

fn answer<T: Serialize>(output: &T) -> Answer {
    let json = serde_json::to_vec(output).map_err(|error| SqsError::internal_error(error.to_string()))?;
    Ok(json_response(json, &uuid::Uuid::new_v4().to_string()))
}

fn failed(error: NotWritten) -> SqsError {
    SqsError::internal_error(error.to_string())
}
