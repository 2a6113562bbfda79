//! Who waits for whom at a limit: what sharing it brings, and what it costs.

use anyhow::Result;
use simulator::timing::{share_used, waits_of};
use simulator::{CallLimits, Outcome, Weights};

use crate::prelude::*;

/// How long the one batch of a Target waits behind the many of another, and how exactly ten Targets with the weights 1
/// to 10 share a limit, in a simulation of AWS.
///
/// Each batch has one task and takes the express path. Each Target of the ten gets a tenth of the batches, all at once;
/// counted are the calls from the first minute's end until the Target with the weight 10 has no more.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Batches that come at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = some_tasks)]
    batches: usize,
    /// Calls a second that the limit allows.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    per_second: u32,
    #[command(flatten)]
    common: Common,
}

/// One run's figures.
#[derive(Debug, Serialize)]
struct Figures {
    targets: &'static str,
    order: &'static str,
    batches: usize,
    /// How long the one batch waited that came a minute later.
    one_waits_s: Option<f64>,
    /// How far the share of a Target was from its due, at most.
    most_off: Option<f64>,
    /// Of the limit, from the first call to the last.
    share_used: f64,
    gate_reads_per_call: f64,
    gate_writes_per_call: f64,
    write_units_per_batch: f64,
}

/// When the one batch comes, in seconds.
const AFTER_S: u64 = 60;
const FIRST_COME: &str = "first come, first served";
const SHARED: &str = "Targets share";

/// Runs all scenarios and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let Args { batches, per_second, .. } = *options;
    let (one, ten) = (Load::AndOne { tasks: batches, after_s: AFTER_S }, Load::Burst { tasks: batches, targets: 10 });
    let scenarios = [
        ("many and one", FIRST_COME, one, None),
        ("many and one", SHARED, one, Some(Weights::Equal)),
        ("ten", FIRST_COME, ten, None),
        ("ten, weights 1 to 10", SHARED, ten, Some(Weights::OneToTen)),
    ];
    let mut all = Vec::new();
    for (targets, order, load, shared) in scenarios {
        let calls = CallLimits { per_second: Some(per_second), pauses_route: true, shared, ..CallLimits::default() };
        let setting = Setting { seed: options.common.seed, calls, max_items: 1, express: true, ..Setting::of(load) };
        let outcome = simulated::run(order, load.expected_tasks(), &setting).await?;
        all.push(figures((targets, order), batches, &setting, &outcome));
    }
    let labels = Labels { title: "How long the one batch waits", axes: ("batches of the other", "seconds") };
    let lines = by_name(all.iter().filter_map(|f| Some((f.order, (f.batches as f64, f.one_waits_s?)))));
    simulated::publish(&all, &tables(&all), labels, &lines, &options.common, output)
}

fn figures(
    (targets, order): (&'static str, &'static str),
    batches: usize,
    setting: &Setting,
    outcome: &Outcome,
) -> Figures {
    let calls = outcome.calls.len().max(1) as f64;
    let waited = match setting.load {
        Load::AndOne { .. } => waits_of(outcome, "t1").first().map(|wait| wait.as_secs_f64()),
        Load::Burst { .. } | Load::Trickle { .. } | Load::Stream { .. } => None,
    };
    Figures {
        targets,
        order,
        batches,
        one_waits_s: waited,
        most_off: setting.calls.shared.filter(|weights| *weights == Weights::OneToTen).map(|_| most_off(outcome)),
        share_used: share_used(setting, outcome).unwrap_or_default(),
        gate_reads_per_call: outcome.gates.reads as f64 / calls,
        gate_writes_per_call: outcome.gates.writes as f64 / calls,
        write_units_per_batch: outcome.usage.capacity().write.count() / batches as f64,
    }
}

/// How far the share of one of ten Targets is from its due, at most, while all have batches.
fn most_off(outcome: &Outcome) -> f64 {
    let of = |target: String| outcome.calls.iter().filter(move |call| call.target == target).map(|call| call.at);
    let ends = outcome.calls.iter().map(|call| call.at).min().zip(of("t9".to_owned()).max());
    let Some((first, last)) = ends else { return 1.0 };
    let counts: Vec<f64> = (0..10)
        .map(|n| {
            let counted = |at: &tokio::time::Instant| at.duration_since(first).as_secs() >= AFTER_S && *at < last;
            of(format!("t{n}")).filter(counted).count() as f64
        })
        .collect();
    let all: f64 = counts.iter().sum();
    let off = |(weight, count): (f64, &f64)| (count / all.max(1.0) / (weight / 55.0) - 1.0).abs();
    (1..).map(f64::from).zip(&counts).map(off).fold(0.0, f64::max)
}
