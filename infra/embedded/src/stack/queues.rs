//! The queues, as `template.yaml` defines them for a stack named `groupage`, except their visibility timeouts.

use std::collections::HashMap;

use aws_sdk_sqs::{
    Client, error::SdkError, operation::create_queue::CreateQueueError, types::QueueAttributeName as Name,
};
use futures::FutureExt;
use groupage_aws::config::Queues;

use crate::Error;

type Attributes = HashMap<Name, String>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

const FOUR_DAYS_S: &str = "345600";
const FOURTEEN_DAYS_S: &str = "1209600";

/// A queue that a step reads.
struct Step {
    name: &'static str,
    /// The function's timeout and [`SPARE_S`].
    visibility_s: u32,
    max_receives: u32,
    max_bytes: u32,
    is_fifo: bool,
}

/// How long a message stays hidden beyond its function's timeout, in seconds. AWS advises six timeouts, since Lambda
/// may hold messages back while it is throttled; here at most one event waits for a free handler, and steps may be
/// repeated. What is hidden for longer than a handler may take is in the hand of a process that has died.
const SPARE_S: u32 = 5;

const TASK: Step =
    Step { name: "task", visibility_s: 30 + SPARE_S, max_receives: 10, max_bytes: 256_000, is_fifo: false };
/// The same, in order.
const IN_ORDER: Step = Step { name: "in-order", is_fifo: true, ..TASK };
const ELECT: Step =
    Step { name: "elect", visibility_s: 15 + SPARE_S, max_receives: 10, max_bytes: 262_144, is_fifo: false };
const GROUP: Step =
    Step { name: "group", visibility_s: 60 + SPARE_S, max_receives: 10, max_bytes: 262_144, is_fifo: false };
/// Every retry of a call is a receive of this one.
const HANDLE: Step =
    Step { name: "handle", visibility_s: 75 + SPARE_S, max_receives: 100, max_bytes: 262_144, is_fifo: false };
/// The same of long calls.
const LONG_HANDLE: Step = Step { name: "long-handle", visibility_s: 900 + SPARE_S, ..HANDLE };

/// Creates every queue, each step's with its dead-letter queue; their names begin with `prefix`.
pub async fn create(client: &Client, prefix: &str) -> Result<Queues, Error> {
    let kept = || Attributes::from([(Name::MessageRetentionPeriod, FOURTEEN_DAYS_S.to_owned())]);
    Ok(Queues {
        tasks: create_step(client, prefix, &TASK).await?,
        in_order: create_step(client, prefix, &IN_ORDER).await?,
        elect: create_step(client, prefix, &ELECT).await?,
        group: create_step(client, prefix, &GROUP).await?,
        handle: create_step(client, prefix, &HANDLE).await?,
        long_handle: create_step(client, prefix, &LONG_HANDLE).await?,
        rejected: create_queue(client, format!("{prefix}-rejected"), kept()).await?,
        notifications: create_queue(client, format!("{prefix}-notification"), kept()).await?,
    })
}

async fn create_step(client: &Client, prefix: &str, step: &Step) -> Result<String, Error> {
    let (suffix, fifo) = if step.is_fifo { (".fifo", fifo()) } else { ("", Attributes::new()) };
    let mut kept = fifo.clone();
    kept.insert(Name::MessageRetentionPeriod, FOURTEEN_DAYS_S.to_owned());
    let dead = create_queue(client, format!("{prefix}-{}-dead{suffix}", step.name), kept).await?;
    let redrive = serde_json::json!({
        "deadLetterTargetArn": arn_of(client, &dead).await?,
        "maxReceiveCount": step.max_receives,
    });
    let mut attributes = fifo;
    attributes.extend([
        (Name::VisibilityTimeout, step.visibility_s.to_string()),
        (Name::MessageRetentionPeriod, FOUR_DAYS_S.to_owned()),
        (Name::MaximumMessageSize, step.max_bytes.to_string()),
        (Name::RedrivePolicy, redrive.to_string()),
    ]);
    create_queue(client, format!("{prefix}-{}{suffix}", step.name), attributes).await
}

/// The ARN of a queue.
async fn arn_of(client: &Client, url: &str) -> Result<String, Error> {
    let asked = client.get_queue_attributes().queue_url(url).attribute_names(Name::QueueArn).send().boxed().await;
    let named = asked.map_err(BoxError::from).and_then(|answer| {
        let arn = answer.attributes().and_then(|attributes| attributes.get(&Name::QueueArn)).cloned();
        arn.ok_or_else(|| "the answer has no ARN".into())
    });
    named.map_err(|source| Error::Create { what: format!("the redrive policy to {url}"), source })
}

/// What makes a queue keep the order of each message group. A message that is sent twice within five minutes comes
/// once.
fn fifo() -> Attributes {
    Attributes::from([
        (Name::FifoQueue, "true".to_owned()),
        (Name::ContentBasedDeduplication, "true".to_owned()),
        (Name::DeduplicationScope, "messageGroup".to_owned()),
        (Name::FifoThroughputLimit, "perMessageGroupId".to_owned()),
    ])
}

async fn create_queue(client: &Client, name: String, attributes: Attributes) -> Result<String, Error> {
    ensure(client, &name, attributes).await.map_err(|source| Error::Create { what: format!("queue {name}"), source })
}

/// Makes the queue. One that an older version made gets the attributes of this one.
async fn ensure(client: &Client, name: &str, attributes: Attributes) -> Result<String, BoxError> {
    let created = client.create_queue().queue_name(name).set_attributes(Some(attributes.clone())).send().boxed().await;
    let is_other = |error: &SdkError<CreateQueueError>| {
        error.as_service_error().is_some_and(CreateQueueError::is_queue_name_exists)
    };
    let url = match created {
        Ok(answer) => return answer.queue_url.ok_or_else(no_url),
        Err(error) if is_other(&error) => client.get_queue_url().queue_name(name).send().boxed().await?.queue_url,
        Err(error) => return Err(error.into()),
    };
    let url = url.ok_or_else(no_url)?;
    // Whether it keeps an order cannot be changed, and its name says so.
    let settable = attributes.into_iter().filter(|(attribute, _)| *attribute != Name::FifoQueue).collect();
    client.set_queue_attributes().queue_url(&url).set_attributes(Some(settable)).send().boxed().await?;
    Ok(url)
}

fn no_url() -> BoxError {
    "the answer has no queue URL".into()
}
