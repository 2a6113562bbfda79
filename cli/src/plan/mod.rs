//! `groupage plan`: into which batches tasks would go, when, and why each batch ends there.

mod args;
mod calls;
mod forecast;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use anyhow::{Context, Result};
use groupage_aws::System;
use groupage_core::domain::task::payload_bytes;
use groupage_core::domain::times::Times;
use groupage_core::domain::{Target, Timestamp, Traits};
use groupage_core::ports::Env;
use groupage_core::routes::{Assigned, Route, Routes};
use serde::Serialize;

use crate::check;
use crate::output::{Ending, Output};
use crate::send::input::Input;
use crate::send::lines::{Content, Line, Lines};
use crate::sheet::{Cell, Sheet, Tone};
pub use args::Args;
use forecast::{Batch, Coming, Forecast};

/// What would become of the tasks of a file.
#[derive(Debug, Serialize)]
struct Plan {
    /// Lines that are tasks, repeats not counted.
    tasks: u64,
    /// Lines that say the same as an earlier one.
    repeated: u64,
    /// What would be refused: by its reason, how many lines, and the first of them.
    refused: BTreeMap<String, Refused>,
    routes: BTreeMap<String, OfRoute>,
    batches: Vec<Batch>,
    cost: Cost,
}

/// Lines that would be refused for one reason.
#[derive(Debug, Serialize)]
struct Refused {
    lines: u64,
    first_line: u64,
    why: String,
}

/// What one route comes to.
#[derive(Debug, Default, Serialize)]
struct OfRoute {
    tasks: usize,
    targets: usize,
    batches: usize,
    /// Tasks that a newer one replaces.
    superseded: usize,
    /// Tasks in a call, on average.
    fill: f64,
    /// When its last call begins, in milliseconds after the first task.
    last_call_ms: u64,
    /// The longest that a task waits for its call, in milliseconds.
    longest_wait_ms: u64,
    /// Whether tasks wait for those before them with the same order key, which the plan leaves out.
    ordered: bool,
}

/// What AWS would ask, by docs/guides/cost.md.
#[derive(Debug, Serialize)]
struct Cost {
    /// For these tasks, in dollars.
    dollars: f64,
    /// For a million such tasks.
    dollars_per_million: f64,
}

/// Dollars a million for tasks, and for batches, that a leader makes. They follow from three measured prices of
/// docs/guides/cost.md: single tasks cost $19.88 a million, ten in a batch $5.26, and a hundred $3.63 to $3.85.
const ELECTED: (f64, f64) = (3.64, 16.24);
/// Dollars a million for tasks that fill a batch in one event.
const EXPRESS: f64 = 1.63;

/// Reads tasks as `send` does and says what would become of them. Nothing is sent.
pub fn run(options: &Args, output: &Output) -> Result<Ending> {
    let routes = check::routes(&options.routes, *output)?;
    let reader = Input::open(&options.file)?.into_reader();
    let first = options.at.unwrap_or_else(|| System.now());
    let plan =
        plan(&routes, reader, options, first).with_context(|| format!("cannot read {}", options.file.display()))?;
    output.sheet(&plan, || sheet(&plan, options.batches));
    Ok(if plan.refused.is_empty() { Ending::Well } else { Ending::Badly })
}

/// A task of the file that is taken.
struct Taken<'a> {
    route: &'a Route,
    target: Target,
    bytes: u32,
    traits: Traits,
    came: Timestamp,
    at: Timestamp,
}

impl Taken<'_> {
    /// As it comes, with times since that of the first.
    fn coming(&self, first: Timestamp) -> Coming<'_> {
        let Self { route, target, bytes, traits, came, at } = self;
        let (came, at) = (Timestamp(came.since(first)), Timestamp(at.since(first)));
        Coming { route, target, bytes: *bytes, traits: *traits, came, at }
    }
}

