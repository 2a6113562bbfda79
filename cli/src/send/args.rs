//! The command line of `groupage send`. Its doc comments are what `--help` prints.

use std::path::PathBuf;
use std::time::SystemTime;

use groupage_core::domain::notice::NotificationQueue;
use groupage_core::domain::{Timestamp, TraceParent};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage send tasks.ndjson                        send, and leave the rest to the stack
  groupage send tasks.ndjson --track                wait until every task has succeeded or failed
  make-tasks | groupage send - --track=catalog-7    the same for a pipe, under a name of your own
  groupage status tracker catalog-7                 how far it is, asked from anywhere";

/// Send tasks: one JSON object a line, {"id": "…", "payload": {…}}.
///
/// A task without an id gets one from its content. So sending the same file again is safe: settled tasks are left
/// alone, and the others are driven on. Bad lines are reported with their number, and the good ones are sent all the
/// same.
///
/// The command ends when everything is sent, long before everything is done. With --track it waits until every task has
/// succeeded or failed. A tracker counts them then, one item for each.
///
/// Ctrl-C ends it with what is in hand, and its counts are printed. A second Ctrl-C drops what is in hand.
///
/// The exit code is 0 if every line was sent, now or earlier, and with --track if every task succeeded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Count the tasks with a tracker of this name, and wait until every one has succeeded or failed.
    ///
    /// The name is printed on standard error before anything is sent. After an interruption, send the same input under
    /// the same name: that goes on where it was, and counts nothing twice. Ctrl-C ends the waiting, not the tasks.
    ///
    /// Without a name, the tracker of a file is named after the file's content, so that sending the file again is
    /// enough. Standard input and pipes cannot be read twice, and get a new random name each time: note it, since a
    /// task that one tracker counts is refused under another. An input that was edited is another one: give it another
    /// name, or none.
    #[arg(long, value_name = "TRACKER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub track: Option<String>,
    /// The queue that gets a message, once, when every task has succeeded or failed: default (the stack's own queue),
    /// none, or the URL of an SQS queue that the stack's functions may send to.
    #[arg(long, value_name = "QUEUE", requires = "track", default_value = "none", value_parser = NotificationQueue::parse)]
    pub notify: NotificationQueue,
    /// When the tasks are called at the earliest that do not say it themselves: a time such as 2026-12-31T23:59:59Z, or
    /// a span from now, such as 2h; a year at most. They are registered at once, and wait. Ordered routes take none.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub not_before: Option<Timestamp>,
    /// Until when the tasks are wanted that do not say it themselves: a time such as 2026-12-31T23:59:59Z, or a span
    /// from now, such as 2h. Later no call with them begins: they end as expired.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub expires_at: Option<Timestamp>,
    /// The trace that the tasks belong to that do not say it themselves, as W3C's traceparent has it. It goes to their
    /// notices, and the spans of their calls are linked to it. A malformed one in the environment is ignored.
    #[arg(long, value_name = "TRACEPARENT", value_parser = TraceParent::parse)]
    pub traceparent: Option<TraceParent>,
}

impl Args {
    /// The trace that the command line says, or else the environment.
    pub fn trace(&self) -> Option<TraceParent> {
        self.traceparent.or_else(|| TraceParent::parse(&std::env::var("TRACEPARENT").ok()?).ok())
    }
}

/// Reads a moment that lies ahead.
fn when(text: &str) -> Result<Timestamp, String> {
    let Ok(ahead) = humantime::parse_duration(text) else {
        return Timestamp::parse(text).map_err(|why| format!("{why}, or a span from now, like 2h"));
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.saturating_add(ahead).as_millis()).ok();
    // What is written must be read again.
    ms.map(Timestamp).filter(|at| Timestamp::parse(&at.shown()).is_ok()).ok_or_else(|| "lies too far ahead".to_owned())
}
