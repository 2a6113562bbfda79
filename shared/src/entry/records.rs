//! Running a step for each record of an event, alone.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::future::join_all;
use serde::de::DeserializeOwned;
use tracing::{error, warn};

use crate::domain::retry::Retryable;
use crate::ports::{Outbox, Outgoing};
use crate::steps::Error;

/// The attribute that says how often a message was received.
const RECEIVE_COUNT: &str = "ApproximateReceiveCount";

/// One record of an internal queue, parsed.
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// Its receipt handle.
    pub receipt: String,
    /// How often it was received, this time included.
    pub received: u32,
}

/// What became of a record.
pub enum Fate<T> {
    /// Its message is done and can be deleted.
    Done(T),
    /// Nothing is wrong, but the message must come again.
    Keep(T),
    /// It failed; the message comes again.
    Failed,
}

/// What became of the records of an event, by their message ids.
pub type Fates<T> = Vec<(String, Fate<T>)>;

/// Runs `step` for each record at once and says what became of each, with its message id.
pub async fn each<M, T, F>(event: SqsEvent, step: impl Fn(Received<M>) -> F) -> Fates<T>
where
    M: DeserializeOwned,
    F: Future<Output = Result<Fate<T>, Error>>,
{
    let step = &step;
    join_all(event.records.into_iter().map(|record| async move {
        let message_id = record.message_id.clone().unwrap_or_default();
        let run = async { step(receive(record)?).await };
        let fate = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Ok(fate)) => fate,
            Ok(Err(failure)) => {
                log(&message_id, &failure);
                Fate::Failed
            }
            Err(_) => {
                error!(message_id, "handling the message panicked; this is a bug");
                Fate::Failed
            }
        };
        (message_id, fate)
    }))
    .await
}

/// Sends the successors of records, all by one call since SQS is paid by the request. A record whose successor was not
/// sent has failed.
pub async fn send<T>(outbox: &impl Outbox, decided: Fates<(T, Option<Outgoing>)>) -> Fates<T> {
    let mut messages = Vec::new();
    let mut fates = Vec::new();
    let mut senders = Vec::new();
    for (message_id, fate) in decided {
        let (fate, successor) = match fate {
            Fate::Done((outcome, successor)) => (Fate::Done(outcome), successor),
            Fate::Keep((outcome, successor)) => (Fate::Keep(outcome), successor),
            Fate::Failed => (Fate::Failed, None),
        };
        if let Some(successor) = successor {
            messages.push(successor);
            senders.push(fates.len());
        }
        fates.push((message_id, fate));
    }
    for (sender, sent) in senders.into_iter().zip(outbox.send(messages).await) {
        if let (Err(failure), Some((message_id, fate))) = (sent, fates.get_mut(sender)) {
            log(message_id, &failure.into());
            *fate = Fate::Failed;
        }
    }
    fates
}

/// The partial batch response that keeps these messages.
pub fn keeping(message_ids: impl IntoIterator<Item = String>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = message_ids
        .into_iter()
        .map(|id| {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            failure
        })
        .collect();
    response
}

/// Logs a failure where it ends: in the message's next delivery, or in the dead-letter queue.
pub fn log(message_id: &str, failure: &Error) {
    match failure.retryable() {
        Retryable::Yes => warn!(message_id, %failure, "the message will come again"),
        Retryable::No => error!(message_id, %failure, "the message cannot be handled as things are"),
    }
}

/// An event as Lambda hands it over, for whoever stands in for Lambda: of each record its id, which is its receipt handle too, its
/// body, and how often it was received, this time included.
#[must_use]
pub fn event(records: impl IntoIterator<Item = (String, String, u32)>) -> SqsEvent {
    let record = |(id, body, received): (String, String, u32)| {
        let mut record = SqsMessage::default();
        record.receipt_handle = Some(id.clone());
        record.message_id = Some(id);
        record.body = Some(body);
        record.attributes.insert(RECEIVE_COUNT.to_owned(), received.to_string());
        record
    };
    let mut event = SqsEvent::default();
    event.records = records.into_iter().map(record).collect();
    event
}

fn receive<M: DeserializeOwned>(record: SqsMessage) -> Result<Received<M>, Error> {
    let body = record.body.unwrap_or_default();
    let message = serde_json::from_str(&body).map_err(|error| Error::BadMessage(error.to_string()))?;
    let count = record.attributes.get(RECEIVE_COUNT).and_then(|count| count.parse().ok());
    Ok(Received { message, receipt: record.receipt_handle.unwrap_or_default(), received: count.unwrap_or(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, body: &str) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.message_id = Some(id.to_owned());
        record.body = Some(body.to_owned());
        record
    }

    #[tokio::test]
    async fn a_record_that_panics_or_makes_no_sense_fails_alone() {
        let mut event = SqsEvent::default();
        event.records = vec![record("a", "1"), record("b", "2"), record("c", "no number"), record("d", "4")];
        let fates = each(event, |received: Received<u32>| async move {
            assert_ne!(received.message, 2, "the step's own bug");
            Ok(Fate::Done(received.message))
        })
        .await;
        let done: Vec<_> = fates.into_iter().map(|(id, fate)| (id, matches!(fate, Fate::Done(_)))).collect();
        let expected = [("a", true), ("b", false), ("c", false), ("d", true)].map(|(id, done)| (id.to_owned(), done));
        assert_eq!(done, expected);
    }
}
