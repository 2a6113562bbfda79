//! What became of the lines.

use groupage_core::domain::id::StreamId;
use groupage_core::domain::stream::{Offset, State, Stream};
use groupage_core::steps::stream::Fed;
use serde::Serialize;

use crate::output::{grouped, summary_until};

/// What became of the lines, for people and programs.
#[derive(Debug, Serialize)]
pub struct Report {
    stream: StreamId,
    /// open, ended, failed or completed.
    state: &'static str,
    /// The watermark that it began from: this many events were settled before.
    pub resumed_at: u64,
    /// Events fed by this run that the stream did not have.
    new: u64,
    /// Events that it had, not settled: sent again.
    again: u64,
    /// Events that it had, settled: not sent.
    settled_before: u64,
    /// Events of this run that can never become tasks: in the rejected queue, and settled as failed.
    rejected: u64,
    /// Events that the stream has.
    fed: u64,
    /// All before this number is settled.
    watermark: u64,
    /// The end of the last line before it, in bytes.
    offset: Option<Offset>,
    /// Events settled, before the watermark and beyond it.
    settled: u64,
    failed: u64,
    /// Why it ended before everything was fed and settled. Feed the same file again to go on.
    pub stopped: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// Nothing fed yet.
    pub fn of(stream: &Stream) -> Self {
        let mut report = Self {
            stream: stream.life.id.clone(),
            state: stream.state.word(),
            resumed_at: stream.watermark.number,
            new: 0,
            again: 0,
            settled_before: 0,
            rejected: 0,
            fed: 0,
            watermark: 0,
            offset: None,
            settled: 0,
            failed: 0,
            stopped: None,
            seconds: 0.0,
        };
        report.see(stream);
        report
    }

    /// Takes over how far the stream is.
    pub fn see(&mut self, stream: &Stream) {
        let watermark = &stream.watermark;
        (self.state, self.fed, self.watermark) = (stream.state.word(), stream.next, watermark.number);
        self.offset.clone_from(&watermark.offset);
        (self.settled, self.failed) = (watermark.settled, watermark.failed);
    }

    /// Counts what one call fed.
    pub const fn count(&mut self, fed: &Fed) {
        self.new += fed.new;
        self.again += fed.again;
        self.settled_before += fed.settled;
        self.rejected += fed.rejected;
    }

    /// Events that were settled when it was their turn: somebody else was faster.
    pub const fn skip(&mut self, events: u64) {
        self.settled_before += events;
    }

    /// For the progress bar.
    pub fn message(&self) -> String {
        format!("{} fed, {} settled", grouped(self.fed), grouped(self.settled))
    }

    /// Whether everything was fed, and nothing of it was rejected or has failed.
    pub const fn is_well(&self) -> bool {
        self.stopped.is_none() && self.failed == 0 && self.rejected == 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let sent = self.new + self.again;
        let rate = if self.seconds > 0.0 { sent as f64 / self.seconds } else { 0.0 };
        let mut rows = vec![
            ("stream", self.stream.to_string()),
            ("its state", self.state.to_owned()),
            ("resumed at", grouped(self.resumed_at)),
            ("fed, new", grouped(self.new)),
            ("fed before, sent again", grouped(self.again)),
            ("fed before, settled", grouped(self.settled_before)),
            ("rejected", grouped(self.rejected)),
            ("fed per second", grouped(rate as u64)),
            ("events of the stream", grouped(self.fed)),
            ("settled", grouped(self.settled)),
            ("failed", grouped(self.failed)),
            ("watermark", grouped(self.watermark)),
        ];
        if self.state == State::Failed.word() {
            rows.push(("note", "its source gave it up".to_owned()));
        }
        summary_until(rows, self.stopped.as_deref())
    }
}
