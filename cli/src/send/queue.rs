//! The task queue.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use groupage_core::domain::tracker::ItemId;
use tokio::time;

use super::bundle::Message;

/// How often a message is sent whose request succeeded and which SQS did not take.
const ATTEMPTS: u32 = 6;

/// The pause after the first of them; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What SQS says of a message that it refuses whenever it is sent: characters that it does not carry, or too many.
///
/// SQS blames the sender for much more that passes, such as a disabled key or too many requests. A code that is not in
/// this list stops the sending, since an item that has failed can never succeed afterwards.
const FINAL: [&str; 2] = ["InvalidMessageContents", "InvalidParameterValue"];

const FAILED: &str = "cannot send to the task queue";

/// A message that SQS will never take.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The line it came from.
    pub line: u64,
    /// What SQS said.
    pub why: String,
    /// The item that waits for it in vain.
    pub item: Option<ItemId>,
}

/// Sends to the task queue.
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

    /// Sends a bundle. Returns those of its messages that SQS will never take; all others are sent. If it fails though
    /// the SDK has tried again, some may have been sent.
    pub async fn send(&self, bundle: &[Message]) -> Result<Vec<Refused>> {
        let mut refused = Vec::new();
        let mut open: HashMap<String, &Message> = HashMap::new();
        for (number, message) in bundle.iter().enumerate() {
            open.insert(number.to_string(), message);
        }
        let mut last = (0, String::new());
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            for (id, failure) in self.request(&open).await? {
                match (open.get(&id), failure) {
                    (_, None) => drop(open.remove(&id)),
                    (Some(message), Some(failure)) if failure.is_final() => {
                        refused.push(Refused { line: message.line, why: failure.why(), item: message.item.clone() });
                        open.remove(&id);
                    }
                    (Some(message), Some(failure)) => last = (message.line, failure.why()),
                    // An answer for a message that was not sent.
                    (None, Some(_)) => {}
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
        let (line, why) = last;
        bail!("the task queue does not take line {line} now: {why}")
    }

    /// Sends what is open. Returns each entry's id, with its failure if it failed.
    async fn request(&self, open: &HashMap<String, &Message>) -> Result<Vec<(String, Option<Failure>)>> {
        let entries = open
            .iter()
            .map(|(id, message)| SendMessageBatchRequestEntry::builder().id(id).message_body(&message.body).build());
        let entries = entries.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!("{FAILED}: {error}"))?;
        let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = request.send().await.map_err(|error| anyhow!("{FAILED}: {}", groupage_aws::chain(&error)))?;
        let sent = answer.successful.into_iter().map(|entry| (entry.id, None));
        let failed = answer.failed.into_iter();
        let failed = failed.map(|entry| (entry.id, Some(Failure { code: entry.code, message: entry.message })));
        Ok(sent.chain(failed).collect())
    }
}

/// Why SQS did not take one message of a request that it took.
struct Failure {
    code: String,
    message: Option<String>,
}

impl Failure {
    /// Whether sending the message again is of no use.
    fn is_final(&self) -> bool {
        // Some codes come with their service before them: `AWS.SimpleQueueService.…`.
        self.code.rsplit(['.', '#']).next().is_some_and(|code| FINAL.contains(&code))
    }

    fn why(self) -> String {
        let Self { code, message } = self;
        message.map_or_else(|| code.clone(), |text| format!("{code}: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_that_is_refused_for_what_it_is_is_refused_for_good() {
        let is_final = |code: &str| Failure { code: code.to_owned(), message: None }.is_final();
        for code in ["InvalidMessageContents", "InvalidParameterValue", "AWS.SimpleQueueService.InvalidMessageContents"]
        {
            assert!(is_final(code), "{code}");
        }
        for code in ["InternalError", "RequestThrottled", "KmsDisabled", "KMS.ThrottlingException", "OverLimit", ""] {
            assert!(!is_final(code), "{code}");
        }
    }
}
