//! What people and programs read: tables or JSON on standard output, everything else on standard error.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::anyhow;
use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use groupage_core::domain::time::Timestamp;
use groupage_core::steps;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

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

/// A text with what a terminal would obey, or hide, shown by its number. Ids, Targets and answers come from outside:
/// they must not clear a screen, change a title or turn the writing round. Line breaks stay.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && obeys(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// A value that must not look like two.
pub fn on_one_line(value: &str) -> String {
    visible(value).replace('\n', "\\n")
}

/// JSON, in which only strings hold such characters: as JSON itself escapes them.
fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && obeys(c) {
            // A string takes whatever is written to it.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a terminal takes the character for a command, or shows nothing for it: control characters, separators of
/// lines, and those that turn the direction of writing or have no width.
fn obeys(c: char) -> bool {
    const UNSEEN: [std::ops::RangeInclusive<char>; 4] =
        ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{2069}', '\u{feff}'..='\u{feff}'];
    c.is_control() || UNSEEN.iter().any(|range| range.contains(&c))
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

/// A time as people read it.
pub fn time(at: Timestamp) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(at.0)).to_string()
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

/// A number as people read it: `12,345`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_by_its_number() {
        let clears = "truck\u{1b}[2J\u{7}\u{9b}31m\r\u{202e}7\u{200b}";
        let shown = visible(clears);
        assert_eq!(shown, "truck\\u{1b}[2J\\u{7}\\u{9b}31m\\u{d}\\u{202e}7\\u{200b}");
        assert_eq!(visible(&shown), shown, "a text that passes twice is the same");
        assert_eq!(visible("Überraschung 🚚\nzwei"), "Überraschung 🚚\nzwei");
        assert_eq!(on_one_line("a\nstatus  succeeded"), "a\\nstatus  succeeded");
        assert!(summary([("truck\u{1b}c", "\u{1b}[31mred".to_owned())]).chars().all(|c| !obeys(c)));
    }

    #[test]
    fn json_says_the_same_with_every_such_character_escaped() {
        let value = serde_json::json!({ "target": "\u{9b}2J\u{1b}\u{202e}\u{7f}ü" });
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.chars().all(|c| c == '\n' || !obeys(c)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn long_numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
