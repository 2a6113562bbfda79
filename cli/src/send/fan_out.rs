//! `--track`: every task of the input is an item of a tracker, so that somebody learns when all are done.
//!
//! Items are added chunk by chunk in the order of the lines, each chunk under its number as the key. So a repeat of the
//! same input finds the same items, whatever was interrupted before.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sha2::{Digest, Sha256};
use shared::aws::{Dynamo, Meter, Sqs, System};
use shared::domain::id::TrackerId;
use shared::domain::tracker::{Ending, ItemId, Options, Outcome, Place, State};
use shared::ports::Env;
use shared::steps;
use shared::steps::track::{Progress, Refused, Tracking};

use super::lines::{Content, Line};
use crate::args;
use crate::connection::Connection;
use crate::output::grouped;
use crate::steps::unmetered_store;

/// The fan-out cannot be tracked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tracker's id is none.
    #[error("--track: {0}")]
    Id(&'static str),
    /// The input cannot be read for a name.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The tracker does not take these tasks.
    #[error("tracker {id}: {why}")]
    Refused {
        /// Its id.
        id: TrackerId,
        /// Why.
        why: Refused,
    },
    /// A table or queue did not answer.
    #[error("cannot track: {0}")]
    Step(#[from] steps::Error),
}

/// How the fan-out ended, for people and programs.
#[derive(Clone, Debug, Serialize)]
pub struct Tracked {
    /// The tracker.
    pub tracker: TrackerId,
    /// open, sealed, completed, overdue or abandoned.
    pub state: &'static str,
    /// Tasks that it counts.
    pub items: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that are not settled.
    pub missing: u64,
}

/// The tracker of one input.
pub struct FanOut {
    id: TrackerId,
    store: Dynamo,
    outbox: Sqs,
    /// Chunks that were given items.
    chunks: RefCell<u64>,
}

/// The longest pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl FanOut {
    /// Opens the tracker, or finds the one that an earlier try opened. Without a name it is named after the content of
    /// the file, so that sending the file again goes on with it.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn open(name: &str, options: &args::Send, connection: &Connection) -> Result<Self, Error> {
        let id = if name.is_empty() { named_after(&options.file)? } else { name.to_owned() };
        let id = TrackerId::parse(&id).map_err(Error::Id)?;
        let outbox = Sqs::new(&connection.config, connection.queues.clone(), Arc::new(Meter::new()));
        let fan_out = Self { id, store: unmetered_store(connection), outbox, chunks: RefCell::default() };
        let options = Options { deadline: None, notify: options.notify.clone() };
        fan_out.taken(fan_out.tracking().open(fan_out.id.clone(), options).await?)?;
        Ok(fan_out)
    }

    /// Its id.
    pub const fn id(&self) -> &TrackerId {
        &self.id
    }

    /// Gives the tasks of the next chunk their items. Chunks must come in the order of the lines.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn give_items(&self, chunk: &mut [io::Result<Line>]) -> Result<(), Error> {
        let key = self.chunks.borrow().to_string();
        *self.chunks.borrow_mut() += 1;
        let mut messages = Vec::new();
        for line in chunk.iter_mut().flatten() {
            match &line.content {
                Content::Task(message) if message.item.is_some() => {
                    line.content = Content::Bad("bad_item: the line has an item of its own".to_owned());
                }
                Content::Task(_) | Content::Repeated | Content::Bad(_) => {}
            }
            if let Content::Task(message) = &mut line.content {
                messages.push(message);
            }
        }
        if messages.is_empty() {
            return Ok(());
        }
        let (added, _) = self.taken(self.tracking().add(&self.id, &key, messages.len() as u64).await?)?;
        for (number, message) in (added.start..).zip(messages) {
            message.item = Place::of(number).map(|at| ItemId { tracker: self.id.clone(), at });
        }
        Ok(())
    }

    /// Says that these items will never be tasks.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn fail(&self, items: Vec<ItemId>) -> Result<(), Error> {
        self.tracking().settle(items.into_iter().map(|item| (item, Outcome::Failed)).collect()).await.all()?;
        Ok(())
    }

    /// Seals the tracker and waits until all its items are acked, or it ends otherwise.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn wait(&self) -> Result<Tracked, Error> {
        self.taken(self.tracking().seal(&self.id).await?)?;
        let bar = ProgressBar::new(0).with_style(style());
        let mut pause = Duration::from_millis(250);
        loop {
            let progress = self.taken(self.tracking().progress(&self.id).await?)?;
            bar.set_length(progress.tracker.items);
            bar.set_position(progress.succeeded + progress.failed);
            bar.set_message(format!("{} failed", grouped(progress.failed)));
            if let State::Ended(_) = progress.tracker.state {
                bar.finish_and_clear();
                return Ok(progress.into());
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(1.2).min(LOOK_EVERY);
        }
    }

    /// How far it is.
    ///
    /// # Errors
    /// [`Error`]
    pub async fn progress(&self) -> Result<Tracked, Error> {
        Ok(self.taken(self.tracking().progress(&self.id).await?)?.into())
    }

    const fn tracking(&self) -> Tracking<'_, Dynamo, Sqs, System> {
        Tracking { store: &self.store, outbox: &self.outbox, env: &System }
    }

    fn taken<T>(&self, outcome: Result<T, Refused>) -> Result<T, Error> {
        outcome.map_err(|why| Error::Refused { id: self.id.clone(), why })
    }
}

impl From<Progress> for Tracked {
    fn from(progress: Progress) -> Self {
        let Progress { tracker, succeeded, failed, missing } = progress;
        let state = tracker.state.word();
        Self { tracker: tracker.id, state, items: tracker.items, succeeded, failed, missing }
    }
}

impl Tracked {
    /// Whether every task succeeded.
    pub fn is_well(&self) -> bool {
        self.state == Ending::Completed.word() && self.failed == 0
    }
}

/// The progress of the waiting, on standard error and only if that is a terminal.
fn style() -> ProgressStyle {
    let template = "{bar:40} {pos} of {len} settled, {msg}  {elapsed}";
    // The template is a constant; a bar in the default style would do no harm.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A name that follows from the content; standard input can be read once only, and so gets a random one.
fn named_after(file: &Path) -> Result<String, Error> {
    if file == Path::new("-") {
        return Ok(format!("send-{}", System.fresh_id()));
    }
    let failed = |source| Error::Read { file: file.display().to_string(), source };
    let mut hash = Sha256::new();
    io::copy(&mut File::open(file).map_err(failed)?, &mut hash).map_err(failed)?;
    let digits: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("send-{digits}"))
}
