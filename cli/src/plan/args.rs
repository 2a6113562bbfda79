//! The command line of `groupage plan`. Its doc comments are what `--help` prints.

use std::num::NonZeroU32;
use std::path::PathBuf;

use groupage_core::domain::Timestamp;

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage plan tasks.ndjson                     all at once, by routes.yaml
  groupage plan tasks.ndjson --per-second 20     one every 50 ms
  groupage plan tasks.ndjson --at 2026-12-24T05:00:00Z
  groupage --json plan tasks.ndjson | jq '.batches[] | select(.tasks == 1)'";

/// Show into which batches the tasks of a file would go, when, and why each batch ends there. Nothing is sent.
///
/// Time is simulated: the first task comes at 0 s, which is now or what --at says. It matters where tasks have times or
/// windows close by the clock. Batches end and calls begin by the same decisions as on a stack that
/// has no other tasks, on which nothing fails, and whose steps take no time. Urgent tasks go first,
/// and Targets share a limit. Batches stand in the order of their calls.
///
/// The exit code is 1 if a task would be refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file with tasks, one JSON object a line, or - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The routes file (YAML).
    #[arg(long, value_name = "FILE", default_value = "routes.yaml")]
    pub routes: PathBuf,
    /// How many tasks come in a second. Without it, all come at once.
    #[arg(long, value_name = "TASKS")]
    pub per_second: Option<NonZeroU32>,
    /// When the first task comes, as RFC 3339 has it. Now, if absent.
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse)]
    pub at: Option<Timestamp>,
    /// How long a call takes, in milliseconds: it matters where the calls in flight are limited.
    #[arg(long, value_name = "MS", default_value_t = 200)]
    pub call_ms: u64,
    /// How many batches are shown; --json has all.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub batches: usize,
}
