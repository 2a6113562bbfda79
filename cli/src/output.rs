//! What people and programs read: tables or JSON on standard output, everything else on standard error.
//!
//! A reader that closes the pipe has read enough: that is no error, and nothing more is said. Any other failure to
//! write a result, such as a full disk, is told at the end and makes the exit code 1.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::anyhow;
use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use groupage_core::steps;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tracing_subscriber::Registry;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{FormatFields, debug_fn};

pub use groupage_console::words::{clock as time, grouped, on_one_line};
use groupage_console::words::{visible, visible_json};

use crate::sheet::Sheet;

/// How a command ended that did what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All is well: exit code 0.
    Well,
    /// It ran, and what it reports is not well: exit code 1.
    Badly,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Why a result could not be written, if that has happened. A closed pipe is a reason, too.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Where and how results are printed.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Output {
    json: bool,
    /// Of results.
    color: bool,
    /// Of errors and logs.
    error_color: bool,
    /// Each result takes the place of the one before.
    is_watched: bool,
}

impl Output {
    /// Prints as JSON or for people, in colour where that is wanted.
    pub fn new(json: bool, color: Color) -> Self {
        let wanted = |is_terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        let (color, error_color) = (wanted(io::stdout().is_terminal()), wanted(io::stderr().is_terminal()));
        Self { json, color, error_color, is_watched: false }
    }

    /// The same for results that come again and again: on a terminal each takes the place of the one before, and
    /// programs get each on a line of its own.
    pub fn watched(self) -> Self {
        Self { is_watched: true, ..self }
    }

    /// The same, as JSON whatever was asked for.
    pub fn as_json(self) -> Self {
        Self { json: true, ..self }
    }

    /// Whether results go to programs: nothing else may be on standard output then.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether standard error is to be coloured.
    pub fn has_error_color(self) -> bool {
        self.error_color
    }

    /// Prints a result: `value` as JSON, or the text for people.
    pub fn result<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) {
        match self.json {
            true => self.json(value),
            false => self.print(&visible(&text())),
        }
    }

    /// Prints a result: `value` as JSON, or the sheet for people.
    pub fn sheet<T: Serialize>(self, value: &T, sheet: impl FnOnce() -> Sheet) {
        match self.json {
            true => self.json(value),
            false => self.print(&sheet().text(self.color)),
        }
    }

    fn json<T: Serialize>(self, value: &T) {
        let json = if self.is_watched { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) };
        self.print(&visible_json(&json.unwrap_or_default()));
    }

    fn print(self, text: &str) {
        let clears = self.is_watched && !self.json && io::stdout().is_terminal();
        // To the top, the text with the rest of each line cleared, and the rest of the screen cleared: nothing
        // flickers.
        let text = match clears {
            true => format!("\u{1b}[H{}\u{1b}[K\n\u{1b}[J", text.replace('\n', "\u{1b}[K\n")),
            false => format!("{text}\n"),
        };
        write(text.as_bytes());
    }

    /// Prints one of many results: `value` as JSON on one line, or the text for people.
    pub fn line<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) {
        let text = match self.json {
            // A notice is printed as it was sent, which may be in several lines.
            true => visible_json(&serde_json::to_string(value).unwrap_or_default()).replace('\n', " "),
            false => on_one_line(&text()),
        };
        write(format!("{text}\n").as_bytes());
    }

    /// Prints an error and its causes.
    pub fn error(self, error: &dyn Error) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some errors repeat their cause in their own words.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        let _ = writeln!(io::stderr(), "{}: {}", self.red("error"), visible(&text));
    }

    /// Tells people why one of many things was not done. Programs find it in the result.
    pub fn not_done(self, id: &dyn Display, why: &str) {
        if !self.json {
            let _ = writeln!(io::stderr(), "{}", on_one_line(&format!("{id}: {why}")));
        }
    }

    /// Prints what may be a mistake. Programs find it in the result.
    pub fn warning(self, text: &str) {
        if !self.json {
            let _ = writeln!(io::stderr(), "{}: {}", self.red("warning"), visible(text));
        }
    }

    /// Tells people of a line that is no task, through the bar, which would otherwise be torn.
    pub fn bad_line(self, bar: &ProgressBar, line: u64, why: &str) {
        if !self.json {
            let text = format!("{}: {}", self.red(&format!("line {line}")), visible(why));
            bar.suspend(|| drop(writeln!(io::stderr(), "{text}")));
        }
    }

    /// The text in red, if colours are wanted.
    fn red(self, text: &str) -> String {
        if self.error_color { format!("\u{1b}[31m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Writes to standard output, at once.
pub fn write(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        // The first one says why.
        let _ = LOST.set(error);
    }
}

/// Log lines for people: an event is one line, and no field of it holds what a terminal would obey.
pub fn log_lines() -> tracing_subscriber::fmt::Layer<Registry, impl for<'w> FormatFields<'w>> {
    let fields = debug_fn(|writer, field, value| {
        let text = on_one_line(&format!("{value:?}"));
        match field.name() {
            "message" => write!(writer, "{text}"),
            name => write!(writer, "{name}={text}"),
        }
    });
    tracing_subscriber::fmt::layer().fmt_fields(fields.delimited(" "))
}

/// Why a result was not written, if one was not and its reader had not read enough.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)
}

/// Whether anybody still reads what is written: what only prints may end otherwise.
pub fn is_read() -> bool {
    LOST.get().is_none()
}

/// A table of names and values, as summaries are printed.
pub fn summary<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for (name, value) in rows {
        table.add_row([Cell::new(visible(name)), Cell::new(visible(&value)).set_alignment(CellAlignment::Right)]);
    }
    table.trim_fmt()
}

