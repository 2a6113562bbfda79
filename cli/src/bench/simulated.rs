//! Scenarios on the simulator: run one after the other in a thread of their own, shown on a bar, printed, saved, drawn.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use simulator::{Outcome, Setting};
use tracing::subscriber::{NoSubscriber, with_default};

use super::Error;
use super::args::BenchFiles;
use super::plot::{self, Labels, Line};
use crate::output::Output;

/// Runs a scenario; on a terminal a bar shows how many of its tasks are settled.
///
/// # Errors
/// [`Error::Simulated`]
pub async fn run(name: &str, tasks: u64, setting: &Setting) -> Result<Outcome, Error> {
    let style = ProgressStyle::with_template("{prefix:24} {bar:40} {pos} of {len} tasks");
    // The template is a constant; a bar in the default style would do no harm.
    let bar = ProgressBar::new(tasks).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name.to_owned());
    let (setting, shown) = (setting.clone(), bar.clone());
    // Virtual time has a runtime of its own. What simulated functions log is not about this process.
    let simulate = move || simulator::run(&setting, &|settled| shown.set_position(settled));
    let run = tokio::task::spawn_blocking(|| with_default(NoSubscriber::new(), simulate));
    let outcome = run.await;
    bar.finish_and_clear();
    Ok(outcome.map_err(|_| Error::Panicked)??)
}

/// Prints figures, as JSON or as the table, and writes the files that are asked for.
///
/// # Errors
/// [`Error::Write`], [`Error::Plot`]
pub fn publish<T: Serialize>(
    figures: &T,
    table: impl FnOnce() -> String,
    labels: Labels,
    lines: &[Line],
    files: &BenchFiles,
    output: Output,
) -> Result<(), Error> {
    output.result(figures, table);
    save(figures, files.save.as_deref())?;
    plot::draw(files.svg.as_deref(), labels, lines)
}

fn save<T: Serialize>(figures: &T, file: Option<&Path>) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(figures).unwrap_or_default();
    std::fs::write(file, text + "\n").map_err(|source| Error::Write { file: file.to_owned(), source })
}
