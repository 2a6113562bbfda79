//! `groupage lane`: tasks of one order key, and what stopped them.

mod args;

use anyhow::{Error, Result, anyhow, bail};
use groupage_aws::{Connection, Dynamo, Sqs, System};
use groupage_core::domain::Timestamp;
use groupage_core::domain::id::{LaneId, RouteName, TaskId, Turn};
use groupage_core::domain::lane::{Lane, State, missing_since};
use groupage_core::ports::{Env, Lanes};
use groupage_core::steps::lane::{Ordering, Resumed, Shown, Skipped};
use serde::Serialize;

use crate::output::{Ending, Output, after_step};
use crate::sheet::{Cell, Moment, Sheet, Tone};
use crate::stack::{self, Access};
pub use args::Args;
use args::Command;

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct LaneStatus {
    route: RouteName,
    key: String,
    /// free, taken, held or failing.
    state: &'static str,
    /// Who has the turn.
    task: Option<TaskId>,
    failed: Option<TaskId>,
    /// Whose turn it is; of a free lane, the number that is waited for.
    turn: Turn,
    active_at: Moment,
    waiting: Vec<Waiting>,
    more_wait: bool,
}

#[derive(Serialize)]
struct Waiting {
    turn: Turn,
    task: TaskId,
}

#[derive(Serialize)]
struct Stopped {
    route: RouteName,
    keys: Vec<String>,
}

/// Does something with an order key.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    act(options, name, output).await.map_err(|error| after_step(error, ": repeat the command"))
}

async fn act(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let (Command::Show { route, .. }
    | Command::Stopped { route, .. }
    | Command::Resume { route, .. }
    | Command::Skip { route, .. }) = &options.command;
    let route = RouteName::parse(route).map_err(Error::msg)?;
    let connection = stack::open(name).await?;
    let access = Access::to(&connection);
    let ordering = access.ordering();
    match &options.command {
        Command::Show { key, limit, .. } => {
            let shown = show(&ordering, &route, key, *limit, output).await;
            if shown.is_err() {
                explain(&connection, &route).await?;
            }
            shown
        }
        Command::Stopped { limit, .. } => {
            let (since, limit) = (missing_since(System.now()), usize::try_from(*limit).unwrap_or(usize::MAX));
            let lanes = access.store.stopped(&route, since, limit).await?;
            if lanes.is_empty() {
                explain(&connection, &route).await?;
            }
            let stopped = Stopped { route, keys: lanes.into_iter().map(|lane| lane.key().to_owned()).collect() };
            output.result(&stopped, || match stopped.keys.as_slice() {
                [] => "no order key stands still".to_owned(),
                keys => keys.join("\n"),
            });
            Ok(Ending::Well)
        }
        Command::Resume { key, .. } => {
            let routes = stack::remote_steps(&connection)?.routes.current().await?;
            let notify = routes.get(&route).map(|route| route.notify.clone()).unwrap_or_default();
            match ordering.resume(&LaneId::of(&route, key), &notify).await? {
                Resumed::Yes { .. } | Resumed::NotStopped(_) => show(&ordering, &route, key, 10, output).await,
                Resumed::Unknown => {
                    explain(&connection, &route).await?;
                    Err(unknown(&route, key))
                }
            }
        }
        Command::Skip { key, number, .. } => {
            let skipped = ordering.skip(&LaneId::of(&route, key), Turn(*number)).await?;
            if matches!(skipped, Skipped::NotMissing(_)) {
                output.warning(&format!("order key `{key}` does not wait for number {number}: nothing was given up"));
            }
            show(&ordering, &route, key, 10, output).await
        }
    }
}

async fn show(
    ordering: &Ordering<'_, Dynamo, Sqs, System>,
    route: &RouteName,
    key: &str,
    limit: u64,
    output: &Output,
) -> Result<Ending> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let shown = ordering.show(&LaneId::of(route, key), limit).await?;
    let status = LaneStatus::of(shown.ok_or_else(|| unknown(route, key))?);
    output.sheet(&status, || status.sheet(System.now()));
    Ok(Ending::Well)
}

/// Fails if the route cannot have order keys: there is no such route, or it is not ordered.
async fn explain(connection: &Connection, route: &RouteName) -> Result<()> {
    let routes = stack::remote_steps(connection)?.routes.current().await?;
    match routes.get(route) {
        None => bail!("no route is named `{route}`"),
        Some(found) if !found.is_ordered() => bail!("route `{route}` is not ordered: it has no `ordered_by`"),
        Some(_) => Ok(()),
    }
}

fn unknown(route: &RouteName, key: &str) -> Error {
    anyhow!("route {route} knows no order key `{key}`: no task of it was accepted, or all were settled long ago")
}

impl LaneStatus {
    fn of(Shown { lane, waiting, more }: Shown) -> Self {
        let Lane { id, state, head, active_at, .. } = lane;
        let (word, task, failed) = match state {
            State::Free => ("free", None, None),
            State::Taken(task) => ("taken", Some(task), None),
            State::Held(failed) => ("held", None, Some(failed)),
            State::Failing(failed) => ("failing", None, Some(failed)),
        };
        let waiting = waiting.into_iter().map(|queued| Waiting { turn: queued.turn, task: queued.candidate.id });
        Self {
            route: id.route(),
            key: id.key().to_owned(),
            state: word,
            task,
            failed,
            turn: head,
            active_at: Moment(active_at),
            waiting: waiting.collect(),
            more_wait: more,
        }
    }

    fn sheet(&self, now: Timestamp) -> Sheet {
        let (tone, says) = match self.state {
            "free" if !self.waiting.is_empty() => (Tone::Bad, "free: the number that it waits for has not come"),
            "free" => (Tone::Good, "free: no task has the turn"),
            "taken" => (Tone::Wary, "taken: a task has the turn"),
            "held" => (Tone::Bad, "held: a task failed, and those behind it wait for `groupage lane resume`"),
            _ => (Tone::Bad, "failing: a task failed, and those behind it fail"),
        };
        let mut rows = vec![
            ("route", self.route.as_str().into()),
            ("order key", self.key.as_str().into()),
            ("state", Cell::new(says, tone)),
            (if self.state == "free" { "waits for number" } else { "turn" }, self.turn.to_string().into()),
            ("last used", self.active_at.told(now).into()),
        ];
        rows.extend(self.task.iter().map(|task| ("has the turn", task.as_str().into())));
        rows.extend(self.failed.iter().map(|task| ("failed", task.as_str().into())));
        let behind =
            self.waiting.iter().map(|Waiting { turn, task }| vec![turn.to_string().into(), task.as_str().into()]);
        let sheet = Sheet::facts(rows).with_table("Behind it", &["turn", "task"], behind.collect());
        if self.more_wait { sheet.with_line("…") } else { sheet }
    }
}
