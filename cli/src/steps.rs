//! `groupage steps`: the steps and sweep in a process of their own, on a stack that runs elsewhere. Also what the steps
//! work with wherever the command runs them.

use std::sync::Arc;

use embedded::{Pipeline, Processes};
use groupage_aws::config;
use groupage_aws::entry::{AwsStack, NoRoutes, RouteSource};
use groupage_aws::{Downstreams, Dynamo, Meter, Sqs};
use groupage_core::domain::task::RETENTION_DAYS;
use serde::Serialize;

use crate::Ending;
use crate::connection;
use crate::output::Output;
use crate::stop::Stop;
use groupage_aws::Connection;

/// The steps did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no stack.
    #[error(transparent)]
    Connection(#[from] connection::Error),
    /// A variable makes no sense.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// There are no routes to work by.
    #[error(transparent)]
    Routes(#[from] NoRoutes),
    /// A queue cannot be read.
    #[error(transparent)]
    Pipeline(#[from] embedded::Error),
}

#[derive(Serialize)]
struct Started {
    worker: String,
}

/// Runs the steps until the process is told to stop.
///
/// # Errors
/// [`Error`], before anything is received.
pub async fn run(stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let connection = connection::open(stack).await?;
    let steps = remote(&connection)?;
    steps.routes.current().await?;
    let downstream = Arc::new(Downstreams::new(&connection.config));
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

/// What the steps work with; what they consume goes to `meter`.
///
/// # Errors
/// [`config::Error`] if one of the variables that say how they work makes no sense.
pub fn on(connection: &Connection, routes: RouteSource, meter: &Arc<Meter>) -> Result<Arc<AwsStack>, config::Error> {
    Ok(Arc::new(AwsStack::on(connection, routes, meter, worker_name())?))
}

/// What the steps work with on a stack that runs elsewhere.
///
/// # Errors
/// As [`on`].
pub fn remote(connection: &Connection) -> Result<Arc<AwsStack>, config::Error> {
    let meter = Arc::new(Meter::new());
    on(connection, RouteSource::table(connection.routes(&meter)), &meter)
}

/// The tables, for reading beside the steps without counting as theirs. For how long the stack keeps what is settled does
/// not matter to a reader.
pub fn unmetered_store(connection: &Connection) -> Dynamo {
    let retention_ms = RETENTION_DAYS * 24 * 60 * 60 * 1000;
    connection.store(retention_ms, &Arc::new(Meter::new()))
}

/// The queues, for sending beside the steps without counting as theirs.
pub fn unmetered_queues(connection: &Connection) -> Sqs {
    connection.sqs(&Arc::new(Meter::new()))
}

/// Who this process is, for people: host and process.
pub fn worker_name() -> String {
    format!("{}/{}", host(), std::process::id())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}
