//! What people and programs read: tables or JSON on standard output, everything else on standard error.

use std::env;
use std::error::Error;
use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use groupage_core::steps;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

pub use groupage_console::words::{clock as time, grouped, on_one_line};
use groupage_console::words::{visible, visible_json};

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

/// Where and how results are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    color: bool,
}

impl Output {
    /// Prints as JSON or for people, in colour where that is wanted.
    pub fn new(json: bool, color: Color) -> Self {
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self { json, color }
    }

    /// Whether results go to programs: nothing else may be on standard output then.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether standard error is to be coloured.
    pub fn has_color(self) -> bool {
        self.color
    }

    /// Prints a result: `value` as JSON, or the text for people.
    pub fn result<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) {
        let text = match self.json {
            true => visible_json(&serde_json::to_string_pretty(value).unwrap_or_default()),
            false => visible(&text()),
        };
        // Who closed the pipe has read enough.
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// Prints one of many results: `value` as JSON on one line, or the text for people.
    pub fn line<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) {
        let text = match self.json {
            true => visible_json(&serde_json::to_string(value).unwrap_or_default()),
            false => on_one_line(&text()),
        };
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// Prints one thing: as JSON, or its fields one below the other.
    pub fn object<T: Serialize>(self, value: &T) {
        self.result(value, || {
            let fields = serde_json::to_value(value).unwrap_or_default();
            let fields = fields.as_object().into_iter().flatten();
            summary(fields.map(|(name, value)| {
                let text = match value {
                    Value::String(text) => on_one_line(text),
                    Value::Array(items) => {
                        let items = items.iter().map(|item| on_one_line(item.as_str().unwrap_or_default()));
                        items.collect::<Vec<_>>().join("\n")
                    }
                    other => other.to_string(),
                };
                (name.as_str(), text)
            }))
        });
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

    /// Tells people of a line that is no task, through the bar, which would otherwise be torn.
    pub fn bad_line(self, bar: &ProgressBar, line: u64, why: &str) {
        if !self.json {
            let text = format!("{}: {}", self.red(&format!("line {line}")), visible(why));
            bar.suspend(|| drop(writeln!(io::stderr(), "{text}")));
        }
    }

    /// The text in red, if colours are wanted.
    fn red(self, text: &str) -> String {
        if self.color { format!("\u{1b}[31m{text}\u{1b}[0m") } else { text.to_owned() }
    }
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
    let young = match kind {
        "task" => {
            " If it was sent just now, ask again in some seconds. `groupage redrive show rejected` shows refused ones."
        }
        _ => "",
    };
    anyhow!("no {kind} `{id}` is known.{young} Settled ones are forgotten after their retention time")
}

#[cfg(test)]
mod tests {
    use groupage_console::words::obeys;

    use super::*;

    #[test]
    fn a_table_holds_nothing_that_a_terminal_would_obey() {
        assert!(summary([("truck\u{1b}c", "\u{1b}[31mred".to_owned())]).chars().all(|c| !obeys(c)));
    }

    #[test]
    fn json_says_the_same_with_every_such_character_escaped() {
        let value = serde_json::json!({ "target": "\u{9b}2J\u{1b}\u{202e}\u{7f}ü" });
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.chars().all(|c| c == '\n' || !obeys(c)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
