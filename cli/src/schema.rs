//! `groupage schema`: the published contracts, generated from the types that read them.

use groupage_core::domain::task_message;
use groupage_core::routes;

use crate::Ending;
use crate::args::{Contract, Schema};
use crate::output::Output;

/// Prints a JSON Schema.
pub fn run(options: &Schema, output: &Output) -> Ending {
    let schema = match options.contract {
        Contract::TaskMessage => task_message::schema(),
        Contract::Routes => routes::schema(),
    };
    output.result(&schema, || serde_json::to_string_pretty(&schema).unwrap_or_default());
    Ending::Well
}
