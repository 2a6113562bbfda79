//! The command line of `groupage feed`. Its doc comments are what `--help` prints.

use std::path::PathBuf;
use std::time::Duration;

use groupage_core::domain::notice::NotificationQueue;
use groupage_core::domain::stream::{MAX_COMMIT_MS, Options, WINDOW};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage feed events.ndjson --stream orders            feed, and wait until all is settled
  groupage feed events.ndjson --stream orders --end      the same; then no more events may come
  groupage feed events.ndjson --stream orders --rate 50  at most 50 lines a second
  groupage stream show orders                            how far it is, asked from anywhere";

/// Feed an ordered file to a stream, event by event, and go on where it stood after any crash.
///
/// Each line is a task: {"id": "…", "payload": {…}}. A task without an id gets one from its number in the file. The
/// stream's watermark is the line up to which all are settled. Feeding the same file again begins there. Lines after it
/// that were fed before are recognised, and sent again only if they are not settled. A line that has changed since is
/// refused. A line that is no task is rejected, counts as failed, and holds no other up.
///
/// When too many lines are unsettled (--window), it waits until some settle. Ctrl-C stops feeding and commits what is
/// settled. A second one drops everything.
///
/// The exit code is 0 if every line was fed, now or earlier, and none was rejected or has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file, or - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The stream; opened if it is not there.
    #[arg(long, value_name = "NAME")]
    pub stream: String,
    /// Feed this many lines a second at most.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// End the stream when all lines are fed: it is completed when all are settled, and takes no more.
    #[arg(long)]
    pub end: bool,
    /// Do not wait until all is settled.
    #[arg(long)]
    pub no_wait: bool,
    /// Of a stream that is opened now: how many events may be unsettled. 10000 if not given.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(*WINDOW.start()..=*WINDOW.end()))]
    pub window: Option<u64>,
    /// Of a stream that is opened now: the shortest time between two commits of the watermark. 1s if not given.
    #[arg(long, value_name = "TIME", value_parser = commit_time)]
    pub commit: Option<Duration>,
    /// Of a stream that is opened now: commit whenever this many more events are settled.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub commit_events: Option<u64>,
    /// Of a stream that is opened now: the queue that gets a message with each commit. It is none (if not given),
    /// default (the stack's own queue), or the URL of an SQS queue that the stack's functions may send to.
    #[arg(long, value_name = "QUEUE", value_parser = NotificationQueue::parse)]
    pub notify: Option<NotificationQueue>,
}

fn commit_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = time <= Duration::from_millis(MAX_COMMIT_MS);
    if is_allowed { Ok(time) } else { Err("expected at most 1h".to_owned()) }
}

impl Args {
    /// What a new stream is opened with; an existing one keeps its own for whatever is not given.
    pub fn options(&self, before: Option<&Options>) -> Options {
        let Options { commit_ms, commit_events, window, notify } = before.cloned().unwrap_or_default();
        Options {
            commit_ms: self.commit.map_or(commit_ms, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            commit_events: self.commit_events.or(commit_events),
            window: self.window.unwrap_or(window),
            notify: self.notify.clone().unwrap_or(notify),
        }
    }
}
