//! What a task costs: bursts of each size on one Target and on many, a steady trickle, and the paper's own steps.

use serde::Serialize;
use simulator::bill::{Bill, Idle};
use simulator::load::Load;
use simulator::{Setting, Steps, timing};

use super::args::BenchCost;
use super::plot::{Labels, by_name};
use super::{Error, simulated};
use crate::output::{Output, figures, grouped};

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    scenario: String,
    tasks: usize,
    lag_ms: u64,
    calls: usize,
    fewest_calls: usize,
    seconds: f64,
    #[serde(flatten)]
    bill: Bill,
}

/// All scenarios, and what a stack costs beside them.
#[derive(Debug, Serialize)]
struct All {
    scenarios: Vec<Figures>,
    idle: Idle,
}

/// Runs all scenarios and prints their figures.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchCost, output: Output) -> Result<(), Error> {
    let mut measured = Vec::new();
    for (name, setting) in scenarios(options) {
        measured.push(measure(name, &setting).await?);
    }
    let idle = Idle::of(&simulated::run("idle", 0, &idle(options)).await?, 1);
    let labels =
        Labels { title: "Write units a task, by the size of the burst", axes: ("tasks", "write units a task") };
    let units =
        measured.iter().map(|figures| (figures.scenario.as_str(), (figures.tasks as f64, figures.bill.write_units)));
    let lines = by_name(units);
    let all = All { scenarios: measured, idle };
    let text = || format!("{}\n\n{}", table(&all.scenarios), idle_text(&all.idle));
    simulated::publish(&all, text, labels, &lines, &options.files, output)
}

/// Each with its name; those of one name differ in their size only.
fn scenarios(options: &BenchCost) -> Vec<(String, Setting)> {
    let mut scenarios = Vec::new();
    for (targets, lag_ms, express) in
        [(1, 0, false), (1, 2_000, false), (100, 0, false), (1, 0, true), (1, 2_000, true), (100, 0, true)]
    {
        for tasks in &options.sizes {
            let targets_named = if targets == 1 { "1 Target" } else { "100 Targets" };
            let name = format!("{targets_named}{}, lag {} s", path(express), lag_ms / 1_000);
            let load = Load::Burst { tasks: *tasks, targets };
            scenarios.push((name, Setting { seed: options.seed, lag_ms, express, ..Setting::of(load) }));
        }
    }
    for tasks in &options.paper {
        let load = Load::Burst { tasks: *tasks, targets: 1 };
        let setting = Setting { seed: options.seed, steps: Steps::Paper, ..Setting::of(load) };
        scenarios.push(("the paper, 1 Target".to_owned(), setting));
    }
    for (per_second, express) in [(10.0, false), (100.0, false), (10.0, true), (100.0, true)] {
        let load = Load::Trickle { per_second, seconds: options.trickle_s, targets: 1 };
        let name = format!("{per_second} a second{}", path(express));
        scenarios.push((name, Setting { seed: options.seed, express, ..Setting::of(load) }));
    }
    scenarios
}

const fn path(express: bool) -> &'static str {
    if express { ", express" } else { "" }
}

async fn measure(scenario: String, setting: &Setting) -> Result<Figures, Error> {
    let tasks = setting.load.expected_tasks();
    let outcome = simulated::run(&scenario, tasks, setting).await?;
    Ok(Figures {
        scenario,
        tasks: outcome.tasks,
        lag_ms: setting.lag_ms,
        calls: outcome.calls.len(),
        fewest_calls: timing::fewest_calls(setting, &outcome),
        seconds: outcome.took.as_secs_f64(),
        bill: Bill::of(&outcome),
    })
}

fn table(all: &[Figures]) -> String {
    let mut table = figures([
        "scenario",
        "tasks",
        "write units",
        "read units",
        "refused",
        "SQS",
        "invocations",
        "Lambda ms",
        "$ a million",
        "calls",
        "fewest",
    ]);
    for figures in all {
        let Bill { write_units, read_units, refused_writes, sqs_requests, invocations, lambda_ms, dollars, .. } =
            &figures.bill;
        table.add_row([
            figures.scenario.clone(),
            grouped(figures.tasks as u64),
            format!("{write_units:.3}"),
            format!("{read_units:.3}"),
            format!("{refused_writes:.3}"),
            format!("{sqs_requests:.3}"),
            format!("{invocations:.4}"),
            format!("{lambda_ms:.1}"),
            format!("{:.2}", dollars.total),
            grouped(figures.calls as u64),
            grouped(figures.fewest_calls as u64),
        ]);
    }
    format!("{}\n\n{}", table.trim_fmt(), places(all))
}

/// Where the write units and the dollars go.
fn places(all: &[Figures]) -> String {
    let places = all.first().map(|figures| figures.bill.places.as_slice()).unwrap_or_default();
    let header = ["write units a task in", "tasks"].into_iter().chain(places.iter().map(|place| place.place));
    let mut table = figures(header.chain(["$ writes", "reads", "SQS", "Lambda"]));
    for Figures { scenario, tasks, bill, .. } in all {
        let units = bill.places.iter().map(|place| format!("{:.3}", place.write_units));
        let dollars = &bill.dollars;
        let dollars = [dollars.writes, dollars.reads, dollars.sqs, dollars.invocations + dollars.time];
        let cells = [scenario.clone(), grouped(*tasks as u64)].into_iter().chain(units);
        table.add_row(cells.chain(dollars.map(|dollars| format!("{dollars:.3}"))).collect::<Vec<_>>());
    }
    table.trim_fmt()
}

/// Ten minutes without a task.
fn idle(options: &BenchCost) -> Setting {
    let load = Load::Burst { tasks: 0, targets: 1 };
    Setting { seed: options.seed, stop_after_s: Some(600), ..Setting::of(load) }
}

fn idle_text(idle: &Idle) -> String {
    let Idle { receives, receives_dollars, sweep_read_units, sweep_ms, sweep_dollars } = idle;
    let (receives, sweep_read_units) = (grouped(*receives), grouped(*sweep_read_units as u64));
    format!(
        "Beside that, each month: {receives} empty receives of idle mappings, ${receives_dollars:.2}; an idle sweep with one \
         route, {sweep_read_units} read units and {sweep_ms:.0} ms a minute, ${sweep_dollars:.2}."
    )
}
