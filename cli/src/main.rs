//! `groupage`: the command of Groupage. See `groupage help`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use crate::args::{Args, Command};
use crate::output::Output;

mod args;
mod check;
mod connection;
mod demo;
mod feed;
mod http;
mod lane;
mod list;
mod local;
mod output;
mod push;
mod queues;
mod redrive;
mod schema;
mod send;
mod status;
mod steps;
mod stop;
mod stream;
mod work;

/// The embedded stack and the SDK allocate for every attribute of every request: a fifth of the time was the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How a command ended that did what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// All is well: exit code 0.
    Well,
    /// It ran, and what it reports is not well: exit code 1.
    Badly,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.json, args.color);
    init_logging(&args.command, output);
    match run(args, &output).await {
        Ok(Ending::Well) => ExitCode::SUCCESS,
        Ok(Ending::Badly) => ExitCode::FAILURE,
        Err(error) => {
            output.error(&*error);
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args, output: &Output) -> Result<Ending, Box<dyn std::error::Error>> {
    let stack = args.stack.as_deref();
    Ok(match args.command {
        Command::Demo(options) => demo::run(&options, output).await?,
        Command::Local(options) => local::run(&options, output).await?,
        Command::Send(options) => send::run(&options, stack, output).await?,
        Command::List(options) => list::run(&options, stack, output).await?,
        Command::Lane(options) => lane::run(&options, stack, output).await?,
        Command::Feed(options) => feed::run(&options, stack, output).await?,
        Command::Stream(options) => stream::run(&options, stack, output).await?,
        Command::Check(options) => check::run(&options, output)?,
        Command::Push(options) => push::run(&options, stack, output).await?,
        Command::Steps => steps::run(stack, output).await?,
        Command::Work(options) => work::run(&options, stack, output).await?,
        Command::Status(options) => status::run(&options, stack, output).await?,
        Command::Redrive(options) => redrive::run(&options, stack, output).await?,
        Command::Schema(options) => schema::run(&options, output),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "groupage", &mut std::io::stdout());
            Ending::Well
        }
    })
}

/// Logs are for finding out why; results do not go there. `GROUPAGE_LOG` is a tracing filter.
fn init_logging(command: &Command, output: Output) {
    let own = match command {
        // They run for long, and what they do is their result.
        Command::Local(_) | Command::Steps | Command::Work(_) => "info",
        Command::Demo(_)
        | Command::Send(_)
        | Command::List(_)
        | Command::Lane(_)
        | Command::Feed(_)
        | Command::Stream(_)
        | Command::Check(_)
        | Command::Push(_)
        | Command::Status(_)
        | Command::Redrive(_)
        | Command::Schema(_)
        | Command::Completions { .. } => "warn",
    };
    // The embedded database warns of every failed condition, which is how the protocol decides races.
    let default = format!("warn,groupage={own},embedded={own},groupage_aws={own},groupage_core={own},dynoxide=error");
    let filter = EnvFilter::try_from_env("GROUPAGE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    logs.with_ansi(output.has_color()).with_target(false).init();
}
