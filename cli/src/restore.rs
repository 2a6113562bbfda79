//! `groupage restore`: all tables as they were at one moment, beside those that are there, and what goes on from them.

mod pauses;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use futures::future::try_join_all;
use groupage_aws::Connection;
use groupage_aws::backups::{Backups, Progress, Source, common_window};
use groupage_core::domain::Timestamp;
use groupage_core::steps::revive::{self, Leaders};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failed::moment;
use crate::output::{Ending, Output, after_step, grouped, summary, time};
use crate::restore::pauses::Paused;
use crate::stack;

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage restore --plan                               what can be restored, and the commands in their order
  groupage restore --plan --at 2026-12-31T23:59:00Z     the same for a moment
  groupage restore --run --at 2026-12-31T23:59:00Z      restore the tables beside those that are there
  groupage restore --revive                             drive on what the tables of the stack say

The guide is docs/guides/restoring.md.";

/// Restore all tables to one moment, and drive on what was open then.
///
/// The tables in use are read only. Each is restored into a new table, whose name has the suffix. Until the stack is
/// deployed with that suffix, nothing uses the new ones. Repeating a command is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// The moment: a time, or how long ago, such as 2h. DynamoDB restores to a full second, up to about five minutes
    /// ago.
    /// --plan takes the latest one that all tables have if it is not given.
    #[arg(long, value_name = "TIME", value_parser = moment, required_if_eq("run", "true"), conflicts_with = "revive")]
    at: Option<Timestamp>,
    /// What the new tables' names end with.
    #[arg(long, value_name = "SUFFIX", default_value = "-restored", value_parser = suffix, conflicts_with = "revive")]
    suffix: String,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Show what can be restored and to which moments, and print the commands in their order. Changes nothing.
    #[arg(long)]
    plan: bool,
    /// Restore each table into a new one, wait for all of them, and give them time to live, backups and protection as
    /// the old ones have. On AWS this takes minutes to hours.
    #[arg(long)]
    run: bool,
    /// Send a message for everything that is open in the tables that the stack uses now. Each leader is replaced, so
    /// that no new batch has the id of one that was called after that moment. Run it while no function runs.
    #[arg(long)]
    revive: bool,
}

/// How often DynamoDB is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(2);

fn suffix(text: &str) -> Result<String, &'static str> {
    let is_one = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=40).contains(&text.len()) && text.chars().all(is_one) {
        Ok(text.to_owned())
    } else {
        Err("must have 1 to 40 characters of A-Z, a-z, 0-9, `-`, `_` and `.`")
    }
}

/// One table's restore.
#[derive(Debug, Serialize)]
struct Table {
    from: String,
    to: String,
    items: u64,
    bytes: u64,
}

/// What is to be restored, or was.
#[derive(Debug, Serialize)]
struct Report {
    at: String,
    /// The moments to which all tables can be restored.
    earliest: String,
    latest: String,
    tables: Vec<Table>,
    /// Those that were made since, which the new tables do not have; `None` if they cannot be read.
    pauses_not_restored: Option<Vec<Paused>>,
    /// What DynamoDB took, of a restore that was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    /// What is to be done next, in this order.
    next: Vec<String>,
}

/// Plans, restores, or drives on.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    if options.what.revive {
        return drive_on(&stack::open(name).await?, *output).await;
    }
    let (connection, used) = stack::open_with_suffix(name).await?;
    if options.suffix == used {
        bail!("the stack's tables end with `{used}` already: choose another --suffix");
    }
    let backups = connection.backups();
    let sources = try_join_all(connection.tables.names().map(|table| backups.source(table))).await?;
    let (earliest, latest) = common_window(&sources)
        .map_err(|table| anyhow!("table {table} has no point-in-time recovery: there is nothing to restore it from"))?;
    let at = options.at.unwrap_or(latest);
    let tables: Vec<Table> = sources.into_iter().map(|source| table(source, &used, &options.suffix)).collect();
    if options.what.plan && !(earliest..=latest).contains(&at) {
        bail!("all tables can be restored to moments from {} to {}, not to {}", time(earliest), time(latest), time(at));
    }
    let mut seconds = None;
    if options.what.run {
        let began = Instant::now();
        restore(&backups, &tables, at).await?;
        seconds = Some(began.elapsed().as_secs());
    }
    // What spoilt the tables may have spoilt these, too.
    let tell =
        |error| output.warning(&format!("pauses made since cannot be read: pause again what must wait ({error:#})"));
    let pauses_not_restored = pauses::made_since(&connection, at).await.map_err(tell).ok();
    let not_restored = pauses_not_restored.as_deref().unwrap_or_default();
    let next = next_steps(name, &options.suffix, at, options.what.run, not_restored);
    let (at, earliest, latest) = (time(at), time(earliest), time(latest));
    let report = Report { at, earliest, latest, tables, pauses_not_restored, seconds, next };
    output.result(&report, || text(&report));
    Ok(Ending::Well)
}

fn table(source: Source, used: &str, suffix: &str) -> Table {
    let Source { table, items, bytes, .. } = source;
    let to = format!("{}{suffix}", table.strip_suffix(used).unwrap_or(&table));
    Table { from: table, to, items, bytes }
}

