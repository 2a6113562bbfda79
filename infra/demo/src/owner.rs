//! Whose parcels they are: somebody who wants to know one thing, when all are done, and is told once.

use std::error::Error;

use anyhow::{Result, anyhow};
use aws_sdk_sqs::Client;
use groupage_aws::entry::AwsStack;
use groupage_core::domain::tracker::{ItemId, Options, Place};
use groupage_core::domain::{NotificationQueue, TrackerId};
use groupage_core::steps::track::Tracking;
use serde::Deserialize;
use tokio::time::{Duration, Instant};

/// The demo's only tracker.
const TRACKER: &str = "demo";
/// How long the notice may take after the last parcel is settled.
const PATIENCE: Duration = Duration::from_secs(30);

/// The notice that everything is done, as the owner reads it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Notice {
    /// The same for every repeat.
    pub id: String,
    #[serde(rename = "type")]
    kind: String,
    /// The figures.
    pub data: Data,
}

/// What the notice says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Data {
    /// Items added.
    #[serde(default)]
    pub items: u64,
    #[serde(default)]
    pub succeeded: u64,
    #[serde(default)]
    pub failed: u64,
}

/// Opens a tracker for this many parcels and gives each its item.
pub async fn announce(stack: &AwsStack, parcels: usize) -> Result<Vec<Option<ItemId>>> {
    let id = TrackerId::new(TRACKER);
    let options = Options { deadline: None, notify: NotificationQueue::Default };
    tracking(stack).open(id.clone(), options).await??;
    let (added, _) = tracking(stack).add(&id, "all", parcels as u64).await??;
    let item = |number| Place::of(number).map(|at| ItemId { tracker: id.clone(), at });
    Ok((added.start..added.start + added.count).map(item).collect())
}

/// Says that no more parcels come.
pub async fn seal(stack: &AwsStack) -> Result<()> {
    tracking(stack).seal(&TrackerId::new(TRACKER)).await??;
    Ok(())
}

/// Listens until the notice has come and the queue is empty; returns every copy of it.
pub async fn listen(client: &Client, queue: &str) -> Result<Vec<Notice>> {
    let failed = |error: &dyn Error| anyhow!("cannot read the notifications: {}", groupage_aws::chain(error));
    let (end, mut heard) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        let receive = client.receive_message().queue_url(queue).max_number_of_messages(10).wait_time_seconds(1);
        let messages = receive.send().await.map_err(|error| failed(&error))?.messages.unwrap_or_default();
        if messages.is_empty() && (!heard.is_empty() || Instant::now() >= end) {
            return Ok(heard);
        }
        // Notices of single parcels that failed lie there, too.
        let notices = messages.iter().filter_map(|message| serde_json::from_str::<Notice>(message.body()?).ok());
        heard.extend(notices.filter(|notice| notice.kind == "groupage.tracker.completed.v1"));
        for message in messages {
            let delete = client.delete_message().queue_url(queue).set_receipt_handle(message.receipt_handle);
            delete.send().await.map_err(|error| failed(&error))?;
        }
    }
}

const fn tracking(stack: &AwsStack) -> Tracking<'_, groupage_aws::Dynamo, groupage_aws::Sqs, groupage_aws::System> {
    Tracking { store: &stack.store, outbox: &stack.queues, env: &stack.env }
}
