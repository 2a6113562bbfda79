//! `groupage schema`: the published contracts, generated from the types that read them.

use clap::ValueEnum;
use groupage_core::domain::task_message;
use groupage_core::routes;

use crate::output::{Ending, Output};

/// Print the JSON Schema of task messages or of the routes file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which contract.
    contract: Contract,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contract {
    /// A task as senders write it.
    TaskMessage,
    /// The routes file.
    Routes,
}

/// Prints a JSON Schema.
pub fn run(options: &Args, output: &Output) -> Ending {
    let schema = match options.contract {
        Contract::TaskMessage => task_message::schema(),
        Contract::Routes => routes::schema(),
    };
    output.as_json().result(&schema, String::new);
    Ending::Well
}
