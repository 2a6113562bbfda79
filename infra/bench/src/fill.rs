//! How full calls are: against the fewest possible in bursts, and against delay in trickles.

use anyhow::Result;
use simulator::timing::{Percentiles, fewest_calls, whole_way};

use crate::prelude::*;
use crate::ranges::a_rate;

/// How full calls are: calls made against the fewest possible in bursts, and what waiting longer gains in trickles.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks of each burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000], value_parser = some_tasks)]
    sizes: Vec<usize>,
    /// Tasks a second of each trickle.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1.0, 10.0, 100.0], value_parser = a_rate)]
    rates: Vec<f64>,
    /// Windows of the trickles' batches, in milliseconds.
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0, 1_000, 3_000, 10_000, 30_000], value_parser = clap::value_parser!(u64).range(0..=300_000))]
    waits_ms: Vec<u64>,
    /// How long the trickles last, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    seconds: u64,
    #[command(flatten)]
    common: Common,
}

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    scenario: String,
    wait_ms: u64,
    tasks: usize,
    calls: usize,
    /// If all tasks of a Target had been there at once.
    fewest_calls: usize,
    /// Calls divided by the fewest.
    ratio: f64,
    tasks_per_call: f64,
    /// Of each task, from its queue to its call.
    way: Percentiles,
}

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Vec::new();
    for tasks in &options.sizes {
        for lag_ms in [0, 2_000] {
            let setting = Setting { lag_ms, ..Setting::of(Load::Burst { tasks: *tasks, targets: 1 }) };
            all.push(measure(format!("burst, lag {} s", lag_ms / 1_000), setting, options.common.seed).await?);
        }
    }
    for per_second in &options.rates {
        for wait_ms in &options.waits_ms {
            let load = Load::Trickle { per_second: *per_second, seconds: options.seconds, targets: 1 };
            let setting = Setting { wait_ms: *wait_ms, ..Setting::of(load) };
            all.push(measure(format!("{per_second} a second"), setting, options.common.seed).await?);
        }
    }
    let labels = Labels {
        title: "Tasks in a call, by how long a task took to it in the median",
        axes: ("milliseconds from the queue to the call", "tasks in a call"),
    };
    // The trickles: a line for each rate, a point for each window.
    let trickles = all.iter().filter(|figures| !figures.scenario.starts_with("burst"));
    let lines =
        by_name(trickles.map(|figures| (figures.scenario.as_str(), (figures.way.p50_ms, figures.tasks_per_call))));
    simulated::publish(&all, &tables(&all), labels, &lines, &options.common, output)
}

async fn measure(scenario: String, setting: Setting, seed: u64) -> Result<Figures> {
    let setting = Setting { seed, ..setting };
    let outcome = simulated::run(&scenario, setting.load.expected_tasks(), &setting).await?;
    let (calls, fewest) = (outcome.calls.len(), fewest_calls(&setting, &outcome));
    Ok(Figures {
        scenario,
        wait_ms: setting.wait_ms,
        tasks: outcome.tasks,
        calls,
        fewest_calls: fewest,
        ratio: calls as f64 / fewest.max(1) as f64,
        tasks_per_call: outcome.tasks as f64 / calls.max(1) as f64,
        way: Percentiles::of(whole_way(&outcome)),
    })
}
