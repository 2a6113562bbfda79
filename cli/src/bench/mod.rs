//! `groupage bench`: what things cost and how fast they are, measured in this process: on the embedded stack, or in a
//! simulation of AWS.

pub mod args;
mod cost;
mod delay;
mod fill;
mod hot_key;
mod lists;
mod plan;
mod plot;
mod process;
mod search;
mod simulated;
mod streams;
mod throughput;
mod trackers;

use std::path::PathBuf;

use crate::Ending;
use groupage_core::{ports, steps};

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
    Config(#[from] groupage_aws::config::Error),
    /// The benchmark's own route does not parse: a bug.
    #[error(transparent)]
    Routes(#[from] groupage_core::routes::Error),
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
    /// A simulation did not come to its end: a bug.
    #[error(transparent)]
    Simulated(#[from] simulator::world::Error),
    /// The simulation panicked: a bug.
    #[error("the simulation panicked")]
    Panicked,
    /// A file with figures could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A plot could not be drawn.
    #[error("cannot draw {}: {why}", file.display())]
    Plot {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
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
        BenchCommand::Cost(options) => cost::run(options, *output).await?,
        BenchCommand::Delay(options) => delay::run(options, *output).await?,
        BenchCommand::Fill(options) => fill::run(options, *output).await?,
        BenchCommand::HotKey(options) => hot_key::run(options, *output).await?,
    }
    Ok(Ending::Well)
}
