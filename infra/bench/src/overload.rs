//! Overload: how much of what one Target is offered reaches the downstream, below and far beyond what one partition of
//! the index bears.

use anyhow::Result;
use groupage_core::domain::Shards;
use simulator::timing::{Flow, flow};

use crate::prelude::*;
use crate::ranges::a_multiple;

/// How much of an overload reaches the downstream, with one shard and with `shards: auto`.
///
/// One Target on the elected path gets a multiple of what one partition of the index bears: a waiting task costs it a
/// write unit to come and one to go. What counts is the second half of the time: tasks called for the first time. Which
/// shard lies on which partition follows from the seed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Multiples of the limit that are offered.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0, 10.0], value_parser = a_multiple)]
    times: Vec<f64>,
    /// How many seeds, from --seed on.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// How long tasks are sent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=MOST_SECONDS))]
    seconds: u64,
    /// Partitions of each table and each index. A new table has four.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    partitions: u64,
    /// Write units a second that a partition serves: DynamoDB's are 1,000. With fewer a run has fewer tasks.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=1_000))]
    write_units: u64,
    #[command(flatten)]
    common: Common,
}

/// What is compared.
const COMPARED: [Shards; 2] = [Shards::Fixed(1), Shards::ByLoad];

#[derive(Debug, Serialize)]
struct Figures {
    points: Vec<Point>,
}

/// One run.
#[derive(Debug, Serialize)]
struct Point {
    shards: String,
    seed: u64,
    /// Of the limit of one partition.
    times: f64,
    /// Tasks a second that were sent in the second half of the time.
    offered: f64,
    /// Tasks a second of them that reached the downstream.
    reached: f64,
    /// What was reached, of the limit of one partition.
    of_limit: f64,
    /// Tasks that had come and were not called at the end.
    left: usize,
    tasks_per_call: f64,
    /// Requests that a partition refused, for each task called.
    throttled: f64,
}

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Figures { points: Vec::new() };
    for shards in COMPARED {
        for seed in options.common.seed..options.common.seed + options.seeds {
            for times in &options.times {
                all.points.push(measure(options, shards, seed, *times).await?);
            }
        }
    }
    let labels = Labels {
        title: "One Target under overload: tasks that reach the downstream, by tasks offered",
        axes: ("offered a second", "reached a second"),
    };
    let named = all.points.iter().map(|point| (format!("shards: {}, seed {}", point.shards, point.seed), point));
    let named: Vec<_> = named.map(|(name, point)| (name, (point.offered, point.reached))).collect();
    let lines = by_name(named.iter().map(|(name, point)| (name.as_str(), *point)));
    let Args { seconds, partitions, write_units, .. } = options;
    let text = format!("{}\n\n{seconds} s each, {partitions} partitions of {write_units} write units.", tables(&all));
    simulated::publish(&all, &text, labels, &lines, &options.common, output)
}

async fn measure(options: &Args, shards: Shards, seed: u64, times: f64) -> Result<Point> {
    let Args { seconds, partitions, .. } = *options;
    let write_units = options.write_units as f64;
    let limit = write_units / 2.0;
    let load = Load::Stream { per_second: times * limit, seconds, targets: 1 };
    let limits = Some(Limits { partitions, write_units, ..Limits::default() });
    let setting = Setting { seed, shards, limits, stop_after_s: Some(seconds), ..Setting::of(load) };
    let name = format!("{shards}, {times} times, seed {seed}");
    let outcome = simulated::run(&name, load.expected_tasks(), &setting).await?;
    let called: usize = outcome.calls.iter().map(|call| call.items.len()).sum();
    let Flow { offered, reached, left } = flow(&outcome, seconds);
    Ok(Point {
        shards: shards.to_string(),
        seed,
        times,
        offered,
        reached,
        of_limit: reached / limit,
        left,
        tasks_per_call: called as f64 / outcome.calls.len().max(1) as f64,
        throttled: outcome.throttled as f64 / called.max(1) as f64,
    })
}
