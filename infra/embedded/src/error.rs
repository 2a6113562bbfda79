//! What can keep an embedded stack from starting.

use std::{io, path::PathBuf};

/// A stack, server or mapping that could not start. Each is final: repeating the same call fails again until
/// what the message names has changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is taken, or may not be used.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port asked for; 0 stands for any free one.
        port: u16,
        /// What the operating system said.
        source: io::Error,
    },
    /// The server's thread or runtime could not be made.
    #[error("cannot start the {name} server: {source}")]
    Server {
        /// Which server.
        name: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The data folder cannot be made or written.
    #[error("cannot use the data folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process has the data folder open.
    #[error("the data folder {} is in use by process {holder}: stop that first, or use another folder", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
        /// Its process id.
        holder: String,
    },
    /// The database file is damaged, or of a newer version.
    #[error("cannot open the database: {0}")]
    Database(String),
    /// The journal of the queues is damaged, or of a newer version.
    #[error(
        "cannot use the journal of the queues, {path}: {reason}. It holds messages that were accepted and not handled yet. \
         Bring back an older copy of the whole data folder; or move this file and {path}-wal away: then tasks that are \
         registered go on from the tables, and all other messages are lost. If only the write-ahead log is damaged, \
         sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)' keeps what can be read of it",
        path = path.display()
    )]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A table or queue could not be created.
    #[error("cannot create {what}: {source}")]
    Create {
        /// The table or queue.
        what: String,
        /// What the embedded server answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An event source mapping that Lambda would refuse too.
    #[error("event source mapping of {queue}: {reason}")]
    Mapping {
        /// The queue's URL.
        queue: String,
        /// Which limit it breaks.
        reason: &'static str,
    },
}
