//! The laboratory: what things cost and how fast they are, measured in this process: on the embedded stack, or in a
//! simulation of AWS. `cargo run --release -p bench -- help` lists the benchmarks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod closing;
mod cost;
mod delay;
mod fill;
mod gates;
mod hot_key;
mod lists;
mod looks;
mod paper;
mod plot;
mod prelude;
mod print;
mod process;
mod ranges;
mod search;
mod sends;
mod shares;
mod simulated;
mod streams;
mod throughput;
mod trackers;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use groupage_aws::runtime::{self, Threads};
use print::Output;
use tracing_subscriber::EnvFilter;

/// As in `groupage`, whose embedded stack is measured here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure what things cost and how fast they are, on tables in this process.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Trackers(trackers::Args),
    Lists(lists::Args),
    Streams(streams::Args),
    Throughput(throughput::Args),
    Sends(sends::Args),
    Cost(cost::Args),
    Delay(delay::Args),
    Fill(fill::Args),
    HotKey(hot_key::Args),
    Gates(gates::Args),
    Shares(shares::Args),
    Closing(closing::Args),
    Looks(looks::Args),
}

fn main() -> ExitCode {
    let Args { benchmark, json } = Args::parse();
    // The embedded database warns of every failed condition, which is how the protocol decides races.
    let filter = EnvFilter::try_from_env("GROUPAGE_LOG").unwrap_or_else(|_| EnvFilter::new("warn,dynoxide=error"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).init();
    let ended = runtime::run(Threads::Many, || run(&benchmark, Output { json }));
    match ended.unwrap_or_else(|error| Err(error.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(benchmark: &Benchmark, output: Output) -> Result<()> {
    match benchmark {
        Benchmark::Trackers(options) => trackers::run(options, output).await,
        Benchmark::Lists(options) => lists::run(options, output).await,
        Benchmark::Streams(options) => streams::run(options, output).await,
        Benchmark::Throughput(options) => throughput::run(options, output).await,
        Benchmark::Sends(options) => sends::run(options, output).await,
        Benchmark::Cost(options) => cost::run(options, output).await,
        Benchmark::Delay(options) => delay::run(options, output).await,
        Benchmark::Fill(options) => fill::run(options, output).await,
        Benchmark::HotKey(options) => hot_key::run(options, output).await,
        Benchmark::Gates(options) => gates::run(options, output).await,
        Benchmark::Shares(options) => shares::run(options, output).await,
        Benchmark::Closing(options) => closing::run(options, output).await,
        Benchmark::Looks(options) => looks::run(options, output).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
