//! `groupage stream`: how far a stream is, and its end.

use anyhow::{Error, Result};
use clap::Subcommand;
use groupage_core::domain::Timestamp;
use groupage_core::domain::id::StreamId;
use groupage_core::domain::stream::{Ending as End, Offset, Stream};
use groupage_core::ports::Env;
use serde::Serialize;

use crate::output::{Ending, Output, after_step, grouped};
use crate::sheet::{Cell, Moment, Sheet, Tone};
use crate::stack::Access;

/// Show a stream, or end it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show how far a stream is, as it was committed last: its watermark, and what is settled beyond it.
    Show {
        /// Its name.
        name: String,
    },
    /// Commit what is settled at once, and show the stream.
    Commit {
        /// Its name.
        name: String,
    },
    /// End a stream: no more events may come. It is completed when all are settled.
    End {
        /// Its name.
        name: String,
        /// Its source has given up: the stream is never completed.
        #[arg(long)]
        failed: bool,
    },
}

#[derive(Serialize)]
struct Shown {
    stream: StreamId,
    /// open, ended, failed or completed.
    state: &'static str,
    /// Events fed.
    fed: u64,
    /// All before this number is settled.
    watermark: u64,
    /// The offset of the last event before it.
    offset: Option<Offset>,
    /// Events settled, before the watermark and beyond it.
    settled: u64,
    failed: u64,
    unsettled: u64,
    /// The most unsettled events.
    window: u64,
    committed_at: Moment,
    opened_at: Moment,
}

/// Does something with a stream.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    act(options, stack, output).await.map_err(|error| after_step(error, ". Repeat the command"))
}

async fn act(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let (Command::Show { name } | Command::Commit { name } | Command::End { name, .. }) = &options.command;
    let id = StreamId::parse(name).map_err(Error::msg)?;
    let access = Access::open(stack).await?;
    let streaming = access.streaming();
    let stream = match &options.command {
        Command::Show { .. } => streaming.stream(&id).await??,
        Command::Commit { .. } => streaming.commit_now(&id).await??,
        Command::End { failed, .. } => streaming.end(&id, if *failed { End::Failed } else { End::Ended }).await??,
    };
    let shown = Shown::of(&stream);
    output.sheet(&shown, || shown.sheet(access.env().now()));
    Ok(Ending::Well)
}

impl Shown {
    fn of(stream: &Stream) -> Self {
        let watermark = &stream.watermark;
        Self {
            stream: stream.life.id.clone(),
            state: stream.state.word(),
            fed: stream.next,
            watermark: watermark.number,
            offset: watermark.offset.clone(),
            settled: watermark.settled,
            failed: watermark.failed,
            unsettled: stream.unsettled(),
            window: stream.options.window,
            committed_at: Moment(watermark.at),
            opened_at: Moment(stream.life.opened_at),
        }
    }

    fn sheet(&self, now: Timestamp) -> Sheet {
        let failed = if self.failed > 0 { Tone::Bad } else { Tone::Plain };
        let mut rows = vec![
            ("stream", self.stream.as_str().into()),
            ("state", self.state.into()),
            ("fed", grouped(self.fed).into()),
            ("watermark", format!("{}: all before it is settled", grouped(self.watermark)).into()),
            ("settled", grouped(self.settled).into()),
            ("failed", Cell::new(grouped(self.failed), failed)),
            ("not settled", format!("{} of at most {}", grouped(self.unsettled), grouped(self.window)).into()),
            ("committed", self.committed_at.told(now).into()),
            ("opened", self.opened_at.told(now).into()),
        ];
        if let Some(offset) = &self.offset {
            rows.insert(4, ("its offset", offset.to_string().into()));
        }
        Sheet::facts(rows)
    }
}
