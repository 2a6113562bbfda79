//! What a task costs: bursts of each size on one Target and on many, a steady trickle, the paper's own steps, and each
//! option of a route beside the same without it.

use std::collections::BTreeMap;

use anyhow::Result;
use groupage_aws::dollars::grouped;
use simulator::bill::{Bill, Idle};
use simulator::options::{Group, Priced, groups};
use simulator::{Real, timing};

use crate::paper::Paper;
use crate::prelude::*;

/// What a task costs: units, requests, invocations and dollars, for bursts and trickles, in a simulation of AWS.
///
/// The real functions run in virtual time, on tables, queues and event source mappings that cost and take what they do
/// on AWS: units are counted by the items before and after each write, requests as they are billed. Figures follow from
/// the seed and from nothing else. Senders send in tens; calls carry a hundred tasks and take a second.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks of each burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000], value_parser = some_tasks)]
    sizes: Vec<usize>,
    /// Tasks of each burst that the paper's own steps are given: what a task costs them grows with the burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 3_000, 10_000], value_parser = some_tasks)]
    paper: Vec<usize>,
    /// How long the trickles last, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    trickle_s: u64,
    /// Only what each option of a route costs.
    #[arg(long, conflicts_with_all = ["sizes", "paper", "trickle_s"])]
    options: bool,
    #[command(flatten)]
    common: Common,
}

/// One scenario's figures.
#[derive(Clone, Debug, Serialize)]
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

/// Write units a task, by where they go.
#[derive(Serialize)]
struct AtPlaces<'a> {
    scenario: &'a str,
    tasks: usize,
    write_units_in: BTreeMap<&'static str, f64>,
}

/// What a task costs with an option more than without it. A run without any is beside itself.
#[derive(Debug, Serialize)]
struct OfOption {
    run: &'static str,
    option: &'static str,
    calls: usize,
    write_units: f64,
    read_units: f64,
    sqs_requests: f64,
    dollars: f64,
    more_write_units: f64,
    more_read_units: f64,
    more_sqs_requests: f64,
    more_dollars: f64,
}

/// All scenarios, what each option costs, and what a stack costs beside them.
#[derive(Debug, Serialize)]
struct All {
    scenarios: Vec<Figures>,
    options: Vec<OfOption>,
    idle: Option<Idle>,
}

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let (mut scenarios, mut idle) = (Vec::new(), None);
    if !options.options {
        scenarios = all_scenarios(options).await?;
        idle = Some(Idle::of(&simulated::run("idle", 0, &idle_setting(options)).await?, 1));
    }
    let labels =
        Labels { title: "Write units a task, by the size of the burst", axes: ("tasks", "write units a task") };
    let units =
        scenarios.iter().map(|figures| (figures.scenario.as_str(), (figures.tasks as f64, figures.bill.write_units)));
    let lines = by_name(units);
    let of_options = of_options(options.common.seed).await?;
    let texts =
        [(!scenarios.is_empty()).then(|| text(&scenarios)), Some(tables(&of_options)), idle.as_ref().map(idle_text)];
    let all = All { scenarios, options: of_options, idle };
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    simulated::publish(&all, &text, labels, &lines, &options.common, output)
}

async fn all_scenarios(options: &Args) -> Result<Vec<Figures>> {
    let mut measured = Vec::new();
    for (name, setting) in bursts(options) {
        measured.push(measure(Box::new(Real), &name, &setting).await?);
    }
    for tasks in &options.paper {
        let setting = Setting { seed: options.common.seed, ..Setting::of(Load::Burst { tasks: *tasks, targets: 1 }) };
        measured.push(measure(Box::new(Paper::default()), "the paper, 1 Target", &setting).await?);
    }
    for (name, setting) in trickles(options) {
        measured.push(measure(Box::new(Real), &name, &setting).await?);
    }
    Ok(measured)
}

