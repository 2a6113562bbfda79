//! `groupage steps`: the steps and sweep in a process of their own, on a stack that runs elsewhere.

use std::sync::Arc;

use anyhow::Result;
use embedded::{Pipeline, Processes};
use groupage_aws::spans::Traced;
use groupage_aws::{Downstreams, config};
use groupage_core::routes::Allowed;
use serde::Serialize;

use crate::output::{Ending, Output};
use crate::stack;
use crate::stop::Stop;

#[derive(Serialize)]
struct Started {
    worker: String,
}

/// Runs the steps until the process is told to stop. If they cannot start, nothing is received.
pub async fn run(name: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(name).await?;
    let steps = stack::remote_steps(&connection)?;
    steps.routes.current().await?;
    let downstream = Downstreams::new(&connection.config, config::allowed_from_env(Allowed::on_own_machine())?);
    let downstream = Arc::new(Traced::new(downstream, steps.spans.clone()));
    let sqs = aws_sdk_sqs::Client::new(&connection.config);
    let stop = Stop::listen(None);
    let pipeline = Pipeline::start(&sqs, &connection.queues, Processes::Several, &steps, &downstream)?;
    let started = Started { worker: steps.worker.clone() };
    output.result(&started, || format!("# The steps run as {}. Stop with Ctrl-C.", started.worker));
    until_stopped(pipeline, &stop).await;
    Ok(Ending::Well)
}

/// Runs a pipeline until somebody asks for its end: it finishes what is in hand, unless asked a second time.
pub async fn until_stopped(pipeline: Pipeline, stop: &Stop) {
    stop.requested().await;
    tokio::select! {
        _ = pipeline.shutdown() => {}
        // What was in hand comes again, here or elsewhere.
        () = stop.at_once() => {}
    }
}
