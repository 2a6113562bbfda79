//! How late calls start: beyond the asked window, hop by hop.

use serde::Serialize;
use simulator::latency::Hop;
use simulator::load::Load;
use simulator::queues::Step;
use simulator::timing::{Delays, Percentiles, delays, intake};
use simulator::{Outcome, Setting};

use super::args::BenchDelay;
use super::plot::{Labels, Line};
use super::{Error, simulated};
use crate::output::{self, Output};

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    scenario: String,
    per_second: f64,
    wait_ms: u64,
    calls: usize,
    tasks_per_call: f64,
    /// From when the last needed task was handed to register-task to the call, beyond the window.
    delay: Percentiles,
    /// Calls that were not full and started before the window of their first member was over; their delay counts as none.
    early: usize,
    /// From the task queue to register-task: the mapping's own window.
    intake: Percentiles,
    hops: Vec<AtStep>,
}

/// What one step adds.
#[derive(Debug, Serialize)]
struct AtStep {
    step: Step,
    /// From when a message could be received to its invocation.
    waited: Percentiles,
    /// The invocation.
    took: Percentiles,
}

/// Runs all scenarios and prints their figures.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &BenchDelay, output: Output) -> Result<(), Error> {
    let mut all = Vec::new();
    for (scenario, load) in scenarios(options.seconds) {
        let setting = Setting { seed: options.seed, wait_ms: options.wait_ms, ..Setting::of(load) };
        let outcome = simulated::run(&scenario, load.expected_tasks(), &setting).await?;
        all.push(figures(scenario, &setting, &outcome));
    }
    let labels = Labels {
        title: "Delay of calls beyond the window, by the rate of one Target's tasks",
        axes: ("tasks a second", "milliseconds"),
    };
    simulated::publish(&all, || table(&all), labels, &lines(&all), &options.files, output)
}

fn scenarios(seconds: u64) -> Vec<(String, Load)> {
    let single = |per_second: f64, targets| Load::Trickle { per_second, seconds, targets };
    let tens = |per_second: f64| Load::Stream { per_second, seconds, targets: 1 };
    vec![
        ("1 a second, singly".to_owned(), single(1.0, 1)),
        ("10 a second, singly".to_owned(), single(10.0, 1)),
        ("100 a second, singly".to_owned(), single(100.0, 1)),
        ("100 a second, in tens".to_owned(), tens(100.0)),
        ("300 a second, in tens".to_owned(), tens(300.0)),
        ("100 a second, 100 Targets".to_owned(), single(100.0, 100)),
    ]
}

fn figures(scenario: String, setting: &Setting, outcome: &Outcome) -> Figures {
    let at = |step: Step| {
        let function = outcome.functions.get(&step).cloned().unwrap_or_default();
        AtStep { step, waited: Percentiles::of(function.waited), took: Percentiles::of(function.took) }
    };
    let Delays { late, early } = delays(setting, outcome);
    Figures {
        scenario,
        per_second: outcome.tasks as f64 / outcome.took.as_secs_f64(),
        wait_ms: setting.wait_ms,
        calls: outcome.calls.len(),
        tasks_per_call: outcome.tasks as f64 / outcome.calls.len().max(1) as f64,
        delay: Percentiles::of(late),
        early,
        intake: Percentiles::of(intake(outcome)),
        hops: Step::ALL.map(at).into(),
    }
}

fn table(all: &[Figures]) -> String {
    let header = ["scenario", "calls", "tasks a call", "delay p50", "p99", "early", "intake p50", "p99"];
    let mut table = output::figures(header);
    let ms = |ms: f64| format!("{ms:.0} ms");
    for Figures { scenario, calls, tasks_per_call, delay, early, intake, .. } in all {
        table.add_row([
            scenario.clone(),
            calls.to_string(),
            format!("{tasks_per_call:.1}"),
            ms(delay.p50_ms),
            ms(delay.p99_ms),
            early.to_string(),
            ms(intake.p50_ms),
            ms(intake.p99_ms),
        ]);
    }
    let mut hops = output::figures(["hop", "step", "waited p50", "p99", "took p50", "p99"]);
    for Figures { scenario, hops: of_scenario, .. } in all {
        for AtStep { step, waited, took } in of_scenario {
            let times = [waited.p50_ms, waited.p99_ms, took.p50_ms, took.p99_ms].map(ms);
            hops.add_row([scenario.clone(), step.name().to_owned()].into_iter().chain(times).collect::<Vec<_>>());
        }
    }
    format!("{}\n\n{}\n\n{}", table.trim_fmt(), hops.trim_fmt(), latencies())
}

/// What was assumed of AWS.
fn latencies() -> String {
    let each = Hop::ALL.map(|hop| {
        let (p50, p99) = hop.percentiles();
        format!("{} {p50:.0} and {p99:.0} ms", hop.name())
    });
    format!("Assumed of each hop, p50 and p99: {}.", each.join(", "))
}

fn lines(all: &[Figures]) -> Vec<Line> {
    let line = |name: &str, of: fn(&Figures) -> f64| {
        let points = all.iter().map(|figures| (figures.per_second, of(figures)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (name.to_owned(), points)
    };
    vec![line("p50", |figures| figures.delay.p50_ms), line("p99", |figures| figures.delay.p99_ms)]
}