/// Each option, beside the same run without it.
async fn of_options(seed: u64) -> Result<Vec<OfOption>> {
    let mut all = Vec::new();
    for Group { name, plain, options } in groups(seed) {
        let without = measure(Box::new(Real), name, &plain).await?;
        let mut rows = vec![("none", without.clone())];
        for Priced { name, setting, .. } in options {
            rows.push((name, measure(Box::new(Real), name, &setting).await?));
        }
        all.extend(rows.into_iter().map(|(option, Figures { calls, bill, .. })| OfOption {
            run: name,
            option,
            calls,
            write_units: bill.write_units,
            read_units: bill.read_units,
            sqs_requests: bill.sqs_requests,
            dollars: bill.dollars.total,
            more_write_units: bill.write_units - without.bill.write_units,
            more_read_units: bill.read_units - without.bill.read_units,
            more_sqs_requests: bill.sqs_requests - without.bill.sqs_requests,
            more_dollars: bill.dollars.total - without.bill.dollars.total,
        }));
    }
    Ok(all)
}

/// Each with its name; those of one name differ in their size only.
fn bursts(options: &Args) -> Vec<(String, Setting)> {
    let mut scenarios = Vec::new();
    for (targets, lag_ms, express) in
        [(1, 0, false), (1, 2_000, false), (100, 0, false), (1, 0, true), (1, 2_000, true), (100, 0, true)]
    {
        for tasks in &options.sizes {
            let targets_named = if targets == 1 { "1 Target" } else { "100 Targets" };
            let name = format!("{targets_named}{}, lag {} s", path(express), lag_ms / 1_000);
            let load = Load::Burst { tasks: *tasks, targets };
            scenarios.push((name, Setting { seed: options.common.seed, lag_ms, express, ..Setting::of(load) }));
        }
    }
    scenarios
}

fn trickles(options: &Args) -> impl Iterator<Item = (String, Setting)> {
    [(10.0, false), (100.0, false), (10.0, true), (100.0, true)].into_iter().map(|(per_second, express)| {
        let load = Load::Trickle { per_second, seconds: options.trickle_s, targets: 1 };
        let name = format!("{per_second} a second{}", path(express));
        (name, Setting { seed: options.common.seed, express, ..Setting::of(load) })
    })
}

const fn path(express: bool) -> &'static str {
    if express { ", express" } else { "" }
}

async fn measure(steps: Box<dyn Steps>, scenario: &str, setting: &Setting) -> Result<Figures> {
    let tasks = setting.load.expected_tasks();
    let outcome = simulated::run_steps(steps, scenario, tasks, setting).await?;
    Ok(Figures {
        scenario: scenario.to_owned(),
        tasks: outcome.tasks,
        lag_ms: setting.lag_ms,
        calls: outcome.calls.len(),
        fewest_calls: timing::fewest_calls(setting, &outcome),
        seconds: outcome.took.as_secs_f64(),
        bill: Bill::of(&outcome),
    })
}

/// The figures, and apart from them where the write units go.
fn text(all: &[Figures]) -> String {
    let bill = |bill: &Bill| Bill { places: Vec::new(), ..bill.clone() };
    let rows = all.iter().map(|figures| Figures { bill: bill(&figures.bill), ..figures.clone() });
    let places = all.iter().map(|Figures { scenario, tasks, bill, .. }| {
        let write_units_in = bill.places.iter().map(|place| (place.place, place.write_units)).collect();
        AtPlaces { scenario, tasks: *tasks, write_units_in }
    });
    format!("{}\n\n{}", tables(&Vec::from_iter(rows)), tables(&Vec::from_iter(places)))
}

/// Ten minutes without a task.
fn idle_setting(options: &Args) -> Setting {
    let load = Load::Burst { tasks: 0, targets: 1 };
    Setting { seed: options.common.seed, stop_after_s: Some(600), ..Setting::of(load) }
}

fn idle_text(idle: &Idle) -> String {
    let Idle { receives, receives_dollars, sweep_read_units, sweep_ms, sweep_dollars } = idle;
    let (receives, sweep_read_units) = (grouped(*receives), grouped(*sweep_read_units as u64));
    format!(
        "Beside that, each month: {receives} empty receives of idle mappings, ${receives_dollars:.2}; an idle sweep with one \
         route, {sweep_read_units} read units and {sweep_ms:.0} ms a minute, ${sweep_dollars:.2}."
    )
}
