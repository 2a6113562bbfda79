//! `groupage status`: where a task, a batch, a tracker, a Target or the whole stack stands, and who works.

mod batch;
mod sessions;
mod tracker;

use aws_sdk_sqs::Client;
use serde::Serialize;
use shared::aws::Dynamo;
use shared::domain::id::{BatchId, Target, TaskId, TrackerId};
use shared::domain::lock::Lock;
use shared::domain::task::{Shown, Status, Task};
use shared::ports::{self, Batches, Freshness, Locks, Tasks};
use shared::routes;

use crate::Ending;
use crate::args::{StatusCommand, StatusOptions};
use crate::connection::{self, Connection};
use crate::output::{Output, grouped, summary};
use crate::queues::{self, Depth};
use crate::steps;

/// The status is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no stack.
    #[error(transparent)]
    Connection(#[from] connection::Error),
    /// A table did not answer.
    #[error(transparent)]
    Table(#[from] ports::Error),
    /// SQS did not answer.
    #[error(transparent)]
    Queue(#[from] queues::Error),
    /// The stored routes file is of no use.
    #[error("the stored routes file is wrong: {0}")]
    Routes(#[from] routes::Error),
    /// A tracker could not be looked at.
    #[error(transparent)]
    Step(#[from] shared::steps::Error),
    /// There is no such thing.
    #[error("no {kind} `{id}` is known. Settled ones are forgotten after their retention time")]
    Unknown {
        /// Task, batch, tracker or Target.
        kind: &'static str,
        /// Its id.
        id: String,
    },
}

#[derive(Serialize)]
struct TaskStatus {
    id: TaskId,
    status: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<BatchId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    returned: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    registered_at_ms: u64,
}

#[derive(Serialize)]
struct TargetStatus {
    target: Target,
    /// Tasks that the index shows waiting; up to a page, and the index lags.
    waiting: usize,
    more_wait: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_batch: Option<BatchId>,
}

/// How many waiting tasks of a Target are counted.
const PAGE: usize = 1_000;

/// Prints a status.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &StatusOptions, stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let connection = Connection::open(stack).await?;
    let store = steps::unmetered_store(&connection);
    match &options.command {
        None => totals(&connection, output).await?,
        Some(StatusCommand::Task { id }) => task(&store, &TaskId::new(id), output).await?,
        Some(StatusCommand::Batch { id }) => batch::show(&store, &BatchId::new(id), output).await?,
        Some(StatusCommand::Sessions) => sessions::show(&connection, &store, output).await?,
        Some(StatusCommand::Tracker { id }) => tracker::show(&connection, &store, &TrackerId::new(id), output).await?,
        Some(StatusCommand::Target { target: id }) => target(&store, &Target::new(id), output).await?,
    }
    Ok(Ending::Well)
}

async fn totals(connection: &Connection, output: &Output) -> Result<(), Error> {
    let client = Client::new(&connection.config);
    let mut depths: Vec<Depth> = Vec::new();
    for (name, url) in queues::step_queues(&connection.queues) {
        depths.push(queues::depth(&client, name, url).await?);
    }
    for queue in queues::ended(&client, &connection.queues).await? {
        depths.push(queues::depth(&client, &queue.name, &queue.url).await?);
    }
    depths.push(queues::depth(&client, "notifications", &connection.queues.notifications).await?);
    output.result(&depths, || {
        summary(depths.iter().map(|depth| {
            let Depth { ready, in_flight, delayed, .. } = depth;
            let [ready, in_flight, delayed] = [*ready, *in_flight, *delayed].map(grouped);
            (depth.queue.as_str(), format!("{ready} ready  {in_flight} in flight  {delayed} delayed"))
        }))
    });
    Ok(())
}

async fn task(store: &Dynamo, id: &TaskId, output: &Output) -> Result<(), Error> {
    let found = store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next();
    let task = found.ok_or_else(|| unknown("task", id.as_str()))?;
    let Task { status, round, created_at, .. } = &task;
    let batch = match status.batch() {
        Some(batch) => store.batch(batch).await?,
        None => None,
    };
    let shown = TaskStatus {
        id: id.clone(),
        status: Shown::of(&task, batch.as_ref()),
        target: match status {
            Status::Created { target } => Some(target.clone()),
            Status::Queued => None,
            Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
                batch.map(|batch| batch.target)
            }
        },
        batch: status.batch().cloned(),
        reason: match status {
            Status::Failed { reason, .. } => Some(reason.to_string()),
            Status::Queued | Status::Created { .. } | Status::Batched { .. } | Status::Succeeded { .. } => None,
        },
        returned: round.0,
        item: task.item.as_ref().map(ToString::to_string),
        registered_at_ms: created_at.0,
    };
    output.object(&shown);
    Ok(())
}

async fn target(store: &Dynamo, target: &Target, output: &Output) -> Result<(), Error> {
    let lock: Option<Lock> = store.lock(target).await?;
    let page = store.waiting(target, None, PAGE).await?;
    if lock.is_none() && page.candidates.is_empty() {
        return Err(unknown("Target", target.as_str()));
    }
    let holder = lock.as_ref().and_then(|lock| lock.holder.as_ref());
    output.object(&TargetStatus {
        target: target.clone(),
        waiting: page.candidates.len(),
        more_wait: page.next.is_some(),
        leader: holder.map(|holder| holder.workflow.to_string()),
        lease_until_ms: holder.map(|holder| holder.lease_until.0),
        open_batch: lock.and_then(|lock| lock.open),
    });
    Ok(())
}

fn unknown(kind: &'static str, id: &str) -> Error {
    Error::Unknown { kind, id: id.to_owned() }
}
