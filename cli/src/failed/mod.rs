//! `groupage failed`: failed tasks are found, run again, or taken off the list.

mod args;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use groupage_aws::System;
use groupage_core::domain::{Failed, TaskId, Timestamp};
use groupage_core::ports::Env;
use groupage_core::routes::Routes;
use groupage_core::steps::failed::{Each, Search};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::done::Done;
use crate::output::{self, Ending, Output, after_step, grouped, style};
use crate::sheet::{Cell, Moment, Sheet, Tone};
use crate::stack::{self, Access};
pub use args::{Args, moment, target};
use args::{Chosen, Command};

/// This many tasks are done at once: as many as one read of the task table looks up.
const AT_ONCE: usize = 100;

/// A failed task, for people and programs.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
struct Shown {
    id: TaskId,
    failed_at: Moment,
    #[serde(skip_serializing_if = "String::is_empty")]
    target: String,
    reason: String,
    attempts: u32,
    /// What the downstream answered: its status.
    answer_status: Option<u16>,
    /// The beginning of what it said.
    answer: Option<String>,
}

impl From<Failed> for Shown {
    fn from(Failed { filed, target, reason, attempts, answer }: Failed) -> Self {
        let answer_status = answer.as_ref().map(|answer| answer.status);
        let answer = answer.map(|answer| answer.text).filter(|text| !text.is_empty());
        let (target, reason) = (target.as_str().to_owned(), reason.to_string());
        Self { id: filed.id, failed_at: Moment(filed.at), target, reason, attempts, answer_status, answer }
    }
}

impl Shown {
    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.id.as_str().into(),
            self.target.as_str().into(),
            Cell::new(&self.reason, Tone::Bad),
            self.answer_status.map(|status| status.to_string()).unwrap_or_default().into(),
            Cell::number(self.attempts.into()),
            self.failed_at.told(now).into(),
        ]
    }

    fn sheet(&self, now: Timestamp) -> Sheet {
        let mut rows = vec![
            ("task", self.id.as_str().into()),
            ("failed", self.failed_at.told(now).into()),
            ("target", self.target.as_str().into()),
            ("reason", Cell::new(&self.reason, Tone::Bad)),
            ("calls", grouped(self.attempts.into()).into()),
        ];
        rows.extend(self.answer_status.map(|status| ("answered", status.to_string().into())));
        rows.extend(self.answer.as_ref().map(|said| ("and said", said.as_str().into())));
        Sheet::facts(rows)
    }
}

/// Prints some of them: for programs each on a line of its own.
fn print(some: &[Shown], output: Output) {
    if output.is_json() {
        some.iter().for_each(|one| output.line(one, String::new));
    } else if !some.is_empty() {
        let columns = &["task", "target", "reason", "answered", "calls", "failed"];
        let now = System.now();
        output.sheet(&(), || Sheet::table("", columns, some.iter().map(|one| one.row(now)).collect()));
    }
}

/// What is done with tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Retry,
    Drop,
}

/// Looks for failed tasks, or does something with them.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    act(options, name, output).await.map_err(|error| after_step(error, ": repeat the command"))
}

async fn act(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(name).await?;
    let access = Access::to(&connection);
    let routes = stack::remote_steps(&connection)?.routes.current().await?;
    match &options.command {
        Command::List { filter, limit } => {
            let mut search = Search::new(&routes, &filter.wanted(), System.now())?;
            let found = list(&access, &mut search, usize::try_from(*limit).unwrap_or(usize::MAX), *output).await?;
            if found.is_empty() && !output.is_json() {
                output.result(&(), || "no failed task is listed".to_owned());
            }
            if !search.is_over() {
                let _ = writeln!(io::stderr(), "there may be more: say --limit, or more options");
            }
            Ok(Ending::Well)
        }
        Command::Show { id } => match access.failing().show(id).await? {
            Ok(failed) => {
                let shown = Shown::from(failed);
                output.sheet(&shown, || shown.sheet(System.now()));
                Ok(Ending::Well)
            }
            Err(refused) => Err(anyhow!("{id}: {refused}")),
        },
        Command::Retry(chosen) => Doing { act: Act::Retry, access, routes, output: *output }.run(chosen).await,
        Command::Drop(chosen) => Doing { act: Act::Drop, access, routes, output: *output }.run(chosen).await,
    }
}

