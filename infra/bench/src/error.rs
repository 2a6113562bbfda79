//! What ends a benchmark early.

use std::path::PathBuf;

use groupage_core::{ports, steps};

/// The benchmark could not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The embedded stack did not start.
    #[error(transparent)]
    Stack(#[from] embedded::Error),
    /// A table did not answer.
    #[error("cannot go on: {0}")]
    Step(#[from] steps::Error),
    /// A table or queue did not answer.
    #[error("cannot go on: {0}")]
    Port(#[from] ports::Error),
    /// A queue did not take or give a message.
    #[error("a queue did not answer: {0}")]
    Sqs(String),
    /// There is no temporary folder to be had.
    #[error("cannot make a temporary folder: {0}")]
    Folder(std::io::Error),
    /// The tracker refused: a bug.
    #[error("the tracker refused: {0}")]
    Refused(#[from] steps::track::Refused),
    /// The list refused: a bug.
    #[error("the list refused: {0}")]
    RefusedByList(#[from] steps::list::Refused),
    /// The stream refused: a bug.
    #[error("the stream refused: {0}")]
    RefusedByStream(#[from] steps::stream::Refused),
    /// The stream is not where it should be: a bug.
    #[error("the watermark is at {0}")]
    Watermark(u64),
    /// A variable makes no sense.
    #[error(transparent)]
    Config(#[from] groupage_aws::config::Error),
    /// The benchmark's own route does not parse: a bug.
    #[error(transparent)]
    Routes(#[from] groupage_core::routes::Error),
    /// Not all tasks were settled, and no message is left: a bug.
    #[error("of {tasks} tasks only {settled} were settled")]
    Unsettled {
        /// That were sent.
        tasks: u64,
        /// That were settled.
        settled: u64,
    },
    /// Everything is acked and the tracker is not complete: a bug.
    #[error("everything is acked, and the tracker is {0}")]
    NotComplete(&'static str),
    /// A simulation did not come to its end: a bug.
    #[error(transparent)]
    Simulated(#[from] simulator::run::Error),
    /// The simulation panicked: a bug.
    #[error("the simulation panicked")]
    Panicked,
    /// A file with figures could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A plot could not be drawn.
    #[error("cannot draw {}: {why}", file.display())]
    Plot {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

impl Error {
    /// Of whatever the SDK or a queue said.
    pub fn sqs(said: impl std::fmt::Debug) -> Self {
        Self::Sqs(format!("{said:?}"))
    }
}
