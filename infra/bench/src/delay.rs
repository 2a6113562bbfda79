//! How late calls start: beyond the asked window, hop by hop.

use std::time::Duration;

use anyhow::Result;
use simulator::Outcome;
use simulator::latency::Hop;
use simulator::queues::Step;
use simulator::timing::{Delays, Percentiles, delays, intake};

use crate::plot::Line;
use crate::prelude::*;

/// How late calls start beyond the window that their route asks for, hop by hop, in a simulation of AWS.
///
/// The delay of a call is counted from when its last needed task was handed to register-task: its last member if it is
/// full, else the end of the window. What the task queue's own mapping adds before that (it gathers for up to two
/// seconds) is shown apart, and so are calls after the first minute (*later*): a mapping begins with five processes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long tasks are sent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    seconds: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(0..=300_000))]
    wait_ms: u64,
    #[command(flatten)]
    common: Common,
}

/// One scenario's figures.
#[derive(Debug, Serialize)]
struct Figures {
    scenario: String,
    /// Tasks that came.
    per_second: f64,
    /// How they came.
    way: &'static str,
    wait_ms: u64,
    calls: usize,
    tasks_per_call: f64,
    /// From when the last needed task was handed to register-task to the call, beyond the window.
    delay: Percentiles,
    /// The same, of calls after the first minute: by then the mappings have as many processes as they need.
    delay_later: Option<Percentiles>,
    /// Calls that were not full and started before the window of their first member was over; their delay counts as
    /// none.
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
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Vec::new();
    for (rate, way, load) in scenarios(options.seconds) {
        let scenario = format!("{rate} a second, {way}");
        let setting = Setting { seed: options.common.seed, wait_ms: options.wait_ms, ..Setting::of(load) };
        let outcome = simulated::run(&scenario, load.expected_tasks(), &setting).await?;
        all.push(figures(scenario, way, &setting, &outcome));
    }
    let labels = Labels {
        title: "Delay of calls beyond the window, by the rate of one Target's tasks",
        axes: ("tasks a second", "milliseconds"),
    };
    let text = format!("{}\n\n{}", tables(&all), latencies());
    simulated::publish(&all, &text, labels, &lines(&all), &options.common, output)
}

/// Until then Lambda has scaled to what comes.
const FIRST: Duration = Duration::from_secs(60);

/// How tasks come: to one Target by one request each or ten by one, or to many.
const SINGLY: &str = "singly";
const IN_TENS: &str = "in tens";
const MANY: &str = "100 Targets";

fn scenarios(seconds: u64) -> Vec<(u32, &'static str, Load)> {
    let trickle = |rate: u32, targets| Load::Trickle { per_second: rate.into(), seconds, targets };
    let singly = |rate| (rate, SINGLY, trickle(rate, 1));
    let in_tens = |rate: u32| (rate, IN_TENS, Load::Stream { per_second: rate.into(), seconds, targets: 1 });
    vec![singly(1), singly(10), singly(100), in_tens(100), in_tens(300), (100, MANY, trickle(100, 100))]
}

fn figures(scenario: String, way: &'static str, setting: &Setting, outcome: &Outcome) -> Figures {
    let at = |step: Step| {
        let function = outcome.functions.get(&step).cloned().unwrap_or_default();
        AtStep { step, waited: Percentiles::of(function.waited), took: Percentiles::of(function.took) }
    };
    let Delays { late, early } = delays(setting, outcome);
    let times = |from: Duration| late.iter().filter(|late| late.after >= from).map(|late| late.by).collect();
    let later: Vec<Duration> = times(FIRST);
    Figures {
        scenario,
        per_second: outcome.tasks as f64 / outcome.took.as_secs_f64(),
        way,
        wait_ms: setting.wait_ms,
        calls: outcome.calls.len(),
        tasks_per_call: outcome.tasks as f64 / outcome.calls.len().max(1) as f64,
        delay: Percentiles::of(times(Duration::ZERO)),
        delay_later: (!later.is_empty()).then(|| Percentiles::of(later)),
        early,
        intake: Percentiles::of(intake(outcome)),
        hops: Step::ALL.into_iter().filter(|step| outcome.functions.contains_key(step)).map(at).collect(),
    }
}

/// What was assumed of AWS.
fn latencies() -> String {
    let each = Hop::ALL.map(|hop| {
        let (name, p50, p99) = hop.assumed();
        format!("{name} {p50:.0} and {p99:.0} ms")
    });
    format!("Assumed of each hop, p50 and p99: {}.", each.join(", "))
}

/// One Target's, by the rate; what many have at once is no part of that.
fn lines(all: &[Figures]) -> Vec<Line> {
    let mut points = Vec::new();
    for Figures { per_second, way, delay, .. } in all.iter().filter(|figures| figures.way != MANY) {
        points.push((format!("{way}, p50"), (*per_second, delay.p50_ms)));
        points.push((format!("{way}, p99"), (*per_second, delay.p99_ms)));
    }
    by_name(points.iter().map(|(name, point)| (name.as_str(), *point)))
}
