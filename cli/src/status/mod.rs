//! `groupage status`: where a task, a batch, a tracker, a Target or the whole stack stands, and who works.

mod batch;
mod crowd;
pub mod gates;
mod sessions;
mod target;
mod task;
mod tracker;
mod watch;

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use groupage_aws::Connection;
use groupage_core::domain::{BatchId, Target, TaskId, TrackerId};

use crate::output::{Ending, Output};
use crate::stack::{self, Access};

/// Show where a task, a batch, a tracker or a Target stands, why calls wait, who works, or how full the queues are.
///
/// Alone it shows how full each queue is, then what waits and why. To see that it reads up to 100 read units of the
/// tables, however much waits. With --json only the queues are read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Look again after this number of seconds, until Ctrl-C. A terminal shows the latest look; a file or pipe gets all
    /// of them. With --json each look is one line.
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3_600)
    )]
    watch: Option<u64>,
}

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage status                                   how full each queue is; what waits, and why
  groupage status task parcel-4711                  one task, and what it waits for
  groupage status task parcel-4711 --wait           the same once it is settled
  groupage status --watch                           the same every 2 seconds
  groupage --json status --watch=10 routes          every 10 seconds a line of JSON";

#[derive(Debug, Subcommand)]
enum Command {
    /// One task: its status, batch, and why it failed.
    Task {
        /// Its id.
        id: String,
        /// Wait until it is settled, whatever becomes of it. A task that was sent just now need not be known yet.
        #[arg(long)]
        wait: bool,
        /// Wait for at most this long, then end with exit code 1.
        #[arg(
            long, value_name = "SECONDS", default_value_t = 60, requires = "wait",
            value_parser = clap::value_parser!(u64).range(1..=86_400)
        )]
        timeout: u64,
    },
    /// One batch: its members, calls and outcome.
    Batch {
        /// Its id, which is the Idempotency-Key of its call.
        id: String,
    },
    /// The routes, and Targets that are held back by hand: why calls wait, since when, and until when.
    ///
    /// The states are:
    ///
    ///   well: calls are made
    ///
    ///   held: a person holds them back, see `groupage resume`
    ///
    ///   away: the downstream does not answer; one call at a time finds out when it does
    ///
    ///   paused: the downstream asked to be left alone until then
    ///
    ///   in-trouble: calls failed, and none was answered since
    ///
    ///   draining: what waited goes on, slowly at first
    Routes {
        /// Show all Targets whose calls fail, too. This reads the lock table once from end to end: half a read unit for
        /// each 4 KB, so about 20 for 1,000 Targets that had calls in the last week.
        #[arg(long)]
        targets: bool,
    },
    /// The workers that have a session: who, until when, and what they have claimed.
    Sessions,
    /// One tracker, which counts a fan-out: its state, and how many of its items succeeded, failed or are missing.
    ///
    /// An item is missing until its task has succeeded or failed. The states are:
    ///
    ///   open: more items may be added
    ///
    ///   sealed: all are added, and some are missing
    ///
    ///   completed: none is missing; how many failed is another question
    ///
    ///   overdue: its deadline came first
    ///
    ///   abandoned: it was given up, or nothing happened for days
    Tracker {
        /// Its id: the name that `groupage send --track` prints, or that POST /trackers of the HTTP API was given.
        id: String,
    },
    /// One Target: who waits, who leads.
    Target {
        /// The route, a colon and what its `target` gives, for example parcels:truck-7.
        #[arg(value_parser = with_route)]
        target: String,
    },
}

/// A Target with its route.
fn with_route(text: &str) -> Result<String, &'static str> {
    let has_route = text.split_once(':').is_some_and(|(route, _)| !route.is_empty());
    if has_route { Ok(text.to_owned()) } else { Err("a Target is ROUTE:TARGET, such as parcels:truck-7") }
}

/// Prints a status, once or again and again.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(stack).await?;
    let access = Access::to(&connection);
    let look = async |output: Output| look(options.command.as_ref(), &connection, &access, &output).await;
    match options.watch {
        None => look(*output).await?,
        Some(seconds) => watch::run(Duration::from_secs(seconds), *output, look).await?,
    }
    Ok(Ending::Well)
}

async fn look(command: Option<&Command>, connection: &Connection, access: &Access, output: &Output) -> Result<()> {
    let command = match command {
        None => return crowd::show(connection, access, output).await,
        Some(command) => command,
    };
    let routes = stack::routes(connection).await?;
    let routes = routes.as_ref();
    match command {
        Command::Task { id, wait, timeout } => {
            let wait = wait.then(|| Duration::from_secs(*timeout));
            task::show(access, routes, &TaskId::new(id), wait, output).await
        }
        Command::Batch { id } => batch::show(access, routes, &BatchId::new(id), output).await,
        Command::Routes { targets } => gates::show(&access.store, routes, *targets, output).await,
        Command::Sessions => sessions::show(&access.store, routes, output).await,
        Command::Tracker { id } => tracker::show(access, &TrackerId::new(id), output).await,
        Command::Target { target: id } => target::show(access, routes, &Target::new(id), output).await,
    }
}
