//! `--track`: every task of the input is an item of a tracker, so that somebody learns when all are done.
//!
//! Items are added chunk by chunk in the order of the lines, each chunk under a key made of its number and its tasks.
//! So a repeat of the same input finds the same items, whatever was interrupted before, and a chunk of an edited input
//! gets items that no other task has.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use groupage_aws::{Connection, Dynamo, Sqs, System};
use groupage_core::domain::id::digest;
use groupage_core::domain::tracker::{Ending, ItemId, Options, Place, State};
use groupage_core::domain::{NotificationQueue, TaskMessage, TrackerId};
use groupage_core::ports::Env;
use groupage_core::steps;
use groupage_core::steps::track::{Progress, Refused, Tracking};
use indicatif::ProgressBar;
use serde::Serialize;

use super::input::Input;
use super::lines::{Content, Line};
use crate::output::{grouped, style};
use crate::stack::Access;

/// Why a sealed tracker takes no more.
const OTHER_INPUT: &str = "another input, all of which is sent";

/// How the fan-out ended, for people and programs.
#[derive(Clone, Debug, Serialize)]
pub struct Tracked {
    pub tracker: TrackerId,
    /// open, sealed, completed, overdue or abandoned.
    pub state: &'static str,
    /// Tasks that it counts.
    pub items: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Those that are not settled.
    pub missing: u64,
}

/// The tracker of one input.
pub struct FanOut {
    id: TrackerId,
    access: Access,
    /// Chunks that were given items.
    chunks: RefCell<u64>,
}

/// The longest pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl FanOut {
    /// Opens the tracker, or finds the one that an earlier try opened; says whether it is new.
    pub async fn open(id: TrackerId, notify: NotificationQueue, connection: &Connection) -> Result<(Self, bool)> {
        let fan_out = Self { id, access: Access::to(connection), chunks: RefCell::default() };
        let options = Options { deadline: None, notify };
        let (_, is_new) = fan_out.answer(fan_out.tracking().open(fan_out.id.clone(), options).await)?;
        Ok((fan_out, is_new))
    }

    pub const fn id(&self) -> &TrackerId {
        &self.id
    }

    /// Gives the tasks of the next chunk their items. Chunks must come in the order of the lines.
    pub async fn give_items(&self, chunk: &mut [io::Result<Line>]) -> Result<()> {
        let number = *self.chunks.borrow();
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
        let key = key(number, &messages);
        let added = match self.tracking().add(&self.id, &key, messages.len() as u64).await {
            Ok(Err(Refused::Sealed | Refused::Over(Ending::Completed))) => {
                bail!("tracker {} counts {OTHER_INPUT}. Choose another name with --track=NAME", self.id);
            }
            added => self.answer(added)?.0,
        };
        for (number, message) in (added.start..).zip(messages) {
            message.item = Place::of(number).map(|at| ItemId { tracker: self.id.clone(), at });
        }
        Ok(())
    }

    /// Seals the tracker and waits until all its items are acked, or it ends otherwise.
    pub async fn wait(&self) -> Result<Tracked> {
        self.answer(self.tracking().seal(&self.id).await)?;
        let bar = ProgressBar::new(0).with_style(style("{bar:40} {pos} of {len} settled, {msg}  {elapsed}"));
        let mut pause = Duration::from_millis(250);
        loop {
            let progress = self.answer(self.tracking().progress(&self.id).await)?;
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
    pub async fn progress(&self) -> Result<Tracked> {
        Ok(self.answer(self.tracking().progress(&self.id).await)?.into())
    }

    const fn tracking(&self) -> Tracking<'_, Dynamo, Sqs, System> {
        self.access.tracking()
    }

    fn answer<T>(&self, answer: steps::track::Outcome<T>) -> Result<T> {
        let outcome = answer.map_err(|error| anyhow!("tracker {}: {error}", self.id))?;
        outcome.map_err(|why| anyhow!("tracker {}: {why}", self.id))
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

/// The tracker's id: the name given, or one that follows from the file's content, so that sending the file again goes
/// on with it. A stream can be read once only, and gets a random one unless it is given.
pub fn id(name: &str, input: &mut Input) -> Result<TrackerId> {
    if !name.is_empty() {
        return TrackerId::parse(name).map_err(|why| anyhow!("--track: {why}"));
    }
    let unique = input.digest().context("cannot read the file")?.unwrap_or_else(|| System.fresh_id());
    Ok(TrackerId::new(format!("send-{unique}")))
}

/// The key under which a chunk's items are added: its number, and a digest of its tasks before they have items.
fn key(number: u64, tasks: &[&mut TaskMessage]) -> String {
    let parts: Vec<String> = tasks.iter().flat_map(|task| [task.id.to_string(), task.digest()]).collect();
    format!("{number}-{}", digest(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use embedded::{Ports, Stack, Storage};
    use groupage_core::domain::task_message::parse;

    use super::*;

    fn chunk(lines: &[&str]) -> Vec<io::Result<Line>> {
        let content = |text: &str| Content::Task(parse(text, text).unwrap());
        (1..).zip(lines).map(|(number, text)| Ok(Line { number, bytes: 0, content: content(text) })).collect()
    }

    const A: &str = r#"{"id":"a","payload":{}}"#;
    const B: &str = r#"{"id":"b","payload":{}}"#;
    const EDITED: &str = r#"{"id":"b","payload":{"n":1}}"#;

    struct Given<'a>(&'a Connection);

    impl Given<'_> {
        async fn open(&self) -> FanOut {
            FanOut::open(TrackerId::new("t"), NotificationQueue::None, self.0).await.unwrap().0
        }

        /// The numbers of the items that the first chunk of an input gets from a process of its own.
        async fn items_of(&self, lines: &[&str]) -> Result<Vec<u64>> {
            let mut chunk = chunk(lines);
            self.open().await.give_items(&mut chunk).await?;
            let item = |line: &Line| match &line.content {
                Content::Task(message) => message.item.as_ref().map(|item| item.at.number()),
                Content::Repeated | Content::Bad(_) => None,
            };
            Ok(chunk.iter().flatten().filter_map(item).collect())
        }
    }

    #[tokio::test]
    async fn the_same_chunk_finds_its_items_and_an_edited_one_gets_its_own() {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let connection = stack.connection();
        let given = Given(connection);
        assert_eq!(given.items_of(&[A, B]).await.unwrap(), [0, 1]);
        assert_eq!(given.items_of(&[A, EDITED]).await.unwrap(), [2, 3], "another payload");
        assert_eq!(given.items_of(&[B, A]).await.unwrap(), [4, 5], "another order");
        assert_eq!(given.items_of(&[A]).await.unwrap(), [6], "fewer");
        assert_eq!(given.items_of(&[A, B]).await.unwrap(), [0, 1], "a repeat");

        let fan_out = given.open().await;
        fan_out.answer(fan_out.tracking().seal(fan_out.id()).await).unwrap();
        assert_eq!(given.items_of(&[A, B]).await.unwrap(), [0, 1], "a repeat after all was sent");
        let refused = given.items_of(&[EDITED]).await.unwrap_err().to_string();
        assert!(refused.contains(OTHER_INPUT), "{refused}");
        stack.shutdown().await;
    }

    #[test]
    fn chunks_with_equal_tasks_differ_by_their_number() {
        let mut message = parse(A, "m").unwrap();
        let key_of = |number, message: &mut TaskMessage| key(number, &[message]);
        assert_ne!(key_of(0, &mut message), key_of(1, &mut message));
    }
}
