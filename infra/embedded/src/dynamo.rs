//! DynamoDB on a loopback port: SQLite behind DynamoDB's own protocol.
//!
//! In memory it is gone with the process. In a folder, an acknowledged write survives `kill -9`: it is in SQLite's
//! write-ahead log, which the operating system holds. What a power failure can take is the last moment before it,
//! never the file's consistency: the log is synced at checkpoints, not at every write, which makes writes
//! more than ten times as fast.
//!
//! A folder belongs to one process at a time: the lock on it dies with its holder, however that ends.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
    time::Duration,
};

use dynoxide::{Database, server};
use tokio::{net::TcpListener, sync::oneshot, time};

use crate::{Error, server::Server};

/// How long requests may take to finish once the server is told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// How often items past their time to live are removed. AWS promises days; an hour keeps a laptop's file small.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

const DATABASE_FILE: &str = "dynamodb.sqlite";
const LOCK_FILE: &str = "lock";

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

    /// Starts it on the data in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Folder`] if the folder cannot be made or written, [`Error::FolderInUse`] if another process has it,
    /// [`Error::Database`] if the file in it is damaged or of a newer version, [`Error::Listen`] if the port is taken.
    pub fn in_folder(port: u16, folder: &Path) -> Result<Self, Error> {
        let lock = lock(folder)?;
        let database = open(folder)?;
        Self::serve(port, database, Some(lock))
    }

    /// Where it listens, for example `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Finishes the requests under way, closes the file and frees the folder.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    fn serve(port: u16, database: Database, lock: Option<File>) -> Result<Self, Error> {
        let serve = move |listener, stopped| async move {
            run(listener, database, stopped).await;
            // Held until the database is closed: only then may another process open the folder.
            drop(lock);
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

fn lock(folder: &Path) -> Result<File, Error> {
    let failed = |source| Error::Folder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let file = File::create(folder.join(LOCK_FILE)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::FolderInUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn open(folder: &Path) -> Result<Database, Error> {
    let refused = |error: dynoxide::DynoxideError| Error::Database(error.to_string());
    let path = folder.join(DATABASE_FILE);
    let path = path.to_str().ok_or_else(|| Error::Database(format!("{} is not valid UTF-8", path.display())))?;
    let database = Database::new(path).map_err(refused)?;
    // Despite its name this is what chooses SQLite's `synchronous = NORMAL`: no sync per write (see the module doc).
    database.disable_bulk_loading().map_err(refused)?;
    Ok(database)
}
