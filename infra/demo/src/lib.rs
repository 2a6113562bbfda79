//! `groupage demo`: the main job, whole, in this process and in a few seconds.
//!
//! Parcels for trucks go onto the task queue one by one; the four steps turn them into few, full calls of a truck
//! loading API that is as tiresome as real ones are. A tracker counts the parcels, and its owner is told once that all
//! are done. In the end the API's own ledger must agree with what the task table says of every parcel, and with what
//! the owner was told, or the demo has failed.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod figures;
mod ledger;
mod owner;
mod parcels;
mod progress;
mod trucks;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use embedded::{Pipeline, Ports, Processes, Storage};
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_aws::entry::{AwsStack, Metric, RouteSource};
use groupage_aws::{Downstreams, Dynamo, Meter};
use groupage_core::domain::{ItemId, Task, TaskId};
use groupage_core::ports::{self, Freshness, Tasks};
use groupage_core::routes::{Allowed, Routes};
use tokio::time;

pub use figures::Figures;
use figures::Run;
/// Where bars are drawn.
pub use indicatif::ProgressDrawTarget as Bars;
use ledger::Parcel;
use progress::Progress;
use trucks::{Temper, Trucks};

/// Watch many tasks become few calls: everything in this process, nothing to install, a few seconds.
///
/// Parcels for trucks go onto the queue one by one. They reach a truck loading API in few, full calls. The API is slow,
/// takes few calls at once, fails some and refuses some parcels. The exit code is 0 only if the API's own ledger agrees
/// with every task's outcome.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many parcels to send.
    #[arg(long, value_name = "NUMBER", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tasks: u32,
    /// For how many trucks.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trucks: u32,
    /// Chooses which calls are slow and which fail.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// A run in which nothing is settled for so long has hung. What is not settled by then is reported.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often progress is shown.
const FRAME: Duration = Duration::from_millis(100);

const SENDS_IN_FLIGHT: usize = 4;

/// SQS takes this many messages in one request.
const TENS: usize = 10;

/// What is read does not expire during the demo.
const RETENTION_MS: u64 = 24 * 60 * 60 * 1_000;

const UNTRACKED: &str = "cannot track the parcels";

/// Runs the demo. It went well only if the ledger agrees with every task.
///
/// # Errors
/// Something of this process failed.
pub async fn run(options: &Args, bars: Bars) -> Result<Figures> {
    let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
    let trucks = Trucks::start(Temper { seed: options.seed, ..Temper::default() }).await;
    let trucks = trucks.context("cannot start the truck loading API")?;
    let parcels = parcels::parcels(options.tasks, options.trucks);

    let run = load(&stack, &trucks, parcels, bars).await?;
    let tasks = read_tasks(&stack, &run.parcels).await?;
    let figures = {
        let ledger = trucks.ledger();
        let mut disagreements = verdict::disagreements(&run.parcels, &tasks, &ledger);
        disagreements.extend(verdict::told_otherwise(&run.parcels, &run.notices));
        Figures::new(&run, &tasks, &ledger, disagreements)
    };
    trucks.shutdown().await.context("the truck loading API failed")?;
    stack.shutdown().await;
    Ok(figures)
}

