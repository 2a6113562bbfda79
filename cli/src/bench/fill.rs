//! How full calls are: against the fewest possible in bursts, and against delay in trickles.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use simulator::Setting;
use simulator::load::Load;
use simulator::timing::{Percentiles, fewest_calls, whole_way};

use super::args::BenchFill;
use super::plot::{self, Labels, Line};
use super::{Error, simulated};
use crate::output::{Output, grouped};

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
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchFill, output: Output) -> Result<(), Error> {
    let mut all = Vec::new();
    for tasks in &options.sizes {
        for lag_ms in [0, 2_000] {
            let setting = Setting { lag_ms, ..Setting::of(Load::Burst { tasks: *tasks, targets: 1 }) };
            all.push(measure(format!("burst, lag {} s", lag_ms / 1_000), setting, options.seed).await?);
        }
    }
    for per_second in &options.rates {
        for wait_ms in &options.waits_ms {
            let load = Load::Trickle { per_second: *per_second, seconds: options.seconds, targets: 1 };
            let setting = Setting { wait_ms: *wait_ms, ..Setting::of(load) };
            all.push(measure(format!("{per_second} a second"), setting, options.seed).await?);
        }
    }
    output.result(&all, || table(&all));
    simulated::save(&all, options.files.save.as_deref())?;
    let labels = Labels {
        title: "Tasks in a call, by how long a task took to it in the median",
        axes: ("milliseconds from the queue to the call", "tasks in a call"),
    };
    plot::draw(options.files.svg.as_deref(), labels, &lines(&all))
}

async fn measure(scenario: String, setting: Setting, seed: u64) -> Result<Figures, Error> {
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

fn table(all: &[Figures]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scenario", "wait_ms", "tasks", "calls", "fewest", "ratio", "tasks a call", "way p50", "p99"]);
    for figures in all {
        table.add_row([
            figures.scenario.clone(),
            grouped(figures.wait_ms),
            grouped(figures.tasks as u64),
            grouped(figures.calls as u64),
            grouped(figures.fewest_calls as u64),
            format!("{:.3}", figures.ratio),
            format!("{:.1}", figures.tasks_per_call),
            format!("{:.0} ms", figures.way.p50_ms),
            format!("{:.0} ms", figures.way.p99_ms),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// The trickles: a line for each rate, a point for each window.
fn lines(all: &[Figures]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for figures in all.iter().filter(|figures| !figures.scenario.starts_with("burst")) {
        let point = (figures.way.p50_ms, figures.tasks_per_call);
        match lines.iter_mut().find(|(name, _)| *name == figures.scenario) {
            Some((_, points)) => points.push(point),
            None => lines.push((figures.scenario.clone(), vec![point])),
        }
    }
    lines
}
