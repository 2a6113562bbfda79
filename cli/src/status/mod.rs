//! `groupage status`: where a task, a batch, a tracker, a Target or the whole stack stands, and who works.

mod batch;
pub mod gates;
mod sessions;
mod tracker;

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Subcommand;
use groupage_aws::desk::Depth;
use groupage_aws::{Connection, Dynamo};
use groupage_core::domain::shown::Shown;
use groupage_core::domain::task::Status;
use groupage_core::domain::{BatchId, Lock, Shard, Target, Task, TaskId, TrackerId};
use groupage_core::ports::{Batches, Freshness, Locks, Tasks};
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::output::{Ending, Output, grouped, summary, unknown};
use crate::stack::{self, Access};

/// Show where a task, a batch, a tracker or a Target stands, why calls wait, who works, or how full the queues are.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One task: its status, batch, and why it failed.
    Task {
        /// Its id.
        id: String,
    },
    /// One batch: its members, calls and outcome.
    Batch {
        /// Its id, which is the Idempotency-Key of its call.
        id: String,
    },
    /// The routes, and Targets that are held back by hand: why calls wait, since when, and until when.
    ///
    /// The states are:
    ///
    ///   well: calls are made
    ///
    ///   held: a person holds them back, see `groupage resume`
    ///
    ///   away: the downstream does not answer; one call at a time finds out when it does
    ///
    ///   paused: the downstream asked to be left alone until then
    ///
    ///   in-trouble: calls failed, and none was answered since
    ///
    ///   draining: what waited goes on, slowly at first
    Routes {
        /// Show all Targets whose calls fail, too. This reads the lock table once from end to end: half a read unit for each
        /// 4 KB, so about 20 for 1,000 Targets that had calls in the last week.
        #[arg(long)]
        targets: bool,
    },
    /// The workers that have a session: who, until when, and what they have claimed.
    Sessions,
    /// One tracker, which counts a fan-out: its state, and how many of its items succeeded, failed or are missing.
    ///
    /// An item is missing until its task has succeeded or failed. The states are:
    ///
    ///   open: more items may be added
    ///
    ///   sealed: all are added, and some are missing
    ///
    ///   completed: none is missing; how many failed is another question
    ///
    ///   overdue: its deadline came first
    ///
    ///   abandoned: it was given up, or nothing happened for days
    Tracker {
        /// Its id: the name that `groupage send --track` prints, or that POST /trackers of the HTTP API was given.
        id: String,
    },
    /// One Target: who waits, who leads.
    Target {
        /// The route, a colon and what its `target` gives, for example parcels:truck-7.
        #[arg(value_parser = with_route)]
        target: String,
    },
}

/// A Target with its route.
fn with_route(text: &str) -> Result<String, &'static str> {
    let has_route = text.split_once(':').is_some_and(|(route, _)| !route.is_empty());
    if has_route { Ok(text.to_owned()) } else { Err("a Target is ROUTE:TARGET, such as parcels:truck-7") }
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
    /// Tasks that the index shows waiting, of all shards.
    waiting: usize,
    more_wait: bool,
    #[serde(flatten)]
    lock: LockStatus,
    /// Its shards, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<ShardStatus>,
}

#[derive(Serialize)]
struct ShardStatus {
    shard: Shard,
    /// Tasks that the index shows waiting; up to a page, and the index lags.
    waiting: usize,
    more_wait: bool,
    #[serde(flatten)]
    lock: LockStatus,
}

#[derive(Clone, Default, Serialize)]
struct LockStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_batch: Option<BatchId>,
}

/// How many waiting tasks of a shard are counted.
const PAGE: usize = 1_000;

/// Prints a status.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(stack).await?;
    let access = Access::to(&connection);
    let store = &access.store;
    match &options.command {
        None => totals(&connection, output).await?,
        Some(Command::Task { id }) => task(store, &TaskId::new(id), output).await?,
        Some(Command::Batch { id }) => batch::show(store, &BatchId::new(id), output).await?,
        Some(Command::Routes { targets }) => {
            gates::show(store, routes(&connection).await?.as_ref(), *targets, output).await?;
        }
        Some(Command::Sessions) => sessions::show(store, routes(&connection).await?.as_ref(), output).await?,
        Some(Command::Tracker { id }) => tracker::show(&access, &TrackerId::new(id), output).await?,
        Some(Command::Target { target: id }) => target(&connection, store, &Target::new(id), output).await?,
    }
    Ok(Ending::Well)
}

async fn totals(connection: &Connection, output: &Output) -> Result<()> {
    let depths = connection.desk().depths().await?;
    output.result(&depths, || {
        summary(depths.iter().map(|depth| {
            let Depth { ready, in_flight, delayed, .. } = depth;
            let [ready, in_flight, delayed] = [*ready, *in_flight, *delayed].map(grouped);
            (depth.queue.as_str(), format!("{ready} ready  {in_flight} in flight  {delayed} delayed"))
        }))
    });
    Ok(())
}

async fn task(store: &Dynamo, id: &TaskId, output: &Output) -> Result<()> {
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
            Status::Created { target } => Some(target.whole()),
            Status::Queued => None,
            Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
                batch.map(|batch| batch.target.whole())
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

async fn target(connection: &Connection, store: &Dynamo, target: &Target, output: &Output) -> Result<()> {
    let target = target.whole();
    let count = routes(connection).await?.and_then(|routes| Some(routes.get(&target.route())?.shards)).unwrap_or(1);
    let (mut shards, mut is_known) = (Vec::new(), false);
    for shard in target.shards(count) {
        let (lock, page) = (store.lock(&shard).await?, store.waiting(&shard, None, PAGE).await?);
        is_known |= lock.is_some() || !page.candidates.is_empty();
        shards.push(ShardStatus {
            shard: shard.shard(),
            waiting: page.candidates.len(),
            more_wait: page.next.is_some(),
            lock: lock.map(LockStatus::from).unwrap_or_default(),
        });
    }
    if !is_known {
        return Err(unknown("Target", target.as_str()));
    }
    output.object(&TargetStatus {
        target,
        waiting: shards.iter().map(|shard| shard.waiting).sum(),
        more_wait: shards.iter().any(|shard| shard.more_wait),
        lock: shards.first().map(|home| home.lock.clone()).unwrap_or_default(),
        shards: if count > 1 { shards } else { Vec::new() },
    });
    Ok(())
}

impl From<Lock> for LockStatus {
    fn from(Lock { holder, open, .. }: Lock) -> Self {
        Self {
            lease_until_ms: holder.as_ref().map(|holder| holder.lease_until.0),
            leader: holder.map(|holder| holder.workflow.to_string()),
            open_batch: open,
        }
    }
}

/// The routes in force, if any are pushed yet.
async fn routes(connection: &Connection) -> Result<Option<Routes>> {
    let stored = connection.routes(&Arc::default()).load().await?;
    stored.map(|stored| Routes::parse(&stored.yaml)).transpose().context("the stored routes file is wrong")
}
