//! The hottest key: how many tasks a second one Target bears when DynamoDB's partitions have their limits.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use simulator::Setting;
use simulator::limits::Limits;
use simulator::load::Load;
use simulator::timing::called_per_second;

use super::args::BenchHotKey;
use super::plot::{self, Labels, Line};
use super::{Error, simulated};
use crate::output::{Output, grouped};

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    path: &'static str,
    /// Tasks a second that were sent.
    offered: f64,
    /// Tasks a second that reached the downstream in the second half of the time.
    reached: f64,
    tasks_per_call: f64,
    /// Requests that a partition refused, for each task called.
    throttled: f64,
}

/// Ways that are compared, and what each adds to the route's `batch`.
const PATHS: [(&str, &str); 1] = [("elected", "")];

/// Runs all scenarios and prints their figures.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchHotKey, output: Output) -> Result<(), Error> {
    let mut all = Vec::new();
    for (path, batch) in PATHS {
        for per_second in &options.rates {
            all.push(measure(options, path, batch, *per_second).await?);
        }
    }
    output.result(&all, || table(&all));
    simulated::save(&all, options.files.save.as_deref())?;
    let labels = Labels {
        title: "One Target: tasks that reach the downstream, by tasks offered",
        axes: ("offered a second", "reached a second"),
    };
    plot::draw(options.files.svg.as_deref(), labels, &lines(&all))
}

async fn measure(
    options: &BenchHotKey,
    path: &'static str,
    batch: &'static str,
    per_second: f64,
) -> Result<Figures, Error> {
    let seconds = options.seconds;
    let load = Load::Stream { per_second, seconds, targets: 1 };
    let limits = Limits { partitions: options.partitions, ..Limits::default() };
    let setting =
        Setting { seed: options.seed, batch, limits: Some(limits), stop_after_s: Some(seconds), ..Setting::of(load) };
    let outcome = simulated::run(&format!("{path}, {per_second}"), load.expected_tasks(), &setting).await?;
    let called: usize = outcome.calls.iter().map(|call| call.items.len()).sum();
    Ok(Figures {
        path,
        offered: per_second,
        reached: called_per_second(&outcome, seconds),
        tasks_per_call: called as f64 / outcome.calls.len().max(1) as f64,
        throttled: outcome.throttled as f64 / called.max(1) as f64,
    })
}

fn table(all: &[Figures]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["path", "offered a second", "reached a second", "tasks a call", "throttled a task"]);
    for Figures { path, offered, reached, tasks_per_call, throttled } in all {
        table.add_row([
            (*path).to_owned(),
            grouped(offered.round() as u64),
            grouped(reached.round() as u64),
            format!("{tasks_per_call:.1}"),
            format!("{throttled:.3}"),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn lines(all: &[Figures]) -> Vec<Line> {
    let of = |path: &str| all.iter().filter(|f| f.path == path).map(|f| (f.offered, f.reached)).collect();
    PATHS.iter().map(|(path, _)| ((*path).to_owned(), of(path))).collect()
}
