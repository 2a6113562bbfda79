//! `cargo run -- demo`: the demo by itself. The whole command, `groupage`, is in the folder `cli` and has it, too.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use groupage_aws::runtime::{self, Threads};

/// The demo of Groupage. `cargo install --path cli` installs the whole command.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let Command::Demo(options) = Args::parse().command;
    let ended = runtime::run(Threads::Many, || demo::run(&options, demo::Bars::stderr()));
    match ended.unwrap_or_else(|error| Err(error.into())) {
        Ok(figures) => {
            println!("{}", figures.text());
            if figures.agreed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
