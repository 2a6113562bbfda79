//! A limit on calls in flight that follows the downstream, beside fixed ones, while what the downstream bears changes.

use anyhow::Result;
use serde::Serialize;
use simulator::load::Load;
use simulator::timing::{Percentiles, whole_way};
use simulator::{CallLimits, Outcome, Setting};

use crate::plot::{Labels, Line};
use crate::print::{Output, tables};
use crate::ranges::{MOST_SECONDS, a_rate};
use crate::simulated::{self, Common};

/// How much of a downstream's capacity is used, and how many calls it turns away, while its capacity changes, in a
/// simulation of AWS.
///
/// Calls take turns at the downstream. One that would have to wait for over a second for its turn is turned away with
/// 503. Each batch has one task and takes the express path, so that nothing but the limit holds it up. The last phase
/// begins with all that waited before.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Calls a second that the downstream bears, one phase after the other.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [50, 10, 100], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    phases: Vec<u32>,
    /// How long each phase lasts, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    seconds: u64,
    /// Tasks a second.
    #[arg(long, value_name = "NUMBER", default_value_t = 60.0, value_parser = a_rate)]
    rate: f64,
    /// Fixed limits on calls in flight to compare with.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [2, 10, 20, 100], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    fixed: Vec<u32>,
    /// How long a call takes whose turn it is, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=25_000))]
    call_ms: u64,
    #[command(flatten)]
    common: Common,
}

/// One phase's figures under one limit.
#[derive(Debug, Serialize)]
struct Figures {
    limit: String,
    bears_per_second: u32,
    /// Calls that were answered, of those that the downstream would have borne.
    share_used: f64,
    /// Of all calls.
    share_turned_away: f64,
    /// Of the whole run: from each task's queue to its call.
    way: Percentiles,
}

/// Runs all limits and prints their figures.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let phases = options.phases.len() as u64;
    let mut limits =
        vec![("auto".to_owned(), CallLimits { in_flight: Some(100), adapts: true, ..CallLimits::default() })];
    for most in &options.fixed {
        limits.push((format!("{most} in flight"), CallLimits { in_flight: Some(*most), ..CallLimits::default() }));
    }
    let mut all = Vec::new();
    for (limit, calls) in limits {
        let load = Load::Stream { per_second: options.rate, seconds: phases * options.seconds, targets: 1 };
        let from_s = (0..).map(|phase| phase * options.seconds);
        let setting = Setting {
            seed: options.common.seed,
            call_ms: options.call_ms,
            calls: CallLimits { pauses_route: true, ..calls },
            max_items: 1,
            express: true,
            bears: from_s.zip(options.phases.iter().copied()).collect(),
            stop_after_s: Some(phases * options.seconds),
            ..Setting::of(load)
        };
        let outcome = simulated::run(&limit, load.expected_tasks(), &setting).await?;
        all.extend(figures(&limit, &setting, options.seconds, &outcome));
    }
    let labels = Labels { title: "Calls turned away, by capacity used", axes: ("share used", "share turned away") };
    let lines: Vec<Line> = crate::plot::by_name(
        all.iter().map(|figures| (figures.limit.as_str(), (figures.share_used, figures.share_turned_away))),
    );
    simulated::publish(&all, &tables(&all), labels, &lines, &options.common, output)
}

fn figures(limit: &str, setting: &Setting, seconds: u64, outcome: &Outcome) -> Vec<Figures> {
    let Some(begun) = outcome.calls.iter().map(|call| call.at).min() else { return Vec::new() };
    let way = Percentiles::of(whole_way(outcome));
    let figures = |(from_s, bears_per_second): &(u64, u32)| {
        let in_phase = outcome.calls.iter().filter(|call| {
            let at_s = call.at.saturating_duration_since(begun).as_secs();
            (*from_s..from_s + seconds).contains(&at_s)
        });
        let (turned_away, answered): (Vec<_>, Vec<_>) = in_phase.partition(|call| call.turned_away);
        let (turned_away, answered) = (turned_away.len() as f64, answered.len() as f64);
        Figures {
            limit: limit.to_owned(),
            bears_per_second: *bears_per_second,
            share_used: answered / (f64::from(*bears_per_second) * seconds as f64),
            share_turned_away: turned_away / (turned_away + answered).max(1.0),
            way,
        }
    };
    setting.bears.iter().map(figures).collect()
}
