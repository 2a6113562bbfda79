//! The command line of `groupage lane`. Its doc comments are what `--help` prints.

use clap::Subcommand;

/// What the examples teach.
const EXAMPLE: &str = "\
Example: a payment failed, and those of the same account wait behind it.
  groupage lane stopped payments
  groupage lane show payments DE02120300000000202051
  groupage lane resume payments DE02120300000000202051";

/// Look at the tasks of one order key, and let them go on when one has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show an order key: the task that has the turn, or what stopped it, and the tasks that wait.
    Show {
        /// The route.
        route: String,
        /// The order key, as the route's `ordered_by` gives it.
        key: String,
        /// Show this many of the tasks that wait next.
        #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
        limit: u64,
    },
    /// List the order keys of a route that stand still, the longest first: those that a failed task stopped, then those
    /// that have waited for a missing number for a minute.
    Stopped {
        /// The route.
        route: String,
        /// List this many at most.
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
        limit: u64,
    },
    /// Let an order key go on that a failed task stopped: the next task has its turn. The failed one stays failed.
    ///
    /// Repeating it is safe. Send the failed task's replacement as another task. It comes last.
    Resume {
        /// The route.
        route: String,
        /// The order key, as the route's `ordered_by` gives it.
        key: String,
    },
    /// Give up a number that never comes: the first task that waits has the turn.
    ///
    /// All numbers before that task's are given up, too. A task that brings one of them later is rejected. Repeating it
    /// is safe.
    Skip {
        /// The route.
        route: String,
        /// The order key, as the route's `ordered_by` gives it.
        key: String,
        /// The number that `lane show` says the key waits for.
        number: u64,
    },
}
