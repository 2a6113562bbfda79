//! All of it through SQS's and DynamoDB's protocols, in this process, with the event source mappings that a laptop has.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use embedded::{Pipeline, Ports, Processes, Storage};
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_aws::entry::{AwsStack, Metric, RouteSource};
use groupage_aws::{Dynamo, Meter, Sqs};
use groupage_core::ports::{self, Census, Destination, Outbox, Outgoing};
use tokio::time::{self, Instant};

use super::run::{Accepting, Path, Run, Watch, body, routes};
use crate::process;

/// Send requests under way at once.
const SENDS_IN_FLIGHT: usize = 8;
/// Messages of one request: as many as SQS takes.
const AT_ONCE: usize = 10;
/// Tasks of a hundred Targets come slowly, and each batch is to be full.
const WAIT_MS: u64 = 10_000;
/// How often it is looked whether all tasks are settled.
const LOOK: Duration = Duration::from_millis(20);
/// After so long without a count the table is asked.
const QUIET: Duration = Duration::from_secs(3);
/// A run in which nothing is settled for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends `tasks` tasks for `targets` Targets on a path and waits until all are settled.
pub async fn run(path: Path, tasks: u64, targets: u64) -> Result<Run> {
    let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
    let routes = RouteSource::Fixed(routes(path, WAIT_MS)?);
    let steps = AwsStack::on(stack.connection(), routes, &Arc::new(Meter::new()), "bench".to_owned())?;
    let steps = Arc::new(steps);
    let sqs = aws_sdk_sqs::Client::new(stack.sdk_config());
    let pipeline = Pipeline::start(&sqs, stack.queues(), Processes::One, &steps, &Arc::new(Accepting))?;
    let senders = stack.connection().sqs(&Arc::new(Meter::new()));
    let watch = Watch::start();
    let ((), ()) = tokio::try_join!(send(&senders, tasks, targets), settled(&pipeline, &steps.store, tasks))?;
    let run = watch.stop("embedded", path, tasks, targets, pipeline.counts().get(Metric::CallsSettled));
    pipeline.shutdown().await;
    stack.shutdown().await;
    Ok(Run { resident_bytes_after: process::resident(), ..run })
}

async fn send(senders: &Sqs, tasks: u64, targets: u64) -> Result<()> {
    let sends = (0..tasks).step_by(AT_ONCE).map(|first| {
        let numbers = first..(first + AT_ONCE as u64).min(tasks);
        let message = |number| Outgoing {
            to: Destination::Tasks,
            body: body(number, targets),
            delay_ms: 0,
            attributes: Vec::new(),
            tenant: None,
        };
        let request = senders.send(numbers.map(message).collect());
        request.map(|sent| sent.into_iter().collect::<ports::Result<()>>())
    });
    stream::iter(sends).buffer_unordered(SENDS_IN_FLIGHT).try_collect::<()>().await?;
    Ok(())
}

/// Waits until all tasks are settled, by the steps' own counts. Those miss a batch whose follow-up another delivery had
/// to repeat, so when nothing is counted any more the task table is asked.
async fn settled(pipeline: &Pipeline, store: &Dynamo, tasks: u64) -> Result<()> {
    let (mut settled, mut since, mut last_asked) = (0, Instant::now(), Instant::now());
    while settled < tasks {
        time::sleep(LOOK).await;
        let now = pipeline.counts().get(Metric::TasksSucceeded);
        if now > settled {
            (settled, since) = (now, Instant::now());
        } else if since.elapsed() > QUIET && last_asked.elapsed() > QUIET {
            let unsettled = store.unsettled_tasks().await?.len() as u64;
            // Tasks that wait in rests are in no table yet.
            let counts = pipeline.counts();
            let put = (counts.get(Metric::TasksRegistered) + counts.get(Metric::TasksRepeated)).min(tasks);
            if put == tasks && unsettled == 0 {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                bail!("of {tasks} tasks only {} were settled", put.saturating_sub(unsettled));
            }
            last_asked = Instant::now();
        }
    }
    Ok(())
}
