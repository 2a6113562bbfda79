//! What the queues hold, kept in a file of the data folder, so that a message that was acknowledged outlives the
//! process.
//!
//! The queues themselves are in memory. Every change of theirs is written here before its answer leaves, by one thread:
//! what was asked for while it wrote goes into the next transaction together. Once a write has failed, no later one
//! succeeds: an answer never stands on a change whose predecessor is missing.

mod file;
mod log;

use std::{path::Path, sync::Arc, thread};

use groupage_aws::runtime::STACK_BYTES;
use rustack_sqs_core::provider::SqsQueueSnapshot;
use tokio::sync::{mpsc, oneshot};

use crate::{Error, folder::Durability};

use file::JournalFile;
pub(crate) use file::{DEDUPLICATED_MS, Found, Kept};

/// Requests of one transaction at most.
const AT_ONCE: usize = 256;

/// A message's number in the file: they rise in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) i64);

/// A change of the queues.
#[derive(Debug)]
pub(crate) enum Change {
    /// These came in.
    Sent(Vec<Kept>),
    /// These were handed out by a queue.
    Received { queue: String, messages: Vec<Number>, at_ms: i64 },
    /// These were deleted by those that received them.
    Consumed { messages: Vec<Number>, at_ms: i64 },
    /// A queue was emptied.
    Purged(String),
    /// These queues are all there are.
    Queues(Vec<SqsQueueSnapshot>),
}

/// A change could not be written. It is in memory, and will not outlive the process.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotWritten(Arc<str>);

struct Request {
    change: Change,
    done: oneshot::Sender<Result<(), NotWritten>>,
}

/// The way to the thread that writes. It ends when the last of these is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    requests: mpsc::UnboundedSender<Request>,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writer(thread::JoinHandle<()>);

/// A journal that was opened.
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    pub(crate) writer: Writer,
    pub(crate) found: Found,
}

impl Journal {
    /// Opens the file, makes it if it is not there, and reads what it holds.
    ///
    /// # Errors
    /// [`Error::Journal`] if it is damaged or of a newer version, [`Error::Server`] if there is no thread to be had.
    pub(crate) fn open(path: &Path, durability: Durability, now_ms: i64) -> Result<Opened, Error> {
        let (file, found) = JournalFile::open(path, durability, now_ms)
            .map_err(|reason| Error::Journal { path: path.to_owned(), reason })?;
        let (requests, asked) = mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name("embedded-journal".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || write_all(file, asked))
            .map_err(|source| Error::Server { name: "journal", source })?;
        Ok(Opened { journal: Self { requests }, writer: Writer(thread), found })
    }

    /// Writes a change. Changes take effect in the order of these calls; the future ends once this one is durable.
    pub(crate) fn write(&self, change: Change) -> impl Future<Output = Result<(), NotWritten>> + use<> {
        let (done, written) = oneshot::channel();
        let asked = self.requests.send(Request { change, done });
        async move {
            let gone = || NotWritten("the thread that writes the queues' journal has ended".into());
            asked.map_err(|_| gone())?;
            written.await.map_err(|_| gone())?
        }
    }
}

impl Writer {
    /// Waits until the file is closed. Drop every [`Journal`] first.
    pub(crate) async fn closed(self) {
        // A panic of the thread has been printed by then; there is nothing left to close.
        let _ = tokio::task::spawn_blocking(move || self.0.join()).await;
    }
}

fn write_all(mut file: JournalFile, mut asked: mpsc::UnboundedReceiver<Request>) {
    let mut broken: Option<NotWritten> = None;
    let mut requests = Vec::new();
    while asked.blocking_recv_many(&mut requests, AT_ONCE) > 0 {
        let (changes, waiting): (Vec<_>, Vec<_>) =
            requests.drain(..).map(|Request { change, done }| (change, done)).unzip();
        let written = match &broken {
            Some(broken) => Err(broken.clone()),
            None => file.apply(&changes).map_err(|error| {
                tracing::error!(%error, "the journal of the queues cannot be written: nothing is accepted until a restart");
                NotWritten(format!("the journal of the queues cannot be written: {error}").into())
            }),
        };
        broken = written.clone().err();
        for done in waiting {
            // Its client has gone.
            let _ = done.send(written.clone());
        }
    }
}