/// Begins every table's restore that is not begun, and returns when all are done.
async fn restore(backups: &Backups, tables: &[Table], at: Timestamp) -> Result<()> {
    for Table { from, to, .. } in tables {
        if backups.progress(from, to).await? == Progress::Absent {
            backups.restore(from, to, at).await?;
        }
    }
    let bar = ProgressBar::new(tables.len() as u64).with_message("restoring");
    for Table { from, to, .. } in tables {
        loop {
            match backups.progress(from, to).await? {
                Progress::Restored(Some(restored)) if restored.as_secs() != at.as_secs() => {
                    bail!("{to} is there, restored to {}: name that moment, or another --suffix", time(restored));
                }
                Progress::Restored(_) => break,
                Progress::Foreign => bail!("{to} is there, and was not restored from {from}: choose another --suffix"),
                Progress::Absent | Progress::UnderWay => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
        backups.equip(from, to).await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The commands that follow, in their order.
fn next_steps(
    name: Option<&str>,
    suffix: &str,
    at: Timestamp,
    is_restored: bool,
    not_restored: &[Paused],
) -> Vec<String> {
    let of = name.map(|name| format!(" --stack {name}")).unwrap_or_default();
    let deploy = |stopped: &str| format!("sam deploy --parameter-overrides Stopped={stopped} TableSuffix={suffix}");
    let mut next = Vec::new();
    if !is_restored {
        next.push("sam deploy --parameter-overrides Stopped=true".to_owned());
        next.push(format!("groupage restore --run --at {} --suffix={suffix}{of}", time(at)));
    }
    next.extend([deploy("true"), format!("groupage restore --revive{of}")]);
    next.extend(not_restored.iter().map(|paused| paused.command(&of)));
    next.extend([deploy("false"), format!("send again what was sent after {}", time(at))]);
    next
}

fn text(report: &Report) -> String {
    let row =
        |table: &Table| (table.to.clone(), format!("{} items, {} bytes", grouped(table.items), grouped(table.bytes)));
    let rows: Vec<_> = report.tables.iter().map(row).collect();
    let tables = summary(rows.iter().map(|(to, size)| (to.as_str(), size.clone())));
    let head = match report.seconds {
        None => format!("All tables can be restored to moments from {} to {}.", report.earliest, report.latest),
        Some(seconds) => format!("All tables are restored, after {seconds} s."),
    };
    let steps = report.next.iter().enumerate().map(|(n, step)| format!("\n  {}. {step}", n + 1));
    let lost = pauses::listed(
        "These pauses were made since, and the new tables do not have them:",
        report.pauses_not_restored.as_deref().unwrap_or_default(),
    );
    format!(
        "{head}\n\nAs of {}:\n{tables}{lost}\n\nNext, each when the one before is done:{}",
        report.at,
        steps.collect::<String>()
    )
}

/// What was driven on.
#[derive(Debug, Serialize)]
struct Revived {
    leaders: usize,
    waiting_tasks: usize,
    batches: usize,
    /// Tasks that may be called once more than their downstream knows: those that wait, and those in batches without an
    /// outcome.
    may_be_called_again: usize,
    /// Tasks whose batch has an outcome, and which only get their status.
    outcome_recorded: usize,
    tasks_without_route: usize,
    /// Those of the moment, which hold again.
    pauses: Vec<Paused>,
}

async fn drive_on(connection: &Connection, output: Output) -> Result<Ending> {
    let steps = stack::remote_steps(connection)?;
    let routes = steps.routes.current().await?;
    let pauses = pauses::all(connection).await?;
    let report = revive::revive(&steps.store, &steps.queues, &steps.env, &routes, Leaders::AreReplaced).await;
    let report = report.map_err(|error| after_step(error.into(), ": repeat the command"))?;
    let revived = Revived {
        leaders: report.leaders,
        waiting_tasks: report.waiting,
        batches: report.batches,
        may_be_called_again: report.waiting + report.batched,
        outcome_recorded: report.recorded,
        tasks_without_route: report.stranded,
        pauses,
    };
    output.result(&revived, || {
        let again = "These pauses hold again; `groupage resume` ends those that are over:";
        let counted = summary([
            ("leaders replaced", grouped(revived.leaders as u64)),
            ("tasks that wait", grouped(revived.waiting_tasks as u64)),
            ("batches", grouped(revived.batches as u64)),
            ("tasks that may be called again", grouped(revived.may_be_called_again as u64)),
            ("tasks whose outcome is recorded", grouped(revived.outcome_recorded as u64)),
            ("tasks without a route", grouped(revived.tasks_without_route as u64)),
        ]);
        counted + &pauses::listed(again, &revived.pauses)
    });
    Ok(if revived.tasks_without_route == 0 { Ending::Well } else { Ending::Badly })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_restored_once_gets_another_suffix_in_place_of_the_first() {
        let source = || Source { table: "s-TaskTable-A-old".to_owned(), items: 1, bytes: 2, window: None };
        assert_eq!(table(source(), "-old", "-new").to, "s-TaskTable-A-new");
        assert_eq!(table(source(), "", "-new").to, "s-TaskTable-A-old-new");
    }

    #[test]
    fn a_suffix_is_part_of_a_tables_name() {
        assert_eq!(suffix("-restored").as_deref(), Ok("-restored"));
        for wrong in ["", "a b", "ä", "/x", &"x".repeat(41)] {
            assert!(suffix(wrong).is_err(), "{wrong}");
        }
    }
}
