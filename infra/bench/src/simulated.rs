//! Scenarios on the simulator: run one after the other in a thread of their own, shown on a bar, printed, saved, drawn.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use simulator::{Outcome, Real};
use tracing::subscriber::{NoSubscriber, with_default};

use crate::plot::{self, Line};
use crate::prelude::*;

/// What all scenarios have: their chance, and the files that are written.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Everything random follows from it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write all figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Draw a plot into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs a scenario; on a terminal a bar shows how many of its tasks are settled.
pub async fn run(name: &str, tasks: u64, setting: &Setting) -> Result<Outcome> {
    run_steps(Box::new(Real), name, tasks, setting).await
}

/// As [`run`], with other steps than the real ones.
pub async fn run_steps(steps: Box<dyn Steps>, name: &str, tasks: u64, setting: &Setting) -> Result<Outcome> {
    let bar = bar(tasks, "{prefix:24} {bar:40} {pos} of {len} tasks");
    bar.set_prefix(name.to_owned());
    let (setting, shown) = (setting.clone(), bar.clone());
    // Virtual time has a runtime of its own. What simulated functions log is not about this process.
    let simulate = move || simulator::run_steps(steps, &setting, &|settled| shown.set_position(settled));
    let outcome = tokio::task::spawn_blocking(|| with_default(NoSubscriber::new(), simulate)).await;
    bar.finish_and_clear();
    Ok(outcome.map_err(|_| anyhow!("the simulation panicked"))??)
}

/// Prints figures, as JSON or as the text for people, and writes the files that are asked for.
pub fn publish<T: Serialize>(
    figures: &T,
    text: &str,
    labels: Labels,
    lines: &[Line],
    common: &Common,
    output: Output,
) -> Result<()> {
    output.result(figures, text);
    save(figures, common.save.as_deref())?;
    plot::draw(common.svg.as_deref(), labels, lines)
}

fn save<T: Serialize>(figures: &T, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(figures).unwrap_or_default();
    std::fs::write(file, text + "\n").map_err(|error| anyhow!("cannot write {}: {error}", file.display()))
}
