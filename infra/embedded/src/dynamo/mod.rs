//! DynamoDB on a loopback port: SQLite behind DynamoDB's own protocol.
//!
//! In memory it is gone with the process. In a folder, an acknowledged write survives `kill -9`: it is in SQLite's
//! write-ahead log, which the operating system holds. The log is synced at checkpoints, not at every write, which makes
//! writes more than ten times as fast; with [`Durability::Machine`] it is synced at every write.

mod protocol;

use std::{convert::Infallible, sync::Arc, time::Duration};

use dynoxide::Database;
use hyper::service::service_fn;
use tokio::{net::TcpListener, sync::oneshot, time};

use crate::Error;
use crate::folder::{Durability, Folder};
use crate::guard::Guard;
use crate::server::{Server, serve};

/// How long requests may take to finish once the server is told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// How often items past their time to live are removed. AWS promises days; an hour keeps a laptop's file small.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

const DATABASE_FILE: &str = "dynamodb.sqlite";

/// A running DynamoDB. Dropping it stops it without waiting for the file to be closed.
#[derive(Debug)]
pub struct Dynamo {
    server: Server,
}

impl Dynamo {
    /// Starts it in memory, on the loopback `port` (0: any free one).
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken, [`Error::Database`] if SQLite refuses.
    pub fn in_memory(port: u16, guard: Guard) -> Result<Self, Error> {
        let database = Database::memory().map_err(|error| Error::Database(error.to_string()))?;
        Self::serve(port, guard, database, None)
    }

    /// Starts it on the data in `folder`.
    ///
    /// # Errors
    /// [`Error::Database`] if the file in it is damaged or of a newer version, [`Error::Listen`] if the port is taken.
    pub(crate) fn in_folder(port: u16, guard: Guard, folder: &Arc<Folder>) -> Result<Self, Error> {
        let database = open(folder)?;
        Self::serve(port, guard, database, Some(Arc::clone(folder)))
    }

    /// Where it listens, for example `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Finishes the requests under way, closes the file and frees the folder.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    fn serve(port: u16, guard: Guard, database: Database, folder: Option<Arc<Folder>>) -> Result<Self, Error> {
        let serve = move |listener, stopped| async move {
            run(listener, guard, database, stopped).await;
            // Held until the database is closed: only then may another process open the folder.
            drop(folder);
        };
        Ok(Self { server: Server::start("dynamodb", port, serve)? })
    }
}

async fn run(listener: TcpListener, guard: Guard, database: Database, stopped: oneshot::Receiver<()>) {
    let answering = database.clone();
    let service = service_fn(move |request| {
        let database = answering.clone();
        async move { Ok::<_, Infallible>(protocol::answer(&database, request).await) }
    });
    tokio::select! {
        () = serve(listener, guard, service, stopped, GRACE) => {}
        () = sweep_expired(&database) => {}
    }
}

/// Removes expired items for ever: the database leaves that to its owner.
async fn sweep_expired(database: &Database) {
    let mut ticks = time::interval(SWEEP_EVERY);
    loop {
        ticks.tick().await;
        match database.sweep_ttl() {
            Ok(removed) => tracing::debug!(removed, "removed expired items"),
            Err(error) => tracing::warn!(%error, "could not remove expired items"),
        }
    }
}

fn open(folder: &Folder) -> Result<Database, Error> {
    let refused = |error: dynoxide::DynoxideError| Error::Database(error.to_string());
    let path = folder.file(DATABASE_FILE)?;
    let path = path.to_str().ok_or_else(|| Error::Database(format!("{} is not valid UTF-8", path.display())))?;
    let database = Database::new(path).map_err(refused)?;
    match folder.durability {
        // Despite its name this is what chooses SQLite's `synchronous = NORMAL`: no sync per write (see the module
        // doc).
        Durability::Process => database.disable_bulk_loading().map_err(refused)?,
        // SQLite's own default is `FULL`.
        Durability::Machine => {}
    }
    Ok(database)
}
