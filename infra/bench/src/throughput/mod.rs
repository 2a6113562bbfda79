//! Tasks a second: through the functions' own code on tables in plain memory, and through the embedded stack.

mod embedded;
mod memory;
mod run;

use anyhow::Result;
use run::Path;

use crate::print::{Output, tables};

/// Tasks a second: through the steps' own code on tables in plain memory, or through the embedded stack.
///
/// Runs for each of --targets, elected and on the express path. Without --embedded, one thread works on tables in
/// memory. It registers the tasks in full events, elects and groups those that fill no batch by themselves (all, if
/// elected), calls and settles. So the code of the steps is measured, and nothing else. It does so --rounds times with
/// new tables: memory that grows shows. With --embedded, tasks are sent to SQS's protocol and go through DynamoDB's,
/// all in this process, with a laptop's event source mappings.
///
/// The downstream accepts every call at once. Speed is this machine's: compare runs on one machine, and pin the
/// process to see what a core does (`taskset -c 0`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many tasks. A multiple of a hundred for each Target lets every batch be full.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    tasks: u64,
    /// How many Targets they are for; one run for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    targets: Vec<u64>,
    /// Through the embedded stack.
    #[arg(long)]
    embedded: bool,
    /// Send batches of one task behind this limit, and report the share of it that is used.
    #[arg(long, value_name = "NUMBER", requires = "embedded", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    calls_per_second: Option<u32>,
    /// How often, each time with new tables in memory.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, conflicts_with = "embedded", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
}

/// Runs the benchmark.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut runs = Vec::new();
    for (path, targets) in
        Path::ALL.into_iter().flat_map(|path| options.targets.iter().map(move |targets| (path, *targets)))
    {
        if options.embedded {
            runs.push(embedded::run(path, options.tasks, targets, options.calls_per_second).await?);
            continue;
        }
        for _ in 0..options.rounds {
            runs.push(memory::run(path, options.tasks, targets).await?);
        }
    }
    output.result(&runs, &tables(&runs));
    Ok(())
}