/// Sends all parcels and waits until they are settled.
async fn load(stack: &embedded::Stack, trucks: &Trucks, parcels: Vec<Parcel>, bars: Bars) -> Result<Run> {
    let meter = Arc::new(Meter::new());
    let routes = Routes::parse(&parcels::routes(&trucks.load_url())).context("the demo's own routes")?;
    let routes = RouteSource::Fixed(Arc::new(routes));
    let steps = Arc::new(AwsStack::on(stack.connection(), routes, &meter, "demo".to_owned())?);
    let downstream = Arc::new(Downstreams::new(stack.sdk_config(), Allowed::on_own_machine()));
    let sqs = Client::new(stack.sdk_config());
    let pipeline = Pipeline::start(&sqs, stack.queues(), Processes::One, &steps, &downstream)?;

    let items = owner::announce(&steps, parcels.len()).await.context(UNTRACKED)?;
    let started = Instant::now();
    let queue = &stack.queues().tasks;
    let sent_at = SentAt::default();
    // With a meter of its own: to look is no part of what the tasks cost.
    let table = stack.connection().store(RETENTION_MS, &Arc::default());
    tokio::select! {
        // A sender that fails leaves nothing worth waiting for; one that ends well leaves the other branch to wait.
        Err(error) = send((&sqs, queue), &parcels, items, &steps, &sent_at) => return Err(error),
        watched = watch((&pipeline, &table), trucks, &sent_at, parcels.len() as u64, bars) => watched?,
    }
    let seconds = started.elapsed().as_secs_f64();
    // Listening is the owner's affair, and no part of what the tasks cost.
    let requests = stack.sqs_requests();
    let notices = owner::listen(&sqs, &stack.queues().notifications).await?;
    pipeline.shutdown().await;
    let sent_at = sent_at.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Run { parcels, sent_at, seconds, notices, usage: meter.snapshot(), sqs: requests })
}

/// When each task was sent, by its id.
#[derive(Default)]
struct SentAt(Mutex<HashMap<String, Instant>>);

impl SentAt {
    fn add(&self, ids: impl Iterator<Item = String>) {
        let now = Instant::now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(ids.map(|id| (id, now)));
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Sends every parcel as a task of its own, in tens, and then says that no more come.
async fn send(
    (sqs, queue): (&Client, &str),
    parcels: &[Parcel],
    items: Vec<Option<ItemId>>,
    steps: &AwsStack,
    sent_at: &SentAt,
) -> Result<()> {
    let messages: Vec<String> =
        parcels.iter().zip(items).map(|(parcel, item)| parcels::message(parcel, item).body()).collect();
    let sends = messages.chunks(TENS).zip(parcels.chunks(TENS)).map(|(messages, parcels)| async move {
        // Before the request: the time that SQS takes belongs to the time from send to call.
        sent_at.add(parcels.iter().map(|parcel| parcel.id.clone()));
        let entry = |(body, parcel): (&String, &Parcel)| {
            SendMessageBatchRequestEntry::builder().id(&parcel.id).message_body(body).build()
        };
        let entries = messages.iter().zip(parcels).map(entry).collect::<Result<Vec<_>, _>>()?;
        let answer = sqs.send_message_batch().queue_url(queue).set_entries(Some(entries)).send().await?;
        match answer.failed.first() {
            Some(refused) => bail!("the task queue does not take {}: {}", refused.id, refused.code),
            None => Ok(()),
        }
    });
    stream::iter(sends).buffer_unordered(SENDS_IN_FLIGHT).try_for_each(|()| async { Ok(()) }).await?;
    owner::seal(steps).await.context(UNTRACKED)
}

/// Shows progress until all tasks are settled, or patience ends. Comparing with the ledger finds what is not settled
/// then.
async fn watch(
    (pipeline, table): (&Pipeline, &Dynamo),
    trucks: &Trucks,
    sent_at: &SentAt,
    tasks: u64,
    bars: Bars,
) -> Result<()> {
    let progress = Progress::new(tasks, bars);
    let mut frames = time::interval(FRAME);
    let show = async {
        loop {
            frames.tick().await;
            let counts = pipeline.counts();
            let settled = counts.get(Metric::TasksSucceeded) + counts.get(Metric::TasksFailed);
            progress.show(sent_at.count() as u64, &counts, settled, trucks.ledger().calls());
        }
    };
    let watched = tokio::select! {
        settled = pipeline.settled(tasks, table, PATIENCE) => settled.map(|_| ()),
        () = show => Ok(()),
    };
    progress.clear();
    watched.context("the embedded table does not answer")
}

async fn read_tasks(stack: &embedded::Stack, parcels: &[Parcel]) -> Result<Vec<Task>, ports::Error> {
    let ids: Vec<TaskId> = parcels.iter().map(|parcel| TaskId::new(&parcel.id)).collect();
    stack.connection().store(RETENTION_MS, &Arc::default()).read(&ids, Freshness::Latest).await
}