/// A summary, and in a line of its own why the work stopped before its end: a sentence would make the table as wide.
pub fn summary_until<'a>(rows: impl IntoIterator<Item = (&'a str, String)>, stopped: Option<&str>) -> String {
    let stopped = stopped.map(|why| format!("\nstopped before the end: {}", visible(why)));
    summary(rows) + &stopped.unwrap_or_default()
}

/// A bar of this form. The templates are constants; a bar in the default style would do no harm.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// An error that adds what to do when it comes from a step.
pub fn after_step(error: anyhow::Error, hint: &str) -> anyhow::Error {
    if error.is::<steps::Error>() { anyhow!("{error}{hint}") } else { error }
}

/// Nothing of this kind has the id.
pub fn unknown(kind: &str, id: &str) -> anyhow::Error {
    let hint = match kind {
        "task" => {
            " If it was sent just now, ask again in some seconds. `groupage redrive show rejected` shows refused ones."
        }
        "Target" => " A Target is ROUTE:TARGET, such as parcels:truck-7.",
        _ => "",
    };
    anyhow!("no {kind} `{id}` is known.{hint} Settled ones are forgotten after their retention time")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::sync::Arc;

    use groupage_console::words::obeys;
    use serde_json::Value;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_reason_to_stop_makes_no_table_wide() {
        let text = summary_until([("lines", "7".to_owned())], Some("the input is a list\u{1b}"));
        assert_eq!(text.lines().map(str::len).min(), Some(" lines  7".len()), "{text}");
        assert!(text.ends_with("\nstopped before the end: the input is a list\\u{1b}"), "{text}");
    }

    #[test]
    fn a_target_that_is_not_known_is_told_how_to_write_one() {
        assert!(unknown("Target", "truck-7:").to_string().contains("A Target is ROUTE:TARGET, such as"));
    }

    #[test]
    fn a_table_holds_nothing_that_a_terminal_would_obey() {
        assert!(summary([("truck\u{1b}c", "\u{1b}[31mred".to_owned())]).chars().all(|c| !obeys(c)));
    }

    #[test]
    fn a_target_forges_no_log_line_and_clears_no_screen() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let lines = log_lines().with_writer(Arc::clone(&file)).with_ansi(false);
        let target = "truck\u{1b}[2J\nWARN all is well";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::info!(%target, quoted = target, "batches of {target} handed on");
        });
        let mut text = String::new();
        (&*file).rewind().and_then(|()| (&*file).read_to_string(&mut text)).unwrap();
        assert!(text.ends_with('\n') && text.trim_end().chars().all(|c| !obeys(c)), "{text:?}");
        assert!(text.contains(r"batches of truck\u{1b}[2J\nWARN all is well handed on target=truck"), "{text}");
    }

    #[test]
    fn json_says_the_same_with_every_such_character_escaped() {
        let value = serde_json::json!({ "target": "\u{9b}2J\u{1b}\u{202e}\u{7f}ü\u{e0041}\u{61c}" });
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.chars().all(|c| c == '\n' || !obeys(c)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
