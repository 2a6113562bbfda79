//! `groupage`: the command of Groupage. See `groupage help`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::process::ExitCode;

use anyhow::anyhow;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use futures::FutureExt;
use groupage_aws::entry::without_payloads;
use groupage_aws::runtime::{self, Threads};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::output::{Color, Ending, Output};

mod cancel;
mod check;
mod console;
mod doctor;
mod done;
mod erase;
mod failed;
mod feed;
mod hold;
mod http;
mod lane;
mod list;
mod local;
mod notices;
mod output;
mod plan;
mod push;
mod reach;
mod redrive;
#[cfg(test)]
mod reference;
mod restore;
mod schema;
mod send;
mod sheet;
mod stack;
mod status;
mod steps;
mod stop;
mod stream;
mod work;

/// The embedded stack and the SDK allocate for every attribute of every request: a fifth of the time was the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Many tasks, one call: group tasks into batches and send each batch as one call.
#[derive(Debug, Parser)]
#[command(name = "groupage", version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Work on the deployed stack of this name, whose outputs CloudFormation knows. Without it, the GROUPAGE_*
    /// variables that `groupage local` prints say where tables and queues are.
    #[arg(long, global = true, value_name = "NAME", env = "GROUPAGE_STACK")]
    stack: Option<String>,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Local(local::Args),
    Console(console::Args),
    /// Run the steps and sweep in this process, on a stack that runs elsewhere, until it is stopped.
    ///
    /// Several may run at once, beside `groupage local --no-steps` for example. Each may die at any time: the others go
    /// on with what it had in hand. The first Ctrl-C or SIGTERM finishes what is in hand. A second one drops it.
    Steps,
    Work(work::Args),
    Send(send::Args),
    List(list::Args),
    Lane(lane::Args),
    Failed(failed::Args),
    Pause(hold::Pause),
    Resume(hold::Resume),
    Cancel(cancel::Args),
    Erase(erase::Args),
    Export(erase::Export),
    Feed(feed::Args),
    Stream(stream::Args),
    /// Check a routes file: syntax, fields, limits and expressions.
    Check(check::Args),
    Plan(plan::Args),
    Push(push::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    Redrive(redrive::Args),
    Notices(notices::Args),
    Restore(restore::Args),
    Schema(schema::Args),
    /// Print a completion script, for example: groupage completions bash > /etc/bash_completion.d/groupage
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.json, args.color);
    init_logging(&args.command, output);
    let ended = runtime::run(Threads::Many, || run(args, &output)).unwrap_or_else(|error| Err(error.into()));
    if let Some(error) = output::lost() {
        output.error(anyhow!("cannot write the result: {error}").as_ref());
        return ExitCode::FAILURE;
    }
    match ended {
        Ok(Ending::Well) => ExitCode::SUCCESS,
        Ok(Ending::Badly) => ExitCode::FAILURE,
        Err(error) => {
            output.error(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Runs the command. Each is boxed: together they would take half a megabyte of the main thread's stack.
async fn run(args: Args, output: &Output) -> anyhow::Result<Ending> {
    let stack = args.stack.as_deref();
    Ok(match args.command {
        Command::Demo(options) => {
            let bars = if output.is_json() { demo::Bars::hidden() } else { demo::Bars::stderr() };
            let figures = demo::run(&options, bars).boxed_local().await?;
            output.result(&figures, || figures.text());
            if figures.agreed { Ending::Well } else { Ending::Badly }
        }
        Command::Local(options) => local::run(&options, output).boxed_local().await?,
        Command::Console(options) => console::run(&options, stack, output).boxed_local().await?,
        Command::Send(options) => send::run(&options, stack, output).boxed_local().await?,
        Command::List(options) => list::run(&options, stack, output).boxed_local().await?,
        Command::Lane(options) => lane::run(&options, stack, output).boxed_local().await?,
        Command::Failed(options) => failed::run(&options, stack, output).boxed_local().await?,
        Command::Pause(options) => hold::pause(&options, stack, output).boxed_local().await?,
        Command::Resume(options) => hold::resume(&options, stack, output).boxed_local().await?,
        Command::Cancel(options) => cancel::run(&options, stack, output).boxed_local().await?,
        Command::Erase(options) => erase::run(&options, stack, output).boxed_local().await?,
        Command::Export(options) => erase::export(&options, stack, output).boxed_local().await?,
        Command::Feed(options) => feed::run(&options, stack, output).boxed_local().await?,
        Command::Stream(options) => stream::run(&options, stack, output).boxed_local().await?,
        Command::Check(options) => check::run(&options, output)?,
        Command::Plan(options) => plan::run(&options, output)?,
        Command::Push(options) => push::run(&options, stack, output).boxed_local().await?,
        Command::Steps => steps::run(stack, output).boxed_local().await?,
        Command::Work(options) => work::run(&options, stack, output).boxed_local().await?,
        Command::Status(options) => status::run(&options, stack, output).boxed_local().await?,
        Command::Doctor(options) => doctor::run(&options, stack, output).boxed_local().await?,
        Command::Redrive(options) => redrive::run(&options, stack, output).boxed_local().await?,
        Command::Notices(options) => notices::run(&options, stack, output).boxed_local().await?,
        Command::Restore(options) => restore::run(&options, stack, output).boxed_local().await?,
        Command::Schema(options) => schema::run(&options, output),
        Command::Completions { shell } => {
            // It takes a writer that cannot fail.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "groupage", &mut script);
            output::write(&script);
            Ending::Well
        }
    })
}

/// Logs are for finding out why; results do not go there. `GROUPAGE_LOG` is a tracing filter.
fn init_logging(command: &Command, output: Output) {
    // These run for long, and what they do is their result.
    let is_long = matches!(command, Command::Local(_) | Command::Console(_) | Command::Steps | Command::Work(_));
    let own = if is_long { "info" } else { "warn" };
    // The embedded database warns of every failed condition, which is how the protocol decides races.
    let default = format!(
        "warn,groupage={own},embedded={own},groupage_aws={own},groupage_core={own},dynoxide=error,aws_config=error"
    );
    let filter = EnvFilter::try_from_env("GROUPAGE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let lines = output::log_lines().with_writer(std::io::stderr).with_ansi(output.has_error_color());
    // It would complain by a macro that panics, on the pipe that is closed.
    let lines = lines.log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_target(false).with_filter(without_payloads(filter))).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_runbooks_commands_exist() {
        let commands: Vec<&str> = include_str!("../../docs/operations.md")
            .lines()
            .filter_map(|line| line.strip_prefix("$ groupage"))
            .collect();
        assert!(commands.len() > 5, "these are not the runbook's commands: {commands:?}");
        for command in commands {
            let words = std::iter::once("groupage").chain(command.split_whitespace());
            assert!(Args::try_parse_from(words).is_ok(), "`groupage{command}` is no command");
        }
    }
}