/// Plans for tasks of which the first comes at the time `first`.
fn plan(routes: &Routes, reader: impl BufRead, options: &Args, first: Timestamp) -> std::io::Result<Plan> {
    let (mut tasks, mut repeated) = (0, 0);
    let mut refused: BTreeMap<String, Refused> = BTreeMap::new();
    let mut taken: Vec<Taken<'_>> = Vec::new();
    for line in Lines::new(reader) {
        let Line { number, content, .. } = line?;
        let told = match content {
            Content::Repeated => {
                repeated += 1;
                continue;
            }
            Content::Bad(why) => Err(why),
            Content::Task(message) => match routes.assign(&message.payload) {
                Ok(Assigned { route, target, order, traits }) => {
                    let came =
                        first.plus_ms(options.per_second.map_or(0, |rate| tasks * 1_000 / u64::from(rate.get())));
                    let times = Times::of(&message, came);
                    times.check(order.is_some(), came).map_err(|rejection| rejection.to_string()).map(|()| {
                        let at = route.for_target(&target).due(times.not_before, came).unwrap_or(came);
                        let bytes = payload_bytes(&message.payload);
                        taken.push(Taken { route, target, bytes, traits, came, at });
                    })
                }
                Err(rejection) => Err(rejection.to_string()),
            },
        };
        match told {
            Ok(()) => tasks += 1,
            Err(why) => {
                let code = why.split(':').next().unwrap_or_default().to_owned();
                refused.entry(code).or_insert(Refused { lines: 0, first_line: number, why }).lines += 1;
            }
        }
    }
    // A stable sort: of tasks whose time comes at once, those that came first stay in front.
    taken.sort_by_key(|task| task.at);
    let mut forecast = Forecast::default();
    for together in taken.chunk_by(|one, next| one.at == next.at) {
        forecast.add_all(together.iter().map(|task| task.coming(first)).collect());
    }
    let mut batches = forecast.ended();
    calls::begin(routes, &mut batches, options.call_ms);
    // A stable sort: of calls that begin together that of the batch that ended first stays in front.
    batches.sort_by_key(|batch| batch.called_ms);
    Ok(Plan { tasks, repeated, refused, routes: of_routes(routes, &batches), cost: cost(&batches), batches })
}

fn of_routes(routes: &Routes, batches: &[Batch]) -> BTreeMap<String, OfRoute> {
    let mut of: BTreeMap<String, OfRoute> = BTreeMap::new();
    let mut targets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for batch in batches {
        let route = of.entry(batch.route.clone()).or_default();
        targets.entry(&batch.route).or_default().insert(batch.target.as_str());
        route.tasks += batch.tasks;
        route.superseded += batch.superseded;
        route.batches += 1;
        route.last_call_ms = route.last_call_ms.max(batch.called_ms);
        route.longest_wait_ms = route.longest_wait_ms.max(batch.called_ms.saturating_sub(batch.came_ms));
    }
    for (name, route) in &mut of {
        route.targets = targets.get(name.as_str()).map_or(0, BTreeSet::len);
        route.fill = (route.tasks - route.superseded) as f64 / route.batches as f64;
        route.ordered = routes.iter().any(|other| other.name.to_string() == *name && other.is_ordered());
    }
    of
}

fn cost(batches: &[Batch]) -> Cost {
    let of_batch = |batch: &Batch| match batch.is_express {
        true => EXPRESS * batch.tasks as f64,
        false => ELECTED.0 * batch.tasks as f64 + ELECTED.1,
    };
    let dollars = batches.iter().map(of_batch).sum::<f64>() / 1e6;
    let tasks: usize = batches.iter().map(|batch| batch.tasks).sum();
    Cost { dollars, dollars_per_million: if tasks == 0 { 0.0 } else { dollars * 1e6 / tasks as f64 } }
}

