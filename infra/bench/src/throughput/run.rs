//! One run: its way, its tasks, its clocks, and what it came to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::process;

/// How tasks become batches.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// A leader is elected and groups them.
    Elected,
    /// Those that fill batches by themselves need no leader; what is left over gathers first.
    Express,
}

impl Path {
    pub const ALL: [Self; 2] = [Self::Elected, Self::Express];
}

/// What one run came to.
#[derive(Debug, Serialize)]
pub struct Run {
    /// memory, or embedded (DynamoDB's and SQS's protocols, in this process).
    pub tables: &'static str,
    pub path: Path,
    pub tasks: u64,
    pub targets: u64,
    pub seconds: f64,
    pub tasks_per_second: f64,
    pub calls: u64,
    /// Calls by the fewest that there could be, with a hundred tasks each.
    pub fill: f64,
    /// The share of its limit that was used from the first call to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_used: Option<f64>,
    /// Of processor time in this process, for each task; `None` where the operating system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_task: Option<f64>,
    /// What this process holds in memory once the run's tables are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes_after: Option<u64>,
}

/// A full batch.
const MAX_ITEMS: u64 = 100;

/// The one route. A batch that is not full waits for `wait_ms` milliseconds. Behind a limit each has one task.
pub fn routes(path: Path, wait_ms: u64, per_second: Option<u32>) -> Result<Arc<Routes>> {
    let express = matches!(path, Path::Express);
    let max_items = per_second.map_or(MAX_ITEMS, |_| 1);
    let limits = per_second.map(|limit| format!("calls_per_second: {limit}")).unwrap_or_default();
    let text = format!(
        r#"
version: 1
routes:
  - name: bench
    target: target
    batch: {{ max_items: {max_items}, wait_ms: {wait_ms}, express: {express} }}
    limits: {{ {limits} }}
    downstream: {{ http: {{ url: "http://127.0.0.1:9/" }} }}
"#
    );
    Ok(Arc::new(Routes::parse(&text)?))
}

/// The n-th task of a run, as a sender writes it.
pub fn body(number: u64, targets: u64) -> String {
    format!(r#"{{"id":"bench-{number}","payload":{{"target":"t{}","number":{number}}}}}"#, number % targets)
}

/// Accepts every call at once, and knows when the first and the last one came.
#[derive(Debug, Default)]
pub struct Accepting {
    came: Mutex<Option<(Instant, Instant)>>,
}

impl Accepting {
    /// Returns how long it was from the first call to the last.
    pub fn called_for(&self) -> Duration {
        let came = *self.came.lock().unwrap_or_else(PoisonError::into_inner);
        came.map(|(first, last)| last - first).unwrap_or_default()
    }
}

impl Downstream for Accepting {
    async fn call(&self, _: &Call<'_>) -> Result<Answer, NoAnswer> {
        let now = Instant::now();
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        came.get_or_insert((now, now)).1 = now;
        drop(came);
        Ok(Answer { status: 200, ..Answer::default() })
    }
}

/// The clocks of a run.
pub struct Watch {
    started: Instant,
    cpu_seconds: Option<f64>,
}

impl Watch {
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu_seconds: process::cpu_seconds() }
    }

    pub fn stop(&self, tables: &'static str, path: Path, tasks: u64, targets: u64, calls: u64) -> Run {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu = self.cpu_seconds.zip(process::cpu_seconds()).map(|(before, after)| after - before);
        Run {
            tables,
            path,
            tasks,
            targets,
            seconds,
            tasks_per_second: tasks as f64 / seconds,
            calls,
            fill: calls as f64 / fewest(tasks, targets) as f64,
            limit_used: None,
            cpu_us_per_task: cpu.map(|seconds| seconds * 1e6 / tasks as f64),
            resident_bytes_after: None,
        }
    }
}

/// The fewest calls for tasks that are spread evenly over Targets.
fn fewest(tasks: u64, targets: u64) -> u64 {
    let (each, more) = (tasks / targets, tasks % targets);
    (targets - more) * each.div_ceil(MAX_ITEMS) + more * (each + 1).div_ceil(MAX_ITEMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_calls_are_counted_for_each_target() {
        assert_eq!([fewest(1_000, 1), fewest(1_001, 1), fewest(1_000, 3), fewest(200, 200)], [10, 11, 12, 200]);
    }
}
