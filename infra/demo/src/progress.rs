//! The demo as it runs: one bar for each stage of a task's life.

use groupage_aws::entry::{Counts, Metric};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ledger::Calls;

/// One bar a stage.
pub struct Progress {
    all: MultiProgress,
    sent: ProgressBar,
    registered: ProgressBar,
    batched: ProgressBar,
    settled: ProgressBar,
}

impl Progress {
    /// Bars that end at `tasks`.
    pub fn new(tasks: u64, bars: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(bars);
        // The template is a constant; a bar in the default style would do no harm.
        let style = ProgressStyle::with_template("{prefix:>12} {bar:40} {pos:>7}/{len}  {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |stage: &'static str| {
            let bar = all.add(ProgressBar::new(tasks).with_prefix(stage));
            bar.with_style(style.clone())
        };
        Self {
            sent: bar("sent"),
            registered: bar("registered"),
            batched: bar("in batches"),
            settled: bar("settled"),
            all,
        }
    }

    /// Shows where the tasks stand now.
    pub fn show(&self, sent: u64, counts: &Counts, settled: u64, calls: Calls) {
        self.sent.set_position(sent);
        self.registered.set_position(counts.get(Metric::TasksRegistered));
        self.batched.set_position(counts.get(Metric::BatchMembers));
        self.batched.set_message(format!("{} batches", counts.get(Metric::BatchesFrozen)));
        self.settled.set_position(settled);
        self.settled.set_message(format!(
            "{} calls, {} failed for now",
            calls.all,
            calls.throttled + calls.unavailable
        ));
    }

    /// Takes the bars off the terminal.
    pub fn clear(&self) {
        // A terminal that cannot be cleared stays as it is.
        let _ = self.all.clear();
    }
}
