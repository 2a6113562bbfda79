//! The hottest key: how many tasks a second one Target bears when DynamoDB's partitions have their limits.

use anyhow::Result;
use simulator::timing::{Flow, flow};

use crate::prelude::*;
use crate::ranges::a_rate;
use crate::search::{Limit, Search};

/// How many tasks a second one Target bears, in a simulation of AWS whose partitions have DynamoDB's limits.
///
/// A partition of a table or an index serves 1,000 write units and 3,000 read units a second. A request over that is
/// throttled, and tried again by the SDK's rules or in another shard. An index over its limit throttles its table's
/// writes. Event source mappings begin with five invocations at once and add 300 a minute. What counts is the
/// second half of the time: tasks called for the first time against tasks that came.
///
/// For each path the offered rate is doubled until less than 90 % of it reaches the downstream; then the limit is found
/// by bisection, within 10 %. Which shard lies on which partition follows from --seed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks a second that are sent: just these, without a search.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = a_rate)]
    rates: Vec<f64>,
    /// Tasks a second at which the search begins.
    #[arg(long, value_name = "NUMBER", default_value_t = 250.0, value_parser = a_rate, conflicts_with = "rates")]
    from: f64,
    /// Tasks a second beyond which nothing is tried. A run beyond a path's limit takes long: requests are throttled and
    /// tried again.
    #[arg(long, value_name = "NUMBER", default_value_t = 16_000.0, value_parser = a_rate, conflicts_with = "rates")]
    up_to: f64,
    /// How long they are sent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=MOST_SECONDS))]
    seconds: u64,
    /// Partitions of each table and each index. A new table has four.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    partitions: u64,
    /// Each shard on an index partition of its own, as DynamoDB splits partitions that are hot for a while. Without it,
    /// chance decides.
    #[arg(long)]
    isolated: bool,
    #[command(flatten)]
    common: Common,
}

/// A path bears what it is offered if so much of it reaches the downstream.
const BORNE: f64 = 0.9;

/// All points that were tried, and what follows from them.
#[derive(Debug, Serialize)]
struct Figures {
    points: Vec<Point>,
    /// By path; none if the rates were given.
    limits: Vec<Found>,
}

/// One run.
#[derive(Debug, Serialize)]
struct Point {
    path: &'static str,
    /// Tasks a second that were sent in the second half of the time; by chance not just what was asked for.
    offered: f64,
    /// Tasks a second of them that reached the downstream.
    reached: f64,
    /// Tasks that had come and were not called at the end.
    left: usize,
    tasks_per_call: f64,
    /// Requests that a partition refused, for each task called.
    throttled: f64,
}

/// What a path bears.
#[derive(Debug, Serialize)]
struct Found {
    path: &'static str,
    #[serde(flatten)]
    limit: Limit,
    /// By how much it is more than with a quarter of the shards.
    growth: Option<f64>,
}

/// A way to the downstream.
#[derive(Clone, Copy)]
struct Path {
    name: &'static str,
    shards: u8,
    express: bool,
}

/// The ways that are compared.
const PATHS: [Path; 4] = [
    Path { name: "elected", shards: 1, express: false },
    Path { name: "elected, 4 shards", shards: 4, express: false },
    Path { name: "elected, 16 shards", shards: 16, express: false },
    Path { name: "express", shards: 1, express: true },
];

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Figures { points: Vec::new(), limits: Vec::new() };
    for path in PATHS {
        for per_second in &options.rates {
            all.points.push(measure(options, path, *per_second).await?);
        }
        if options.rates.is_empty() {
            let limit = search(options, path, &mut all.points).await?;
            let before = all.limits.last().filter(|_| path.shards > 1);
            let growth = before.and_then(|before| limit.growth(before.limit));
            all.limits.push(Found { path: path.name, limit, growth });
        }
    }
    let labels = Labels {
        title: "One Target: tasks that reach the downstream, by tasks offered",
        axes: ("offered a second", "reached a second"),
    };
    all.points.sort_by(|a, b| place(a).cmp(&place(b)).then(a.offered.total_cmp(&b.offered)));
    let lines = by_name(all.points.iter().map(|point| (point.path, (point.offered, point.reached))));
    let Args { seconds, partitions, isolated, .. } = options;
    let placed = if *isolated { "each shard on one of its own" } else { "shards placed on them by chance" };
    let text = format!("{}\n\n{seconds} s each, {partitions} partitions, {placed}.", tables(&all));
    simulated::publish(&all, &text, labels, &lines, &options.common, output)
}

/// Where a point's path is among the paths.
fn place(point: &Point) -> Option<usize> {
    PATHS.iter().position(|path| path.name == point.path)
}

async fn search(options: &Args, path: Path, points: &mut Vec<Point>) -> Result<Limit> {
    let mut search = Search::new(options.from, options.up_to);
    while let Some(per_second) = search.next() {
        let point = measure(options, path, per_second).await?;
        search.tried(per_second, point.reached >= BORNE * point.offered);
        points.push(point);
    }
    Ok(search.limit())
}

async fn measure(options: &Args, path: Path, per_second: f64) -> Result<Point> {
    let Path { name, shards, express } = path;
    let seconds = options.seconds;
    let load = Load::Stream { per_second, seconds, targets: 1 };
    let limits = Limits { partitions: options.partitions, isolated: options.isolated, ..Limits::default() };
    let (seed, limits, stop_after_s) = (options.common.seed, Some(limits), Some(seconds));
    let setting = Setting { seed, express, shards, limits, stop_after_s, ..Setting::of(load) };
    let outcome = simulated::run(&format!("{name}, {per_second:.0}"), load.expected_tasks(), &setting).await?;
    let called: usize = outcome.calls.iter().map(|call| call.items.len()).sum();
    let Flow { offered, reached, left } = flow(&outcome, seconds);
    Ok(Point {
        path: name,
        offered,
        reached,
        left,
        tasks_per_call: called as f64 / outcome.calls.len().max(1) as f64,
        throttled: outcome.throttled as f64 / called.max(1) as f64,
    })
}
