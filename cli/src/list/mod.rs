//! `groupage list`: tasks that wait until they are released.

pub mod args;
mod put;
mod show;
mod take;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use groupage_aws::{Dynamo, Meter, Sqs, System};
use groupage_core::domain::id::ListId;
use groupage_core::domain::list::Options;
use groupage_core::steps::list::{Listing, Refused};

use crate::Ending;
use crate::connection;
use crate::output::Output;
use crate::steps;
use args::{ListCommand, ListOptions};

/// The list did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no stack.
    #[error(transparent)]
    Connection(#[from] connection::Error),
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
    store: Dynamo,
    outbox: Sqs,
    output: Output,
}

impl Shelf {
    fn steps(&self) -> Listing<'_, Dynamo, Sqs, System> {
        Listing { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// What a call gave, or why it was refused.
    fn given<T>(&self, answer: Result<T, Refused>) -> Result<T, Error> {
        answer.map_err(|why| Error::Refused { list: self.id.clone(), why })
    }
}

/// Does something with a list.
///
/// # Errors
/// [`Error`]
pub async fn run(options: &ListOptions, stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let (ListCommand::Put { name, .. }
    | ListCommand::Release { name, .. }
    | ListCommand::Show { name, .. }
    | ListCommand::Discard { name, .. }
    | ListCommand::Close { name }
    | ListCommand::Open { name, .. }) = &options.command;
    let id = ListId::parse(name).map_err(Error::Name)?;
    let connection = connection::open(stack).await?;
    let outbox = Sqs::new(&connection.config, connection.queues.clone(), Arc::new(Meter::new()));
    let shelf = Shelf { id, store: steps::unmetered_store(&connection), outbox, output: *output };
    match &options.command {
        ListCommand::Put { file, .. } => put::run(&shelf, file).await,
        ListCommand::Release { count, all: _, key, .. } => take::release(&shelf, *count, key.as_deref()).await,
        ListCommand::Show { peek, .. } => show::run(&shelf, *peek).await,
        ListCommand::Discard { yes, .. } => take::discard(&shelf, *yes).await,
        ListCommand::Close { .. } => {
            shelf.given(shelf.steps().close(&shelf.id).await?)?;
            show::run(&shelf, None).await
        }
        ListCommand::Open { ttl, .. } => {
            let ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            shelf.given(shelf.steps().open(&shelf.id, Options { ttl_ms }).await?)?;
            show::run(&shelf, None).await
        }
    }
}
