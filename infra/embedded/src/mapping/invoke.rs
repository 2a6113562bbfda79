//! One event: call the handler, delete what succeeded.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sqs::{Client, types::DeleteMessageBatchRequestEntry};
use futures::{FutureExt, StreamExt, stream};
use tokio::time;

use super::{Mapping, counts::Counters};

/// SQS takes this many entries in one delete request.
const DELETE_AT_ONCE: usize = 10;

/// How many delete requests of one event are under way at a time.
const DELETES_IN_FLIGHT: usize = 4;

/// What remains of a record while its handler has it.
struct Receipt {
    message_id: String,
    handle: String,
}

/// Why a whole event failed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Failure {
    #[error("the handler panicked")]
    Panicked,
    #[error("the handler took longer than {0:?}")]
    TimedOut(Duration),
    #[error("the handler named a failed record that is not in its event: {0:?}")]
    Unknown(String),
}

/// Calls a handler with events, and tells the queue the result.
pub(super) struct Invoker<H> {
    client: Client,
    queue: String,
    timeout: Duration,
    handler: H,
    counters: Arc<Counters>,
}

impl<H, F> Invoker<H>
where
    H: Fn(SqsEvent) -> F + Send + Sync + 'static,
    F: Future<Output = SqsBatchResponse> + Send + 'static,
{
    pub(super) fn new(client: Client, mapping: &Mapping, handler: H, counters: Arc<Counters>) -> Self {
        Self { client, queue: mapping.queue.clone(), timeout: mapping.timeout, handler, counters }
    }

    /// Never fails: what went wrong is logged, and leaves its messages in the queue.
    pub(super) async fn invoke(self: Arc<Self>, records: Vec<SqsMessage>) {
        let receipts: Vec<Receipt> = records.iter().map(receipt).collect();
        let total = receipts.len();
        self.counters.invoked();
        let outcome = self.call(records).await.and_then(|response| succeeded(receipts, &response));
        let done = outcome.unwrap_or_else(|failure| {
            tracing::error!(%failure, queue = self.queue, records = total, "an event failed and comes again");
            Vec::new()
        });
        self.counters.failed(total - done.len());
        stream::iter(done.chunks(DELETE_AT_ONCE))
            .for_each_concurrent(DELETES_IN_FLIGHT, |receipts| self.delete(receipts))
            .await;
    }

    async fn call(&self, records: Vec<SqsMessage>) -> Result<SqsBatchResponse, Failure> {
        let mut event = SqsEvent::default();
        event.records = records;
        // The block makes a panic before the first await count too.
        let handled = AssertUnwindSafe(async { (self.handler)(event).await }).catch_unwind();
        match time::timeout(self.timeout, handled).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(Failure::Panicked),
            Err(_) => Err(Failure::TimedOut(self.timeout)),
        }
    }

    /// Deletes up to ten messages. One that stays is handled again, which every step must bear anyway.
    async fn delete(&self, receipts: &[Receipt]) {
        let entries = receipts.iter().enumerate().filter_map(|(number, receipt)| {
            let entry =
                DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(&receipt.handle);
            entry.build().ok()
        });
        let request = self.client.delete_message_batch().queue_url(&self.queue).set_entries(Some(entries.collect()));
        self.counters.deleted();
        match request.send().await {
            Ok(answer) if answer.failed.is_empty() => {}
            Ok(answer) => tracing::warn!(queue = self.queue, messages = answer.failed.len(), "messages not deleted"),
            Err(error) => {
                let error = error.into_service_error();
                tracing::warn!(%error, queue = self.queue, messages = receipts.len(), "messages not deleted");
            }
        }
    }
}

fn receipt(record: &SqsMessage) -> Receipt {
    Receipt {
        message_id: record.message_id.clone().unwrap_or_default(),
        handle: record.receipt_handle.clone().unwrap_or_default(),
    }
}

/// The records that the response does not name. Lambda takes an id that it does not know for a broken response and
/// fails the event, and so does this.
fn succeeded(receipts: Vec<Receipt>, response: &SqsBatchResponse) -> Result<Vec<Receipt>, Failure> {
    let known: HashSet<&str> = receipts.iter().map(|receipt| receipt.message_id.as_str()).collect();
    let failed: HashSet<&str> = response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
    if let Some(unknown) = failed.difference(&known).next() {
        return Err(Failure::Unknown((*unknown).to_owned()));
    }
    Ok(receipts.into_iter().filter(|receipt| !failed.contains(receipt.message_id.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipts() -> Vec<Receipt> {
        ["a", "b"].map(|id| Receipt { message_id: id.to_owned(), handle: id.to_owned() }).into()
    }

    #[test]
    fn only_named_records_fail() {
        let mut response = SqsBatchResponse::default();
        assert_eq!(succeeded(receipts(), &response).unwrap().len(), 2);
        response.add_failure("a");
        let done = succeeded(receipts(), &response).unwrap();
        assert_eq!(done.iter().map(|receipt| receipt.message_id.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_response_that_names_an_unknown_record_fails_the_event() {
        let mut response = SqsBatchResponse::default();
        response.add_failure("");
        assert_eq!(succeeded(receipts(), &response).err(), Some(Failure::Unknown(String::new())));
    }
}
