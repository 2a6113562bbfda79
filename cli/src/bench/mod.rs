//! `groupage bench`: what things cost and how fast they are, measured on the embedded stack, in this process.

pub mod args;
mod lists;
mod plan;
mod process;
mod streams;
mod throughput;
mod trackers;

use crate::Ending;
use shared::{ports, steps};

use crate::output::Output;
use args::{BenchCommand, BenchOptions};

/// The benchmark could not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The embedded stack did not start.
    #[error(transparent)]
    Stack(#[from] embedded::Error),
    /// A table did not answer.
    #[error("cannot go on: {0}")]
    Step(#[from] steps::Error),
    /// A table did not answer.
    #[error("cannot go on: {0}")]
    Port(#[from] ports::Error),
    /// The tracker refused: a bug.
    #[error("the tracker refused: {0}")]
    Refused(#[from] steps::track::Refused),
    /// The list refused: a bug.
    #[error("the list refused: {0}")]
    RefusedByList(#[from] steps::list::Refused),
    /// The stream refused: a bug.
    #[error("the stream refused: {0}")]
    RefusedByStream(#[from] steps::stream::Refused),
    /// The stream is not where it should be: a bug.
    #[error("the watermark is at {0}")]
    Watermark(u64),
    /// A variable makes no sense.
    #[error(transparent)]
    Config(#[from] shared::config::Error),
    /// The benchmark's own route does not parse: a bug.
    #[error(transparent)]
    Routes(#[from] shared::routes::Error),
    /// The tasks cannot be sent.
    #[error(transparent)]
    Send(#[from] crate::send::queue::Error),
    /// Not all tasks were settled, and no message is left: a bug.
    #[error("of {tasks} tasks only {settled} were settled")]
    Unsettled {
        /// That were sent.
        tasks: u64,
        /// That were settled.
        settled: u64,
    },
    /// Everything is acked and the tracker is not complete: a bug.
    #[error("everything is acked, and the tracker is {0}")]
    NotComplete(&'static str),
}

/// Runs a benchmark and prints its figures.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchOptions, output: &Output) -> Result<Ending, Error> {
    match &options.command {
        BenchCommand::Trackers(options) => trackers::run(options, *output).await?,
        BenchCommand::Lists(options) => lists::run(options, *output).await?,
        BenchCommand::Streams(options) => streams::run(options, *output).await?,
        BenchCommand::Throughput(options) => throughput::run(options, *output).await?,
    }
    Ok(Ending::Well)
}
