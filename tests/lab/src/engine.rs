//! A DynamoDB and an SQS elsewhere, by address, for the claims about ports: the command `conformance` says where.
//!
//! Its tables are made once and emptied before each claim, since making a table takes seconds on AWS. Its queues are
//! made anew for each claim, since a message that is hidden for hours cannot be taken away. So claims run one after the
//! other. No item expires: the claims' times are long past, and an engine would delete what one of them has just
//! written.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use embedded::stack::{queues, tables};
use groupage_aws::config::{Queues, Tables};
use tokio::sync::OnceCell;

/// The variable that says what the names of tables and queues begin with.
pub const PREFIX: &str = "GROUPAGE_CONFORMANCE_PREFIX";

/// The variable that says how far its indexes may be behind, in milliseconds.
pub const LAG_MS: &str = "GROUPAGE_CONFORMANCE_LAG_MS";

/// Why an engine cannot be used.
pub type Failure = Box<dyn Error + Send + Sync>;

/// An engine to run claims on.
#[derive(Debug)]
pub struct Engine {
    /// The way to it.
    pub config: SdkConfig,
    /// How far its indexes may be behind: nothing says when they are not.
    pub lag: Duration,
    prefix: String,
}

/// The engine that the environment names, if it names one.
pub async fn at_hand() -> Option<Engine> {
    let prefix = std::env::var(PREFIX).ok()?;
    let lag_ms = std::env::var(LAG_MS).ok().and_then(|ms| ms.parse().ok()).unwrap_or_default();
    Some(Engine { config: groupage_aws::load_config().await, lag: Duration::from_millis(lag_ms), prefix })
}

/// The tables that this process made.
static TABLES: OnceCell<Tables> = OnceCell::const_new();

/// Counts the claims of this process.
static CLAIM: AtomicU64 = AtomicU64::new(0);

impl Engine {
    /// Its tables, with nothing in them.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn cleared_tables(&self) -> Result<Tables, Failure> {
        let client = Client::new(&self.config);
        let tables = TABLES.get_or_try_init(|| tables::create(&client, &self.prefix, false)).await?;
        for (table, keys) in keyed(tables) {
            clear(&client, table, keys).await?;
        }
        Ok(tables.clone())
    }

    /// Queues that nobody has sent to yet.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn new_queues(&self) -> Result<Queues, Failure> {
        let claim = CLAIM.fetch_add(1, Ordering::SeqCst);
        let prefix = format!("{}-{}-{claim}", self.prefix, std::process::id());
        Ok(queues::create(&aws_sdk_sqs::Client::new(&self.config), &prefix).await?)
    }
}

/// The tables with the attributes of their keys.
fn keyed(tables: &Tables) -> [(&str, &'static [&'static str]); 9] {
    [
        (&tables.tasks, &["Id"]),
        (&tables.locks, &["Target"]),
        (&tables.batches, &["BatchId"]),
        (&tables.sessions, &["Pool", "SessionId"]),
        (&tables.trackers, &["TrackerId", "Node"]),
        (&tables.lists, &["ListId", "Slot"]),
        (&tables.lanes, &["LaneId", "Turn"]),
        (&tables.streams, &["StreamId", "Node"]),
        (&tables.routes, &["Name"]),
    ]
}

async fn clear(client: &Client, table: &str, keys: &[&str]) -> Result<(), Failure> {
    let mut pages = client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
    while let Some(item) = pages.next().await {
        let item: HashMap<String, AttributeValue> = item?;
        let key = item.into_iter().filter(|(name, _)| keys.contains(&name.as_str())).collect();
        client.delete_item().table_name(table).set_key(Some(key)).send().await?;
    }
    Ok(())
}

/// Removes all tables whose names begin with a prefix, as far as the engine lets it.
///
/// # Errors
/// What the engine says first.
pub async fn remove_tables(config: &SdkConfig, prefix: &str) -> Result<(), Failure> {
    let client = Client::new(config);
    let mut removed = Ok(());
    let mut names = client.list_tables().into_paginator().items().send();
    while let Some(name) = names.next().await {
        let name = name?;
        if name.starts_with(&format!("{prefix}-")) {
            removed = removed.and(client.delete_table().table_name(name).send().await.map(drop).map_err(Into::into));
        }
    }
    removed
}

/// Removes all queues whose names begin with a prefix, as far as the engine lets it.
///
/// # Errors
/// What the engine says first.
pub async fn remove_queues(config: &SdkConfig, prefix: &str) -> Result<(), Failure> {
    let client = aws_sdk_sqs::Client::new(config);
    let mut pages =
        client.list_queues().queue_name_prefix(format!("{prefix}-")).max_results(1_000).into_paginator().send();
    let mut urls = Vec::new();
    while let Some(page) = pages.next().await {
        urls.extend(page?.queue_urls.unwrap_or_default());
    }
    let mut removed = Ok(());
    for url in urls {
        removed = removed.and(client.delete_queue().queue_url(url).send().await.map(drop).map_err(Into::into));
    }
    removed
}
