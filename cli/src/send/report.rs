//! What became of the lines.

use groupage_core::domain::id::TaskId;
use serde::Serialize;

use super::bundle::Message;
use super::fan_out::Tracked;
use super::queue::Refused;
use crate::output::{grouped, summary_until};

/// What became of the lines, for people and programs.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Lines read that are not blank.
    pub lines: u64,
    /// Tasks sent that the stack did not know.
    pub new: u64,
    /// Tasks sent again: registered, and not settled yet.
    pub known: u64,
    /// Tasks that are settled and were not sent.
    pub settled: u64,
    /// Of these, those that have failed: only `groupage failed retry` runs them again.
    pub failed: Vec<FailedLine>,
    /// Lines that repeat an earlier line and were not sent.
    pub repeated: u64,
    /// Lines that can never become tasks. If they were tracked and had items, these have failed.
    pub bad: Vec<BadLine>,
    /// Why it ended before everything was sent, or before everything that was waited for was settled. Send the same
    /// input again to go on.
    pub stopped: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What became of the tasks, if they were tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracked: Option<Tracked>,
}

/// A line that can never become a task.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Why not; it never quotes a value.
    pub why: String,
}

/// A line whose task has failed before.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FailedLine {
    /// Its number, from 1.
    pub line: u64,
    /// The task.
    pub id: TaskId,
    /// Why it failed.
    pub reason: String,
}

impl Report {
    pub(super) fn failed(&mut self, line: u64, id: TaskId, reason: String) {
        self.settled += 1;
        self.failed.push(FailedLine { line, id, reason });
    }

    pub(super) fn bad(&mut self, line: u64, why: String) {
        self.bad.push(BadLine { line, why });
    }

    /// Counts a bundle's messages as sent, less those that were refused.
    pub(super) fn sent(&mut self, bundle: &[Message], refused: &[Refused]) {
        for message in bundle.iter().filter(|message| refused.iter().all(|refused| refused.line != message.line)) {
            *(if message.new { &mut self.new } else { &mut self.known }) += 1;
        }
    }

    /// The first reason counts: the others follow from it.
    pub(super) fn stop(&mut self, why: String) {
        self.stopped.get_or_insert(why);
    }

    /// Whether every line is a task that was sent, now or before, and all succeeded if they were waited for.
    pub fn is_well(&self) -> bool {
        self.bad.is_empty() && self.stopped.is_none() && self.tracked.as_ref().is_none_or(Tracked::is_well)
    }

    /// Whether everything is sent that ever will be.
    pub fn is_complete(&self) -> bool {
        self.stopped.is_none()
    }

    /// For people.
    pub fn text(&self) -> String {
        let sent = self.new + self.known;
        let rate = if self.seconds > 0.0 { sent as f64 / self.seconds } else { 0.0 };
        let mut rows = vec![
            ("lines", grouped(self.lines)),
            ("sent, new", grouped(self.new)),
            ("sent again, not settled yet", grouped(self.known)),
            ("not sent, already settled", grouped(self.settled)),
            ("of these, failed", grouped(self.failed.len() as u64)),
            ("not sent, repeats an earlier line", grouped(self.repeated)),
            ("not sent, bad", grouped(self.bad.len() as u64)),
            ("sent per second", grouped(rate as u64)),
        ];
        if let Some(tracked) = &self.tracked {
            rows.extend([
                ("tracker", tracked.tracker.to_string()),
                ("its state", tracked.state.to_owned()),
                ("succeeded", grouped(tracked.succeeded)),
                ("failed", grouped(tracked.failed)),
                ("not settled", grouped(tracked.missing)),
            ]);
        }
        summary_until(rows, self.stopped.as_deref())
    }
}
