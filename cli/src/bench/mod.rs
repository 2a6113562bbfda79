//! `groupage bench`: what things cost and how fast they are, measured on the embedded stack, in this process.

mod memory;
mod plan;
mod trackers;

use crate::Ending;
use crate::args::{BenchCommand, BenchOptions};
use crate::output::Output;

pub use trackers::Error;

/// Runs a benchmark and prints its figures.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchOptions, output: &Output) -> Result<Ending, Error> {
    match &options.command {
        BenchCommand::Trackers(options) => trackers::run(options, *output).await?,
    }
    Ok(Ending::Well)
}