fn sheet(plan: &Plan, shown: usize) -> Sheet {
    let seconds = |ms: u64| format!("{:.3} s", ms as f64 / 1e3);
    let mut sheet = Sheet::default();
    let rows = plan.routes.iter().map(|(name, route)| {
        vec![
            name.as_str().into(),
            Cell::number(route.tasks as u64),
            Cell::number(route.targets as u64),
            Cell::number(route.batches as u64),
            format!("{:.1}", route.fill).into(),
            seconds(route.longest_wait_ms).into(),
            seconds(route.last_call_ms).into(),
        ]
    });
    let columns = &["route", "tasks", "Targets", "calls", "tasks a call", "longest wait", "last call"];
    sheet = sheet.with_table("routes", columns, rows.collect());
    let rows = plan.batches.iter().take(shown).map(|batch| {
        vec![
            seconds(batch.called_ms).into(),
            batch.target.as_str().into(),
            Cell::number(batch.tasks as u64),
            Cell::number(batch.bytes),
            seconds(batch.came_ms).into(),
            seconds(batch.ended_ms).into(),
            batch.why.in_words().into(),
        ]
    });
    let columns = &["call at", "Target", "tasks", "bytes", "first task at", "ends at", "because"];
    sheet = sheet.with_table("batches", columns, rows.collect());
    if plan.batches.len() > shown {
        let left = plan.batches.len() - shown;
        sheet = sheet.with_line(Cell::new(format!("and {left} more: --batches shows more, --json all"), Tone::Soft));
    }
    for (code, Refused { lines, first_line, why }) in &plan.refused {
        let text = format!("{lines} lines would be refused ({code}), the first is line {first_line}: {why}");
        sheet = sheet.with_line(Cell::new(text, Tone::Bad));
    }
    for (name, _) in plan.routes.iter().filter(|(_, route)| route.ordered) {
        let text = format!("route {name} is ordered: that its tasks wait for those before them is left out here");
        sheet = sheet.with_line(Cell::new(text, Tone::Wary));
    }
    for (name, OfRoute { superseded, .. }) in plan.routes.iter().filter(|(_, route)| route.superseded > 0) {
        sheet = sheet.with_line(format!("route {name}: {superseded} tasks end as superseded, in no call"));
    }
    let Cost { dollars, dollars_per_million } = plan.cost;
    sheet.with_line(format!("about ${dollars:.6} on AWS, ${dollars_per_million:.2} for a million such tasks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_for_their_time_and_for_their_window_and_are_together_then() {
        let yaml = "version: 1\nroutes:\n  - { name: a, target: t, downstream: pull, \
                    batch: { max_items: 2, close_at: '0 * * * *' } }\n";
        let tasks = r#"{"id": "1", "payload": {"t": "x"}}
            {"id": "2", "payload": {"t": "x"}, "not_before": "2026-11-25T21:00:01Z"}
            {"id": "3", "payload": {"t": "x"}}
            {"id": "4", "payload": {"t": "x"}}"#;
        let at = Timestamp::parse("2026-11-25T20:30:00Z").unwrap();
        let (file, routes) = ("tasks.ndjson".into(), "routes.yaml".into());
        let options = Args { file, routes, per_second: None, at: Some(at), call_ms: 200, batches: 20 };
        let plan = plan(&Routes::parse(yaml).unwrap(), tasks.as_bytes(), &options, at).unwrap();
        const UNTIL_NINE_MS: u64 = 30 * 60_000;
        let told: Vec<_> = plan.batches.iter().map(|batch| (batch.tasks, batch.began_ms, batch.ended_ms)).collect();
        let [nine, ten] = [UNTIL_NINE_MS, UNTIL_NINE_MS + 3_600_000];
        assert_eq!(told, [(2, nine, nine), (1, nine, nine + 1_000), (1, ten, ten + 1_000)]);
        assert!(plan.batches.iter().all(|batch| batch.came_ms == 0 && !batch.is_express));
        assert_eq!(plan.routes["a"].longest_wait_ms, ten + 1_000);
    }
}
