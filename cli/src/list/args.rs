//! The command line of `groupage list`. Its doc comments are what `--help` prints.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

/// What the examples teach.
const EXAMPLE: &str = "\
Example: hold back a night's mails and let them go by hundreds.
  groupage list put mails mails.jsonl
  groupage list show mails --peek 3
  groupage list release mails 100
  groupage list release mails --all
  groupage list discard mails --yes

A task also gets onto a list by its message: {\"id\": \"…\", \"payload\": {…}, \"list\": \"mails\"}";

/// Hold tasks back on a list, and release them when you say so.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put tasks on a list, in the order of the lines: one JSON object a line, {"id": "…", "payload": {…}}.
    ///
    /// The list is made if it is not there. A task without an id gets one from its content. Putting the same file again
    /// puts nothing, so repeat the command if it was interrupted. Bad lines are reported with their number, and the
    /// good ones are put all the same.
    Put {
        /// The list.
        name: String,
        /// The file, or - for standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Release the next tasks: they go on as if they were sent now, in the order in which they were put.
    ///
    /// Any number of callers may do so at once, and no task is released twice. If this process dies, sweep goes on with
    /// what it had taken. If fewer tasks wait, those are released.
    Release {
        /// The list.
        name: String,
        /// How many.
        #[arg(value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..), required_unless_present = "all")]
        count: Option<u64>,
        /// All that wait now.
        #[arg(long, conflicts_with = "count")]
        all: bool,
        /// Makes a repeat safe: the same call under the same key releases nothing more. Remembered for the stack's
        /// retention.
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Show how far a list is, what is under way, and what waits next.
    Show {
        /// The list.
        name: String,
        /// Show this many of the tasks that wait next.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100))]
        peek: Option<u64>,
    },
    /// Remove all tasks that wait now, for ever. The trackers' items that they carry fail.
    Discard {
        /// The list.
        name: String,
        /// Yes, for ever.
        #[arg(long)]
        yes: bool,
    },
    /// Close a list: nothing is put on it or released until it is opened again. What is under way goes on.
    Close {
        /// The list.
        name: String,
    },
    /// Open a new list, or a closed one again.
    Open {
        /// The list.
        name: String,
        /// Remove the list, with all that waits on it, when it was not used for this long, for example 30days. Without
        /// it tasks wait for ever.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        ttl: Option<Duration>,
    },
}
