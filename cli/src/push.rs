//! `groupage push`: put a routes file in force.

use std::sync::Arc;

use anyhow::Result;
use groupage_aws::System;
use groupage_core::ports::Env;
use serde::Serialize;

use crate::output::{Ending, Output};
use crate::{check, stack};

#[derive(Serialize)]
struct Pushed {
    digest: String,
}

/// Checks a routes file and writes it to the route table. If that fails, what was in force before still is.
pub async fn run(options: &check::Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let yaml = check::read(&options.file)?;
    let table = stack::open(name).await?.routes(&Arc::default());
    let stored = table.push(&yaml, System.now()).await?;
    let pushed = Pushed { digest: stored.digest };
    output
        .result(&pushed, || format!("{} is pushed; it is in force everywhere within a minute", options.file.display()));
    Ok(Ending::Well)
}
