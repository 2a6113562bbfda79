//! The queues of a stack as operators see them: how many messages, and where dead letters lie.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use groupage_aws::config::Queues;
use serde::Serialize;

/// SQS did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{what} {queue}: {why}")]
pub struct Error {
    what: &'static str,
    queue: String,
    why: String,
}

impl Error {
    /// An error about one queue, from whatever the SDK said.
    pub fn new(what: &'static str, queue: &str, error: impl std::error::Error) -> Self {
        Self { what, queue: queue.to_owned(), why: DisplayErrorContext(error).to_string() }
    }
}

/// A queue by the name people use for it.
#[derive(Clone, Debug)]
pub struct Queue {
    /// `tasks`, `elect`, …, `rejected`, `tasks-dlq`, …
    pub name: String,
    pub url: String,
    /// Where its messages came from and can be sent again; none for a queue that a step or a person reads.
    pub source: Option<String>,
}

/// How many messages a queue holds, as SQS estimates it.
#[derive(Clone, Debug, Serialize)]
pub struct Depth {
    pub queue: String,
    /// Ready to be received.
    pub ready: u64,
    /// Received and not yet deleted.
    pub in_flight: u64,
    /// Not to be received yet.
    pub delayed: u64,
}

/// The queue of what can never be registered, by name.
pub const REJECTED: &str = "rejected";

/// The step queues, by name and URL.
pub fn step_queues(queues: &Queues) -> [(&'static str, &String); 5] {
    [
        ("tasks", &queues.tasks),
        ("in-order", &queues.in_order),
        ("elect", &queues.elect),
        ("group", &queues.group),
        ("handle", &queues.handle),
    ]
}

/// The queues whose messages need a person: the rejected queue and each step's dead-letter queue.
///
/// # Errors
/// SQS did not answer, or a step's queue has no dead-letter queue.
pub async fn ended(client: &Client, queues: &Queues) -> Result<Vec<Queue>, Error> {
    let rejected =
        Queue { name: REJECTED.to_owned(), url: queues.rejected.clone(), source: Some(queues.tasks.clone()) };
    let mut found = vec![rejected];
    for (name, url) in step_queues(queues) {
        let dlq = dead_letter_queue(client, url).await?;
        found.push(Queue { name: format!("{name}-dlq"), url: dlq, source: Some(url.clone()) });
    }
    Ok(found)
}

/// How many messages a queue holds.
pub async fn depth(client: &Client, name: &str, url: &str) -> Result<Depth, Error> {
    let wanted = [
        Attribute::ApproximateNumberOfMessages,
        Attribute::ApproximateNumberOfMessagesNotVisible,
        Attribute::ApproximateNumberOfMessagesDelayed,
    ];
    let answer = client.get_queue_attributes().queue_url(url).set_attribute_names(Some(wanted.to_vec())).send().await;
    let attributes = answer.map_err(|error| Error::new("counting", name, error))?.attributes.unwrap_or_default();
    let number = |attribute| attributes.get(&attribute).and_then(|text| text.parse().ok()).unwrap_or_default();
    let [ready, in_flight, delayed] = wanted.map(number);
    Ok(Depth { queue: name.to_owned(), ready, in_flight, delayed })
}

/// The most bytes that a queue takes in one message.
///
/// # Errors
/// SQS did not answer, or does not say.
pub async fn max_bytes(client: &Client, name: &str, url: &str) -> Result<usize, Error> {
    const WHAT: &str = "asking for the largest message of";
    let answer =
        client.get_queue_attributes().queue_url(url).attribute_names(Attribute::MaximumMessageSize).send().await;
    let attributes = answer.map_err(|error| Error::new(WHAT, name, error))?.attributes.unwrap_or_default();
    let says = attributes.get(&Attribute::MaximumMessageSize).map_or("", String::as_str);
    says.parse().map_err(|error: std::num::ParseIntError| Error::new(WHAT, name, error))
}

async fn dead_letter_queue(client: &Client, url: &str) -> Result<String, Error> {
    let what = "finding the dead-letter queue of";
    let answer = client.get_queue_attributes().queue_url(url).attribute_names(Attribute::RedrivePolicy).send().await;
    let attributes = answer.map_err(|error| Error::new(what, url, error))?.attributes.unwrap_or_default();
    let policy = attributes.get(&Attribute::RedrivePolicy).map_or("", String::as_str);
    let policy: serde_json::Value = serde_json::from_str(policy).unwrap_or_default();
    let arn = policy["deadLetterTargetArn"].as_str().unwrap_or_default();
    let name = arn.rsplit(':').next().unwrap_or_default();
    let answer = client.get_queue_url().queue_name(name).send().await;
    Ok(answer.map_err(|error| Error::new(what, url, error))?.queue_url.unwrap_or_default())
}
