//! `groupage list`: tasks that wait until they are released.

mod args;
mod put;
mod show;
mod take;

use std::io;
use std::path::PathBuf;

use groupage_aws::{Dynamo, Sqs, System};
use groupage_core::domain::id::ListId;
use groupage_core::domain::list::Options;
use groupage_core::steps::list::{Listing, Refused};

use crate::output::{Ending, Output};
use crate::stack::{self, Access};
pub use args::Args;
use args::Command;

/// The list did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no stack.
    #[error(transparent)]
    Connection(#[from] stack::Error),
    /// The name is none.
    #[error("{0}")]
    Name(&'static str),
    /// The list refuses it.
    #[error("list {list}: {why}")]
    Refused {
        /// The list.
        list: ListId,
        /// Why.
        why: Refused,
    },
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Discarding was not confirmed.
    #[error("this removes {waiting} tasks for ever: say --yes")]
    Unconfirmed {
        /// How many wait.
        waiting: u64,
    },
    /// A table or queue did not answer.
    #[error("{0}. Whatever was under way goes on; repeat the command under its key, if it had one")]
    Step(#[from] groupage_core::steps::Error),
}

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
    fn given<T>(&self, answer: Result<T, Refused>) -> Result<T, Error> {
        answer.map_err(|why| Error::Refused { list: self.id.clone(), why })
    }
}

/// Does something with a list.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let (Command::Put { name, .. }
    | Command::Release { name, .. }
    | Command::Show { name, .. }
    | Command::Discard { name, .. }
    | Command::Close { name }
    | Command::Open { name, .. }) = &options.command;
    let id = ListId::parse(name).map_err(Error::Name)?;
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