/// Prints what is found, up to `limit`.
async fn list(access: &Access, search: &mut Search, limit: usize, output: Output) -> Result<Vec<TaskId>> {
    let mut listed = Vec::new();
    while let Some(page) = search.next(&access.failing(), AT_ONCE.min(limit - listed.len())).await? {
        listed.extend(page.iter().map(|failed| failed.filed.id.clone()));
        print(&page.into_iter().map(Shown::from).collect::<Vec<_>>(), output);
        if listed.len() >= limit || !output::is_read() {
            break;
        }
    }
    Ok(listed)
}

/// Something that is done with tasks.
struct Doing {
    act: Act,
    access: Access,
    routes: Arc<Routes>,
    output: Output,
}

impl Doing {
    async fn run(&self, chosen: &Chosen) -> Result<Ending> {
        if chosen.dry_run {
            return self.only_list(chosen).await;
        }
        let (began, bar) = (Instant::now(), bar());
        let mut report = Done::default();
        if chosen.all {
            let mut search = Search::new(&self.routes, &chosen.filter.wanted(), System.now())?;
            while let Some(page) = search.next(&self.access.failing(), at_once(chosen.rate)).await? {
                let ids: Vec<TaskId> = page.into_iter().map(|failed| failed.filed.id).collect();
                self.some(&ids, chosen.rate, &mut report, &bar).await?;
            }
        } else {
            for ids in chosen.ids.chunks(at_once(chosen.rate)) {
                self.some(ids, chosen.rate, &mut report, &bar).await?;
            }
        }
        bar.finish_and_clear();
        report.seconds = Some(began.elapsed().as_secs_f64());
        let done = match self.act {
            Act::Retry => "run again",
            Act::Drop => "taken off the list",
        };
        Ok(report.print(["failed tasks", done], self.output))
    }

    async fn only_list(&self, chosen: &Chosen) -> Result<Ending> {
        if chosen.all {
            let mut search = Search::new(&self.routes, &chosen.filter.wanted(), System.now())?;
            list(&self.access, &mut search, usize::MAX, self.output).await?;
            return Ok(Ending::Well);
        }
        let (mut ending, mut found) = (Ending::Well, Vec::new());
        for id in &chosen.ids {
            match self.access.failing().show(id).await? {
                Ok(failed) => found.push(Shown::from(failed)),
                Err(refused) => {
                    ending = Ending::Badly;
                    let _ = writeln!(io::stderr(), "{}", output::on_one_line(&format!("{id}: {refused}")));
                }
            }
        }
        print(&found, self.output);
        Ok(ending)
    }

    /// Does some at once, and then waits for as long as the rate asks for.
    async fn some(&self, ids: &[TaskId], rate: Option<u64>, report: &mut Done, bar: &ProgressBar) -> Result<()> {
        let began = Instant::now();
        let failing = self.access.failing();
        let each: Each = match self.act {
            Act::Retry => failing.retry(&self.routes, ids).await?,
            Act::Drop => failing.unfile(ids).await,
        };
        report.add(each, self.output);
        bar.set_position(report.tasks);
        if let Some(rate) = rate {
            let least = Duration::from_secs_f64(ids.len() as f64 / rate as f64);
            tokio::time::sleep(least.saturating_sub(began.elapsed())).await;
        }
        Ok(())
    }
}

fn at_once(rate: Option<u64>) -> usize {
    rate.and_then(|rate| usize::try_from(rate).ok()).unwrap_or(AT_ONCE).clamp(1, AT_ONCE)
}

/// On standard error, and only if that is a terminal.
fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new_spinner().with_style(style("{spinner} {pos} tasks  {per_sec}"))
}
