//! `groupage list`: tasks that wait until they are released.

mod args;
mod put;
mod show;
mod take;

use anyhow::{Error, Result, anyhow};
use groupage_aws::{Dynamo, Sqs, System};
use groupage_core::domain::id::ListId;
use groupage_core::domain::list::Options;
use groupage_core::steps::list::{Listing, Refused};

use crate::output::{Ending, Output, after_step};
use crate::stack::Access;
pub use args::Args;
use args::Command;

/// One list, and how to reach it.
struct Shelf {
    id: ListId,
    access: Access,
    output: Output,
}

impl Shelf {
    fn steps(&self) -> Listing<'_, Dynamo, Sqs, System> {
        self.access.listing()
    }

    /// What a call gave, or why it was refused.
    fn given<T>(&self, answer: Result<T, Refused>) -> Result<T> {
        answer.map_err(|why| anyhow!("list {}: {why}", self.id))
    }
}

/// Does something with a list.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let hint = ". Whatever was under way goes on; repeat the command under its key, if it had one";
    act(options, stack, output).await.map_err(|error| after_step(error, hint))
}

async fn act(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let (Command::Put { name, .. }
    | Command::Release { name, .. }
    | Command::Show { name, .. }
    | Command::Discard { name, .. }
    | Command::Close { name }
    | Command::Open { name, .. }) = &options.command;
    let id = ListId::parse(name).map_err(Error::msg)?;
    let shelf = Shelf { id, access: Access::open(stack).await?, output: *output };
    match &options.command {
        Command::Put { file, .. } => put::run(&shelf, file).await,
        Command::Release { count, all: _, key, .. } => take::release(&shelf, *count, key.as_deref()).await,
        Command::Show { peek, .. } => show::run(&shelf, *peek).await,
        Command::Discard { yes, .. } => take::discard(&shelf, *yes).await,
        Command::Close { .. } => {
            shelf.given(shelf.steps().close(&shelf.id).await?)?;
            show::run(&shelf, None).await
        }
        Command::Open { ttl, .. } => {
            let ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            shelf.given(shelf.steps().open(&shelf.id, Options { ttl_ms }).await?)?;
            show::run(&shelf, None).await
        }
    }
}
