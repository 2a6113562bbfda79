//! The command line. Its doc comments are what `--help` prints.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use groupage_core::domain::notice::NotificationQueue;

/// Many tasks, one call: group tasks into batches and send each batch as one call.
#[derive(Debug, Parser)]
#[command(name = "groupage", version, propagate_version = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Work on the deployed stack of this name, whose outputs CloudFormation knows. Without it, the GROUPAGE_*
    /// variables that `groupage local` prints say where tables and queues are.
    #[arg(long, global = true, value_name = "NAME", env = "GROUPAGE_STACK")]
    pub stack: Option<String>,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch many tasks become few calls: everything in this process, nothing to install, a few seconds.
    ///
    /// Parcels for trucks go onto the queue one by one. A truck loading API that is slow, takes few calls at once,
    /// fails some and refuses some parcels gets them in few, full calls. Ends with exit code 0 only if the API's own
    /// ledger agrees with every task's outcome.
    Demo(Demo),
    /// Run the whole stack on this machine, on a data folder, until it is stopped.
    ///
    /// Prints the environment lines with which this command and any AWS SDK use it. Tables are on disk and survive any
    /// end of the process; queues are in memory. After a crash, start it again: every registered task is driven on.
    /// Then repeat `groupage send`: it sends what was not registered yet.
    Local(Local),
    /// Run the steps and sweep in this process, on a stack that runs elsewhere, until it is stopped.
    ///
    /// Several may run at once, and each may die at any time: the others go on with what it had in hand. Beside
    /// `groupage local --no-steps` they are its workers. The first Ctrl-C or SIGTERM finishes what is in hand, a second
    /// drops it.
    Steps,
    /// Work on the batches of a route that says `downstream: pull`: run a command for each, until it is stopped.
    ///
    /// The command runs by `sh -c`. It gets the batch as JSON on standard input, as an HTTP downstream gets it:
    ///
    ///   {"batch": "…", "target": "…", "items": [{"id": "…", "payload": {…}}, …]}
    ///
    /// and in its environment GROUPAGE_BATCH (the idempotency key), GROUPAGE_TARGET, GROUPAGE_FENCE and
    /// GROUPAGE_ATTEMPT. What it prints says what became of the items. Nothing: all succeeded. Else one of these:
    ///
    ///   {"results": [{"id": "…", "status": "succeeded|failed|retry", "reason": "…"}, …]}
    ///
    ///   {"batchItemFailures": [{"itemIdentifier": "…"}, …]}
    ///
    /// If it fails (an exit code other than 0, no JSON, over 1 MiB, --timeout over), the batch is tried again by the
    /// route's retry policy. Any number of workers share a route. When one dies, another takes its batch over once its
    /// session has expired, after 5 s; so the command must bear being run again for the same batch.
    ///
    /// The first Ctrl-C or SIGTERM finishes the batch in hand; a second, or the end of --grace, gives it up to others.
    #[command(after_help = WORK_EXAMPLE)]
    Work(Work),
    /// Send tasks: one JSON object a line, {"id": "…", "payload": {…}}.
    ///
    /// A task without an id gets one from its content, so sending the same file again is safe: tasks that are settled
    /// are left alone, and the others are driven on. Bad lines are reported with their number, and the good ones are
    /// sent all the same.
    ///
    /// By itself it ends when everything is sent, long before everything is done. With --track it waits for that: a tracker
    /// counts the tasks, one item for each, and is complete when every one has succeeded or failed.
    ///
    /// The exit code is 0 if every line was sent, now or earlier, and with --track if every task succeeded.
    #[command(after_help = SEND_EXAMPLES)]
    Send(Send),
    /// Hold tasks back on a list, and release them when you say so.
    #[command(after_help = crate::list::args::EXAMPLE)]
    List(crate::list::args::ListOptions),
    /// Look at the tasks of one order key, and let them go on when one has failed.
    #[command(after_help = crate::lane::args::EXAMPLE)]
    Lane(crate::lane::args::LaneOptions),
    /// Feed an ordered file to a stream, event by event, and go on where it stood after any crash.
    ///
    /// Each line is a task: {"id": "…", "payload": {…}}; a task without an id gets one from its number in the file. The
    /// stream knows up to which line all are settled: its watermark. Feeding the same file again begins there. Lines after it
    /// that were fed before are recognised, and sent again only if they are not settled; a line that has changed since is
    /// refused. A line that is no task is rejected, counts as failed, and holds nobody up.
    ///
    /// When too many lines are unsettled (--window), it waits until some settle. Ctrl-C stops feeding and commits what is
    /// settled; a second drops everything.
    ///
    /// The exit code is 0 if every line was fed, now or earlier, and none was rejected or has failed.
    #[command(after_help = crate::feed::args::EXAMPLES)]
    Feed(crate::feed::args::Feed),
    /// Show a stream, or end it.
    Stream(crate::stream::StreamOptions),
    /// Check a routes file: syntax, fields, limits and expressions.
    Check(RoutesFile),
    /// Check a routes file and put it in force. Functions take it over within a minute.
    Push(RoutesFile),
    /// Show where a task, a batch, a tracker or a Target stands, who works, or how full the queues are.
    Status(StatusOptions),
    /// List what ended in the rejected and dead-letter queues, show why, and send it again.
    Redrive(Redrive),
    /// Print the JSON Schema of task messages or of the routes file.
    Schema(Schema),
    /// Print a completion script, for example: groupage completions bash > /etc/bash_completion.d/groupage
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

