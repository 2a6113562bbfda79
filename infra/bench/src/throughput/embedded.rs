//! All of it through SQS's and DynamoDB's protocols, in this process, with the event source mappings that a laptop has.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use embedded::{Pipeline, Ports, Processes, Storage};
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_aws::entry::{AwsStack, Metric, RouteSource};
use groupage_aws::{Meter, Sqs};
use groupage_core::ports::{self, Destination, Outbox, Outgoing};

use super::run::{Accepting, Path, Run, Watch, body, routes};
use crate::process;

/// Send requests under way at once.
const SENDS_IN_FLIGHT: usize = 8;
/// Messages of one request: as many as SQS takes.
const AT_ONCE: usize = 10;
/// Tasks of a hundred Targets come slowly, and each batch is to be full.
const WAIT_MS: u64 = 10_000;
/// A run in which nothing is settled for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends `tasks` tasks for `targets` Targets on a path and waits until all are settled. With a limit of `per_second`
/// calls each batch has one task.
pub async fn run(path: Path, tasks: u64, targets: u64, per_second: Option<u32>) -> Result<Run> {
    let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
    let routes = RouteSource::Fixed(routes(path, WAIT_MS, per_second)?);
    let steps = AwsStack::on(stack.connection(), routes, &Arc::new(Meter::new()), "bench".to_owned())?;
    let steps = Arc::new(steps);
    let sqs = aws_sdk_sqs::Client::new(stack.sdk_config());
    let downstream = Arc::new(Accepting::default());
    let pipeline = Pipeline::start(&sqs, stack.queues(), Processes::One, &steps, &downstream)?;
    let senders = stack.connection().sqs(&Arc::new(Meter::new()));
    let watch = Watch::start();
    let settled = async { Ok(pipeline.settled(tasks, &steps.store, PATIENCE).await?) };
    let ((), are_settled) = tokio::try_join!(send(&senders, tasks, targets), settled)?;
    ensure!(are_settled, "of {tasks} tasks some are not settled after a minute: {:?}", pipeline.counts());
    let run = watch.stop("embedded", path, tasks, targets, pipeline.counts().get(Metric::CallsSettled));
    pipeline.shutdown().await;
    stack.shutdown().await;
    let allowed = per_second.map(|limit| downstream.called_for().as_secs_f64() * f64::from(limit));
    let limit_used = allowed.map(|calls| run.calls.saturating_sub(1) as f64 / calls);
    Ok(Run { resident_bytes_after: process::resident(), limit_used, ..run })
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
