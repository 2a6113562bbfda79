//! `groupage console`: the console of a stack that runs elsewhere, on a loopback port.

use std::sync::Arc;

use anyhow::Result;
use embedded::guard::Key;
use groupage_console::{Console, Recorded};
use serde::Serialize;

use crate::http::{Server, pass};
use crate::output::{Ending, Output};
use crate::stack;
use crate::stop::Stop;

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage console                          the stack that the environment names
  groupage console --stack groupage         a deployed stack, with your own credentials
  groupage console --port 0                 on any free port";

/// Show a stack in the browser: what waits, why, and what failed.
///
/// It prints a link; open it in a browser of this machine. The link holds a secret: keep it to
/// yourself.
/// Nothing is public: the pages are served on 127.0.0.1 and read the stack with your own credentials. `groupage local`
/// shows its own stack already, and prints that link at its start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The loopback port of the pages; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
}

#[derive(Serialize)]
struct Started {
    console: String,
}

/// Serves the pages until the process is told to stop.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let (connection, functions) = stack::open_with_functions(name).await?;
    let key = Key::random();
    let shown = name.unwrap_or("that the environment names").to_owned();
    let console = Console::new(&connection, shown, pass(&key), None).asking_for_rights(&connection);
    let recorded = (!functions.is_empty()).then(|| Recorded::new(&connection.config, functions));
    let console = Arc::new(console.with_recorded(recorded));
    let server = Server::start(options.port, "--port", &key, groupage_console::router(console)).await?;
    let started = Started { console: server.console() };
    output.result(&started, || format!("Console: {}\n# Stop with Ctrl-C.", started.console));
    Stop::listen(None).requested().await;
    Ok(Ending::Well)
}