#[derive(Debug, clap::Args)]
pub struct Demo {
    /// How many parcels to send.
    #[arg(long, value_name = "NUMBER", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tasks: u32,
    /// For how many trucks.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trucks: u32,
    /// Chooses which calls are slow and which fail.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub seed: u64,
}

#[derive(Debug, clap::Args)]
pub struct Local {
    /// The data folder; made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "groupage-data")]
    pub data: PathBuf,
    /// Put this routes file in force first. Without it, the one pushed last stays in force.
    #[arg(long, value_name = "FILE")]
    pub routes: Option<PathBuf>,
    /// The loopback port of DynamoDB; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub dynamodb_port: u16,
    /// The loopback port of SQS; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 9324)]
    pub sqs_port: u16,
    /// The loopback port of the HTTP API; 0 for any free one.
    ///
    /// Over it, programs send tasks, count fan-outs with trackers, hold tasks on lists, feed streams, and ask where tasks and
    /// batches stand. Its address is among the lines printed, as GROUPAGE_API_URL; GET $GROUPAGE_API_URL/openapi.json describes every request. It asks
    /// for no credentials: only this machine can reach it.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub http_port: u16,
    /// Run tables, queues and the API only; `groupage steps` runs the steps, in as many processes as you like.
    #[arg(long)]
    pub no_steps: bool,
}

const WORK_EXAMPLE: &str = "\
Example, for a route `- { name: labels, target: printer, downstream: pull }`:
  groupage work --route labels --exec 'jq -r .items[].payload.text | lp -d \"$GROUPAGE_TARGET\" >&2'";

#[derive(Debug, clap::Args)]
pub struct Work {
    /// Whose batches.
    #[arg(long, value_name = "NAME")]
    pub route: String,
    /// What to run for each batch.
    #[arg(long, value_name = "COMMAND")]
    pub exec: String,
    /// How long the command may take for one batch before it is killed with all it started.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time)]
    pub timeout: Duration,
    /// How long the batch in hand may go on after the first signal. Without it, to its end.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub grace: Option<Duration>,
    /// Stop after so many batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub batches: Option<u64>,
}

/// A time that is not zero, and under a day: a batch is not settled before its command ends.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
    if allowed.contains(&time) { Ok(time) } else { Err("expected 1ms to 1day".to_owned()) }
}

const SEND_EXAMPLES: &str = "\
Examples:
  groupage send tasks.ndjson                        send, and leave the rest to the stack
  groupage send tasks.ndjson --track                wait until every task has succeeded or failed
  make-tasks | groupage send - --track=catalog-7    the same for a pipe, under a name of your own
  groupage status tracker catalog-7                 how far it is, asked from anywhere";

#[derive(Debug, clap::Args)]
pub struct Send {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Count the tasks with a tracker of this name, and wait until every one has succeeded or failed.
    ///
    /// The name is printed on standard error before anything is sent. After an interruption, send the same input under the
    /// same name: that goes on where it was, and counts nothing twice. Ctrl-C ends the waiting, not the tasks.
    ///
    /// Without a name, the tracker of a file is named after the file's content, so that sending the file again is enough.
    /// Standard input and pipes cannot be read twice, and get a new random name each time: note it, since a task that one
    /// tracker counts is refused under another. An input that was edited is another one: give it another name, or none.
    #[arg(long, value_name = "TRACKER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub track: Option<String>,
    /// Who gets a message, once, when every task has succeeded or failed: default (the stack's own notification queue),
    /// none, or the URL of an SQS queue that the stack's functions may send to.
    #[arg(long, value_name = "QUEUE", requires = "track", default_value = "none", value_parser = NotificationQueue::parse)]
    pub notify: NotificationQueue,
}

#[derive(Debug, clap::Args)]
pub struct RoutesFile {
    /// The routes file (YAML).
    #[arg(value_name = "FILE", default_value = "routes.yaml")]
    pub file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct StatusOptions {
    #[command(subcommand)]
    pub command: Option<StatusCommand>,
}

#[derive(Debug, Subcommand)]
pub enum StatusCommand {
    /// One task: its status, batch, and why it failed.
    Task {
        /// Its id.
        id: String,
    },
    /// One batch: its members, calls and outcome.
    Batch {
        /// Its id, which is the Idempotency-Key of its call.
        id: String,
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
        /// As stored: route:value, for example parcels:truck-7.
        target: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct Redrive {
    #[command(subcommand)]
    pub command: Option<RedriveCommand>,
}

#[derive(Debug, Subcommand)]
pub enum RedriveCommand {
    /// List the queues and how many messages each holds. This is what `redrive` alone does.
    List,
    /// Show messages and why they ended here. They are hidden from others while it runs.
    Show {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most.
        #[arg(long, value_name = "N", default_value_t = 10)]
        most: u64,
        /// Print the bodies too. Those of rejected messages hold payloads.
        #[arg(long)]
        body: bool,
    },
    /// Send messages again to the queue they came from.
    Send {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most; all that are there now if not given.
        #[arg(long, value_name = "N")]
        most: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
pub struct Schema {
    /// Which contract.
    pub contract: Contract,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contract {
    /// A task as senders write it.
    TaskMessage,
    /// The routes file.
    Routes,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
