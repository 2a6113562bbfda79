//! A worker whose results live in DynamoDB, truly exactly once: it commits them in one transaction with the batch's
//! acknowledgement, so that there are both or neither, however often the worker dies or another takes its batch over.
//!
//! It prints labels: one item per parcel in a table of its own (key: `Parcel`, a string). Its route leaves batches to
//! workers, and keeps them small enough: a transaction takes 100 items, and the acknowledgement is one.
//!
//! ```yaml
//! version: 1
//! routes:
//!   - { name: labels, target: city, batch: { max_items: 99 }, downstream: pull }
//! ```
//!
//! Run it with the environment lines that `groupage local` prints:
//! `cargo run -p groupage-aws --example own_transaction -- labels my-label-table`

use std::error::Error;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use groupage_aws::entry::{AwsStack, connect};
use groupage_aws::{Downstreams, Dynamo, Sqs, System};
use groupage_core::domain::{Exception, Pool, Reason, Results, RouteName, SessionId, TaskId};
use groupage_core::ports::Env;
use groupage_core::routes::Allowed;
use groupage_core::steps::heartbeat::Heartbeat;
use groupage_core::steps::process::Counts;
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::process::{Claimed, Processor};
use groupage_core::steps::work::Worker;

type Failure = Box<dyn Error + Send + Sync>;
type LabelWorker<'a> = Worker<'a, Dynamo, Sqs, Downstreams, System>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(route), Some(table)) = (arguments.next(), arguments.next()) else {
        return Err("give a route that says `downstream: pull`, and a table for the labels".into());
    };
    let (stack, config) = connect().await?;
    let printer = Printer { client: Client::new(&config), table };
    let batches = drain(&stack, &config, &RouteName::parse(&route)?, &printer).await?;
    println!("{batches} batches settled");
    Ok(())
}

/// Works until no batch is left; says how many it settled.
pub async fn drain(
    stack: &AwsStack,
    config: &SdkConfig,
    route: &RouteName,
    printer: &Printer,
) -> Result<usize, Failure> {
    let AwsStack { store, queues: outbox, env, timing, worker, .. } = stack;
    let routes = stack.routes.current().await?;
    // Nothing is called: this worker is the downstream.
    let downstream = Downstreams::new(config, Allowed::on_own_machine());
    // The workers of a route find each other by their sessions, and divide its batches.
    let session = SessionId::within(&Pool::of_route(route), &env.fresh_id());
    let heartbeat = &Heartbeat::new(store, env, *timing, session, worker);
    let processor = Processor {
        store,
        outbox,
        downstream: &downstream,
        env,
        routes: &routes,
        patience_ms: 60_000,
        announced: &Announced::default(),
        heartbeat,
    };
    heartbeat.open().await??;
    let work = async {
        let mut worker = Worker::new(processor, route.clone());
        let mut settled = 0;
        while let Some(claimed) = worker.claim_next().await? {
            settled += usize::from(printer.settle(&worker, stack, claimed).await?.is_some());
        }
        Ok(settled)
    };
    // Renews the session meanwhile; if that fails, others may have the batch, and the work is dropped where it is.
    let worked = heartbeat.keep(Box::pin(work)).await;
    // A clean end: what this worker still has claimed is free at once, not only when its session expires.
    heartbeat.end().await;
    worked?
}

/// Prints labels into a table.
pub struct Printer {
    /// Commits the transactions.
    pub client: Client,
    /// Where labels go.
    pub table: String,
}

impl Printer {
    /// Does a claimed batch's work and commits it with the acknowledgement. `None`: the claim was lost, and nothing was
    /// written. After any other error the batch is simply claimed again.
    pub async fn settle(
        &self,
        worker: &LabelWorker<'_>,
        stack: &AwsStack,
        claimed: Claimed,
    ) -> Result<Option<Counts>, Failure> {
        let (mut labels, mut results) = (Vec::new(), Results::new());
        for task in claimed.tasks() {
            if let Some(label) = label_of(&task.payload) {
                labels.push(self.put(&task.id, label)?);
            } else {
                // Members that are not named here have succeeded.
                let attempts = task.attempts + claimed.batch.attempts;
                results.insert(task.id.clone(), Exception::Failed { reason: Reason::new("no_city"), attempts });
            }
        }
        let settled = claimed.batch.settled(results, stack.env.now());
        let acknowledgement = stack.store.acknowledgement(&claimed.batch, &settled)?;
        let commit = self.client.transact_write_items().transact_items(acknowledgement);
        let commit = labels.into_iter().fold(commit, |commit, label| commit.transact_items(label));
        match commit.send().await {
            Ok(_) => Ok(Some(worker.committed(claimed, &settled).await?)),
            Err(error) if is_claim_lost(&error) => {
                worker.lost(claimed).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A label needs no condition of its own: the acknowledgement's holds for the whole transaction.
    fn put(&self, parcel: &TaskId, label: String) -> Result<TransactWriteItem, Failure> {
        let put = Put::builder()
            .table_name(&self.table)
            .item("Parcel", AttributeValue::S(parcel.to_string()))
            .item("Label", AttributeValue::S(label));
        Ok(TransactWriteItem::builder().put(put.build()?).build())
    }
}

/// The work itself.
fn label_of(payload: &str) -> Option<String> {
    let parcel: serde_json::Value = serde_json::from_str(payload).ok()?;
    Some(format!("To {}", parcel.get("city")?.as_str()?))
}

/// Whether the transaction was cancelled because the batch is not as this worker claimed it. DynamoDB gives one reason
/// for each item, in their order; the acknowledgement is the first.
fn is_claim_lost(error: &SdkError<TransactWriteItemsError>) -> bool {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return false;
    };
    cancelled.cancellation_reasons().first().and_then(|reason| reason.code()) == Some("ConditionalCheckFailed")
}
