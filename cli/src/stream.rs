//! `groupage stream`: how far a stream is, and its end.

use anyhow::{Error, Result};
use clap::Subcommand;
use groupage_core::domain::id::StreamId;
use groupage_core::domain::stream::{Ending as End, Offset, Stream};
use serde::Serialize;

use crate::output::{Ending, Output, after_step, grouped, summary, time};
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
    committed_at: String,
    opened_at: String,
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
    output.result(&shown, || shown.text());
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
            committed_at: time(watermark.at),
            opened_at: time(stream.life.opened_at),
        }
    }

    fn text(&self) -> String {
        let mut rows = vec![
            ("stream", self.stream.to_string()),
            ("state", self.state.to_owned()),
            ("fed", grouped(self.fed)),
            ("watermark", grouped(self.watermark)),
            ("settled", grouped(self.settled)),
            ("failed", grouped(self.failed)),
            ("not settled", grouped(self.unsettled)),
            ("window", grouped(self.window)),
            ("committed", self.committed_at.clone()),
            ("opened", self.opened_at.clone()),
        ];
        if let Some(offset) = &self.offset {
            rows.insert(4, ("its offset", offset.to_string()));
        }
        summary(rows)
    }
}
