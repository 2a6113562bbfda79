//! The intake queue.

use std::collections::HashMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use tokio::time;

use super::bundle::Message;

/// How often a message is sent whose request succeeded and which SQS did not take.
const ATTEMPTS: u32 = 6;

/// The pause after the first of them; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Nothing can be sent now. The SDK has tried again by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed as a whole.
    #[error("cannot send to the intake queue: {0}")]
    Request(String),
    /// SQS keeps refusing messages for reasons of its own.
    #[error("the intake queue takes no more: {0}")]
    Refused(String),
}

/// A message that SQS will never take.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The line it came from.
    pub line: u64,
    /// What SQS said.
    pub why: String,
}

/// Sends to the intake queue.
#[derive(Clone, Debug)]
pub struct Intake {
    client: Client,
    url: String,
}

impl Intake {
    /// The queue with this URL.
    pub fn new(config: &SdkConfig, url: String) -> Self {
        Self { client: Client::new(config), url }
    }

    /// Sends a bundle. Returns those of its messages that SQS will never take; all others are sent.
    ///
    /// # Errors
    /// [`Error`]; some of the messages may have been sent.
    pub async fn send(&self, bundle: &[Message]) -> Result<Vec<Refused>, Error> {
        let mut refused = Vec::new();
        let mut open: HashMap<String, &Message> = HashMap::new();
        for (number, message) in bundle.iter().enumerate() {
            open.insert(number.to_string(), message);
        }
        let mut why = String::new();
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            for (id, failure) in self.request(&open).await? {
                match (open.get(&id), failure) {
                    (_, None) => drop(open.remove(&id)),
                    (Some(message), Some(Failure { message: said, is_ours: true })) => {
                        refused.push(Refused { line: message.line, why: said });
                        open.remove(&id);
                    }
                    (_, Some(failure)) => why = failure.message,
                }
            }
            if open.is_empty() {
                return Ok(refused);
            }
            if attempt < ATTEMPTS {
                time::sleep(pause).await;
                pause *= 2;
            }
        }
        Err(Error::Refused(why))
    }

    /// Sends what is open. Returns each entry's id, with its failure if it failed.
    async fn request(&self, open: &HashMap<String, &Message>) -> Result<Vec<(String, Option<Failure>)>, Error> {
        let entries = open
            .iter()
            .map(|(id, message)| SendMessageBatchRequestEntry::builder().id(id).message_body(&message.body).build());
        let entries = entries.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Request(error.to_string()))?;
        let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = request.send().await.map_err(|error| Error::Request(DisplayErrorContext(error).to_string()))?;
        let sent = answer.successful.into_iter().map(|entry| (entry.id, None));
        let failed = answer.failed.into_iter().map(|entry| {
            let message = entry.message.map_or_else(|| entry.code.clone(), |text| format!("{}: {text}", entry.code));
            (entry.id, Some(Failure { message, is_ours: entry.sender_fault }))
        });
        Ok(sent.chain(failed).collect())
    }
}

/// Why SQS did not take one message of a request that it took.
struct Failure {
    message: String,
    /// The message is at fault: sending it again is of no use.
    is_ours: bool,
}
