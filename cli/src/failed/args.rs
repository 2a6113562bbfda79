//! The command line of `groupage failed`. Its doc comments are what `--help` prints.

use std::time::SystemTime;

use clap::Subcommand;
use groupage_core::domain::failed;
use groupage_core::domain::{Reason, RouteName, Target, TaskId, Timestamp};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage failed list --route parcels --from 2h                what failed in the last two hours
  groupage failed show parcel-4711                              why, and what the downstream said
  groupage failed retry parcel-4711                             run it again
  groupage failed retry --all --reason http_422 --dry-run       what would be run again
  groupage failed retry --all --reason http_422 --rate 50       at most 50 tasks a second";

/// Find failed tasks, run them again, or take them off the list.
///
/// A failed task is listed for 14 days, or as its route's `keep_failed_days` says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List failed tasks, those first that failed first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// List this many at most.
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Show one failed task: when and why it failed, and the beginning of what the downstream answered.
    Show {
        /// Its id.
        #[arg(value_parser = task_id)]
        id: TaskId,
    },
    /// Run failed tasks again: the same task, under the same id, with its attempts at zero.
    ///
    /// Repeating it is safe: a task that does not stand as failed is left alone. An item of a tracker keeps its first
    /// outcome. A task of an order key runs again if its failure still holds the key, and the tasks behind it wait on.
    /// Once other tasks of the key have had their turn, it is refused.
    Retry(Chosen),
    /// Take failed tasks off the list: they need not run. Their records stay, and so their ids stay used.
    Drop(Chosen),
}

/// Tasks that something is done with.
#[derive(Debug, clap::Args)]
pub struct Chosen {
    /// Their ids.
    #[arg(value_name = "ID", value_parser = task_id, required_unless_present = "all", conflicts_with_all = ["all", "route", "target", "reason", "from", "until"])]
    pub ids: Vec<TaskId>,
    /// All failed tasks that the options name. Those that fail meanwhile are left out.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: Filter,
    /// The most tasks a second.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: Option<u64>,
    /// Only list the tasks.
    #[arg(long)]
    pub dry_run: bool,
}

/// Which failed tasks.
#[derive(Clone, Debug, clap::Args)]
pub struct Filter {
    /// Only those of this route.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| RouteName::parse(name))]
    pub route: Option<RouteName>,
    /// Only those of this Target, as route:value.
    #[arg(long, value_name = "TARGET", value_parser = target, conflicts_with = "route")]
    pub target: Option<Target>,
    /// Only those that failed for this reason, such as http_422.
    #[arg(long, value_name = "REASON", value_parser = |reason: &str| Ok::<_, String>(Reason::new(reason)))]
    pub reason: Option<Reason>,
    /// Only those that failed then or later: a time like 2026-12-31T23:59:59Z, or how long ago, like 2h.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub from: Option<Timestamp>,
    /// Only those that failed before: a time, or how long ago.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Timestamp>,
}

impl Filter {
    /// The filter itself.
    pub fn wanted(&self) -> failed::Filter {
        let Self { route, target, reason, from, until } = self.clone();
        failed::Filter { route, target, reason, from, until }
    }
}

fn task_id(text: &str) -> Result<TaskId, &'static str> {
    TaskId::parse(text)
}

/// Reads a Target as people name it.
pub fn target(text: &str) -> Result<Target, &'static str> {
    let is_target =
        text.split_once(':').is_some_and(|(route, value)| RouteName::parse(route).is_ok() && !value.is_empty());
    if is_target { Ok(Target::new(text)) } else { Err("a Target is ROUTE:VALUE, such as parcels:truck-7") }
}

/// Reads a moment as people name it.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    let moment = match humantime::parse_duration(text) {
        Ok(ago) => SystemTime::now().checked_sub(ago),
        Err(_) => humantime::parse_rfc3339_weak(text).ok(),
    };
    let since = moment.and_then(|moment| moment.duration_since(SystemTime::UNIX_EPOCH).ok());
    let ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    ms.map(Timestamp).ok_or_else(|| "must be a time like 2026-12-31T23:59:59Z, or how long ago, like 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_or_how_long_ago() {
        assert_eq!(moment("1970-01-01T00:00:05Z"), Ok(Timestamp(5_000)));
        assert_eq!(moment("1970-01-01 00:00:05"), Ok(Timestamp(5_000)));
        let now = moment("0s").unwrap();
        assert!(now.since(moment("2h").unwrap()) >= 7_200_000);
        for wrong in ["", "yesterday", "1900-01-01T00:00:00Z", "2h3"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_says_its_route() {
        assert_eq!(target("parcels:truck:7").unwrap().route().as_str(), "parcels");
        assert!(target("truck-7").is_err() && target("parcels:").is_err() && target("Parcels:x").is_err());
    }
}
