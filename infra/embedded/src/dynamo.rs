//! DynamoDB on a loopback port: SQLite behind DynamoDB's own protocol.
//!
//! In memory it is gone with the process. In a folder, an acknowledged write survives `kill -9`: it is in SQLite's
//! write-ahead log, which the operating system holds. The log is synced at checkpoints, not at every write, which makes
//! writes more than ten times as fast; with [`Durability::Machine`] it is synced at every write.

use std::{sync::Arc, time::Duration};

use dynoxide::{Database, server};
use tokio::{net::TcpListener, sync::oneshot, time};

use crate::{
    Error,
    folder::{Durability, Folder},
    server::Server,
};

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
    pub fn in_memory(port: u16) -> Result<Self, Error> {
        let database = Database::memory().map_err(|error| Error::Database(error.to_string()))?;
        Self::serve(port, database, None)
    }

    /// Starts it on the data in `folder`.
    ///
    /// # Errors
    /// [`Error::Database`] if the file in it is damaged or of a newer version, [`Error::Listen`] if the port is taken.
    pub(crate) fn in_folder(port: u16, folder: &Arc<Folder>) -> Result<Self, Error> {
        let database = open(folder)?;
        Self::serve(port, database, Some(Arc::clone(folder)))
    }

    /// Where it listens, for example `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Finishes the requests under way, closes the file and frees the folder.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    fn serve(port: u16, database: Database, folder: Option<Arc<Folder>>) -> Result<Self, Error> {
        let serve = move |listener, stopped| async move {
            run(listener, database, stopped).await;
            // Held until the database is closed: only then may another process open the folder.
            drop(folder);
        };
        Ok(Self { server: Server::start("dynamodb", port, serve)? })
    }
}

async fn run(listener: TcpListener, database: Database, stopped: oneshot::Receiver<()>) {
    let (stop, stopping) = oneshot::channel::<()>();
    let serving = server::serve_with_shutdown(listener, database.clone(), async {
        let _ = stopping.await;
    });
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => Some(ended),
        () = sweep_expired(&database) => None,
        _ = stopped => None,
    };
    drop(stop);
    let ended = match ended {
        Some(ended) => ended,
        // A client that sent half a request would hold the server for ever.
        None => time::timeout(GRACE, serving).await.unwrap_or(Ok(())),
    };
    if let Err(error) = ended {
        tracing::error!(error, "the embedded DynamoDB ended");
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
    let path = folder.file(DATABASE_FILE);
    let path = path.to_str().ok_or_else(|| Error::Database(format!("{} is not valid UTF-8", path.display())))?;
    let database = Database::new(path).map_err(refused)?;
    match folder.durability {
        // Despite its name this is what chooses SQLite's `synchronous = NORMAL`: no sync per write (see the module doc).
        Durability::Process => database.disable_bulk_loading().map_err(refused)?,
        // SQLite's own default is `FULL`.
        Durability::Machine => {}
    }
    Ok(database)
}
