//! `groupage push`: put a routes file in force.

use std::sync::Arc;

use groupage_aws::System;
use groupage_core::ports::{self, Env};
use serde::Serialize;

use crate::check;
use crate::output::Ending;
use crate::output::Output;
use crate::stack;

/// Nothing was put in force.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] check::Error),
    /// There is no stack to push to.
    #[error(transparent)]
    Connection(#[from] stack::Error),
    /// The table did not take it.
    #[error(transparent)]
    Table(#[from] ports::Error),
}

#[derive(Serialize)]
struct Pushed {
    digest: String,
}

/// Checks a routes file and writes it to the route table.
///
/// # Errors
/// [`Error`]; what was in force before still is.
pub async fn run(options: &check::Args, name: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let yaml = check::read(&options.file)?;
    let table = stack::open(name).await?.routes(&Arc::default());
    let stored = table.push(&yaml, System.now()).await?;
    let pushed = Pushed { digest: stored.digest };
    output
        .result(&pushed, || format!("{} is pushed; it is in force everywhere within a minute", options.file.display()));
    Ok(Ending::Well)
}
