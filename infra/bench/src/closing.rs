//! Windows that the clock closes: how long until all that fell due is called, and what waiting for the hour costs.

use std::time::Duration;

use anyhow::Result;
use simulator::bill::Bill;
use simulator::timing::fewest_calls;
use simulator::{Outcome, UNTIL_THE_HOUR};

use crate::prelude::*;

/// Windows that the clock closes: how long it takes from the full hour until all tasks that waited for it are called.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks that wait, about.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [10_000, 100_000], value_parser = some_tasks)]
    sizes: Vec<usize>,
    /// Targets among which they are dealt out.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 100, 1_000], value_parser = some_tasks)]
    targets: Vec<usize>,
    /// Partitions of each table and index, of which each bears 1,000 write units a second.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    partitions: u64,
    #[command(flatten)]
    common: Common,
}

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    targets: usize,
    tasks: usize,
    calls: usize,
    /// If all tasks of a Target had been there at once.
    fewest_calls: usize,
    /// From the full hour to the first call, in seconds.
    first_call_s: f64,
    /// To the call by which half of the tasks were called.
    half_called_s: f64,
    /// To the last call.
    last_call_s: f64,
    write_units: f64,
    dollars_per_million: f64,
}

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Vec::new();
    for targets in &options.targets {
        for tasks in &options.sizes {
            let load =
                Load::Stream { per_second: *tasks as f64 / COMING_S as f64, seconds: COMING_S, targets: *targets };
            let limits = Some(Limits { partitions: options.partitions, isolated: true, ..Limits::default() });
            let seed = options.common.seed;
            let setting = Setting { seed, hourly: true, wait_ms: 1_000, limits, ..Setting::of(load) };
            all.push(measure(*targets, &setting).await?);
        }
    }
    let labels = Labels {
        title: "Seconds from the full hour to the last call",
        axes: ("tasks", "seconds from the full hour to the last call"),
    };
    let named: Vec<(String, (f64, f64))> = all
        .iter()
        .map(|figures| (format!("{} Targets", figures.targets), (figures.tasks as f64, figures.last_call_s)))
        .collect();
    let lines = by_name(named.iter().map(|(name, point)| (name.as_str(), *point)));
    simulated::publish(&all, &tables(&all), labels, &lines, &options.common, output)
}

/// They come for so long, in seconds: all of them before the hour.
const COMING_S: u64 = 600;

async fn measure(targets: usize, setting: &Setting) -> Result<Figures> {
    let outcome = simulated::run("hourly", setting.load.expected_tasks(), setting).await?;
    let (first_call_s, half_called_s, last_call_s) = called(&outcome, UNTIL_THE_HOUR);
    let bill = Bill::of(&outcome);
    Ok(Figures {
        targets,
        tasks: outcome.tasks,
        calls: outcome.calls.len(),
        fewest_calls: fewest_calls(setting, &outcome),
        first_call_s,
        half_called_s,
        last_call_s,
        write_units: bill.write_units,
        dollars_per_million: bill.dollars.total,
    })
}

/// Seconds from then to the first call, to that by which half of the tasks were called, and to the last.
fn called(outcome: &Outcome, closed_at: Duration) -> (f64, f64, f64) {
    let Some(begun) = outcome.tasks_at.values().map(|(at, _)| *at).min() else { return (0.0, 0.0, 0.0) };
    let mut calls: Vec<_> = outcome.calls.iter().map(|call| (call.at, call.items.len())).collect();
    calls.sort_unstable();
    let after = |call: Option<&(tokio::time::Instant, usize)>| {
        call.map_or(0.0, |(at, _)| at.duration_since(begun).as_secs_f64() - closed_at.as_secs_f64())
    };
    let mut seen = 0;
    let half = calls.iter().find(|(_, members)| {
        seen += members;
        2 * seen >= outcome.tasks
    });
    (after(calls.first()), after(half), after(calls.last()))
}
