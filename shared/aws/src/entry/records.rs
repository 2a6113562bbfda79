//! Running a step for each record of an event, alone.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::future::join_all;
use groupage_core::domain::TraceParent;
use groupage_core::domain::retry::Retryable;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::ports::Outbox;
use groupage_core::steps::Error;
use groupage_core::steps::election_messages::{NextMessage, send_next};
use serde::de::DeserializeOwned;
use tracing::{error, warn};

/// The attribute that says how often a message was received.
const RECEIVE_COUNT: &str = "ApproximateReceiveCount";

/// The attribute that says who sent a message: the id of a user, or `ROLE:SESSION`. SQS writes it.
const SENDER_ID: &str = "SenderId";

/// One record of an internal queue, parsed.
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// SQS's id for it.
    pub message_id: String,
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

/// Sends what follows records. A record with one that was not sent has failed.
pub async fn send<T>(outbox: &impl Outbox, decided: Fates<(T, Vec<NextMessage>)>) -> Fates<T> {
    let mut fates = Vec::new();
    let mut next_messages = Vec::new();
    for (message_id, fate) in decided {
        let (fate, of_record) = match fate {
            Fate::Done((outcome, of_record)) => (Fate::Done(outcome), of_record),
            Fate::Keep((outcome, of_record)) => (Fate::Keep(outcome), of_record),
            Fate::Failed => (Fate::Failed, Vec::new()),
        };
        next_messages.extend(of_record.into_iter().map(|next_message| (fates.len(), next_message)));
        fates.push((message_id, fate));
    }
    for (sender, failure) in send_next(outbox, next_messages).await {
        if let Some((message_id, fate)) = fates.get_mut(sender) {
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

/// An event as Lambda hands it over, for code that stands in for Lambda: of each record its id, which is its receipt
/// handle too, its body, and how often it was received, this time included.
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

/// How often a message was received, this time included.
pub fn received(record: &SqsMessage) -> u32 {
    record.attributes.get(RECEIVE_COUNT).and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Who sent a message, as the queue says.
pub fn sender(record: &SqsMessage) -> Option<&str> {
    record.attributes.get(SENDER_ID).map(String::as_str)
}

/// What a message's sender says that it belongs to; nothing if that is malformed.
pub fn trace(record: &SqsMessage) -> Option<TraceParent> {
    TraceParent::parse(record.message_attributes.get(TRACEPARENT)?.string_value.as_deref()?).ok()
}

fn receive<M: DeserializeOwned>(record: SqsMessage) -> Result<Received<M>, Error> {
    let received = received(&record);
    let (message_id, body) = (record.message_id.unwrap_or_default(), record.body.unwrap_or_default());
    let message = serde_json::from_str(&body).map_err(|error| Error::BadMessage(error.to_string()))?;
    Ok(Received { message, message_id, receipt: record.receipt_handle.unwrap_or_default(), received })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use groupage_core::domain::batch::Pace;
    use groupage_core::domain::message::{Election, Lead};
    use groupage_core::domain::{Copies, Fence, Target, Term, Timestamp, WorkflowId};
    use groupage_core::ports::{self, Outgoing};

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

    fn election(n: usize) -> Election {
        let (workflow, target) = (WorkflowId::new(format!("w{n}")), Target::new(format!("parcels:{n}")));
        Election {
            workflow,
            target,
            tasks: Vec::new(),
            since: Timestamp(0),
            attempt: 1,
            signalled: None,
            copies: Copies::NONE,
        }
    }

    fn leader(n: usize) -> NextMessage {
        let Election { workflow, target, .. } = election(n);
        let term = Term { target, workflow, fence: Fence(1) };
        let (tasks, copies) = (Vec::new(), Copies::NONE);
        let lead = Lead { term, tasks, verify: false, pace: Pace::UNKNOWN, resume: None, wakes: false, copies };
        NextMessage::Lead(lead)
    }

    /// Queues that take no message with this in it, and remember the others.
    struct Refusing(&'static str, Mutex<Vec<Outgoing>>);

    impl Outbox for Refusing {
        async fn send(&self, messages: Vec<Outgoing>) -> Vec<ports::Result<()>> {
            let mut answers = Vec::new();
            for message in messages {
                answers.push(if message.body.contains(self.0) {
                    Err(ports::Error::Unavailable { what: "sending", why: "a test".to_owned() })
                } else {
                    self.1.lock().unwrap().push(message);
                    Ok(())
                });
            }
            answers
        }
    }

    /// What becomes of three records, and the bodies sent for them, if no message with this in it is taken.
    async fn sent_without(refused: &'static str) -> (Vec<bool>, Vec<String>) {
        let again = |n, delay_ms| NextMessage::Again(election(n), delay_ms);
        let of_records = [vec![leader(1), again(2, 500)], vec![again(3, 500), again(4, 900)], vec![again(5, 900)]];
        let decided =
            of_records.into_iter().enumerate().map(|(n, of_record)| (n.to_string(), Fate::Done(((), of_record))));
        let queues = Refusing(refused, Mutex::default());
        let fates = send(&queues, decided.collect()).await;
        let failed = fates.iter().map(|(_, fate)| matches!(fate, Fate::Failed)).collect();
        (failed, queues.1.into_inner().unwrap().into_iter().map(|message| message.body).collect())
    }

    #[tokio::test]
    async fn a_record_fails_with_any_message_that_carries_its_next_one() {
        let all = sent_without("nothing of the kind").await;
        assert_eq!((all.0, all.1.len()), (vec![false; 3], 3), "a leader, and those of each moment together");
        assert_eq!(sent_without("w5").await.0, [false, true, true]);
        assert_eq!(sent_without("w3").await.0, [true, true, false]);
    }

    #[tokio::test]
    async fn a_record_whose_leader_is_not_sent_for_sends_no_election_round_twice() {
        let (failed, bodies) = sent_without("w1").await;
        assert_eq!(failed, [true, false, false]);
        assert!(bodies.iter().all(|body| !body.contains("w2")), "it comes with its record: {bodies:?}");
    }
}
