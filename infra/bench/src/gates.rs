//! What a limit costs: requests for its gate, by how many batches wait behind it.

use anyhow::Result;
use groupage_aws::Capacity;
use simulator::timing::{overtaken, share_used};
use simulator::{CallLimits, Outcome};

use crate::prelude::*;

/// What waiting behind one limit costs, in a simulation of AWS: batches that are all there at once, behind a limit on
/// calls a second, one on calls in flight, and a budget of tokens of which each task has 1 to 8,000.
///
/// Each batch has one task and takes the express path, so that nothing but the limit holds it up. The share is that of
/// the calls that the limit allows from the first call to the last or, of places in flight, of the time for which the
/// downstream may be at work. Pauses are those of the route; the default, those of a Target, is shown beside. A batch
/// is overtaken by those that came to batch-handler after it and were called before it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Batches that come at once.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000], value_parser = some_tasks)]
    sizes: Vec<usize>,
    /// Calls a second that the one limit allows.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    per_second: u32,
    /// Calls in flight that the other limit allows.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    in_flight: u32,
    /// How long a call takes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=25_000))]
    call_ms: u64,
    #[command(flatten)]
    common: Common,
}

/// One run's figures.
#[derive(Debug, Serialize)]
struct Figures {
    limit: &'static str,
    batches: usize,
    calls: usize,
    seconds: f64,
    /// Of the limit, from the first call to the last.
    share: f64,
    gate_reads_per_call: f64,
    gate_writes_per_call: f64,
    /// Write units of everything, the batch's one task included.
    write_units_per_batch: f64,
    read_units_per_batch: f64,
    /// Invocations of batch-handler.
    handled_per_batch: f64,
    /// By how many batches that came later, at most.
    most_overtaken: usize,
    mean_overtaken: f64,
}

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let Args { per_second, in_flight, call_ms, .. } = *options;
    let seed = options.common.seed;
    let limits = [
        (RATE, CallLimits { per_second: Some(per_second), pauses_route: true, ..CallLimits::default() }),
        (RATE_BY_TARGET, CallLimits { per_second: Some(per_second), ..CallLimits::default() }),
        (PLACES, CallLimits { in_flight: Some(in_flight), pauses_route: true, ..CallLimits::default() }),
        (TOKENS, CallLimits { tokens_per_minute: Some(60_000), pauses_route: true, ..CallLimits::default() }),
    ];
    let mut all = Vec::new();
    for (limit, calls) in limits {
        for batches in &options.sizes {
            let load = Load::Burst { tasks: *batches, targets: 1 };
            let setting = Setting { seed, call_ms, calls, max_items: 1, express: true, ..Setting::of(load) };
            let outcome = simulated::run(limit, *batches as u64, &setting).await?;
            all.push(figures(limit, *batches, &setting, &outcome));
        }
    }
    let labels = Labels {
        title: "Reads and writes of a gate for each call, by how many batches wait",
        axes: ("batches", "requests"),
    };
    let lines = by_name(all.iter().map(|figures| {
        let requests = figures.gate_reads_per_call + figures.gate_writes_per_call;
        (figures.limit, (figures.batches as f64, requests))
    }));
    simulated::publish(&all, &tables(&all), labels, &lines, &options.common, output)
}

const RATE: &str = "calls a second";
/// Pauses of a Target have a gate of their own, which is looked at as well.
const RATE_BY_TARGET: &str = "the same, pause: target";
const PLACES: &str = "calls in flight";
const TOKENS: &str = "60,000 tokens a minute";

fn figures(limit: &'static str, batches: usize, setting: &Setting, outcome: &Outcome) -> Figures {
    let calls = outcome.calls.len();
    let a_call = |count: u64| count as f64 / calls.max(1) as f64;
    let a_batch = |count: f64| count / batches as f64;
    let Capacity { read, write } = outcome.usage.capacity();
    let handled = outcome.functions.get(&simulator::queues::Step::BatchHandler).map_or(0, |function| function.count);
    let overtaken = overtaken(outcome);
    Figures {
        limit,
        batches,
        calls,
        seconds: outcome.took.as_secs_f64(),
        share: share_used(setting, outcome).unwrap_or_default(),
        gate_reads_per_call: a_call(outcome.gates.reads),
        gate_writes_per_call: a_call(outcome.gates.writes),
        write_units_per_batch: a_batch(write.count()),
        read_units_per_batch: a_batch(read.count()),
        handled_per_batch: a_batch(handled as f64),
        most_overtaken: overtaken.iter().copied().max().unwrap_or_default(),
        mean_overtaken: a_batch(overtaken.iter().sum::<usize>() as f64),
    }
}
