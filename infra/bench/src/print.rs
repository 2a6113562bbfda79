//! Figures for people (tables) or for programs (JSON) on standard output, and progress on standard error.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Row, Table, presets};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde::Serialize;

/// How figures are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

impl Output {
    /// Prints figures: as JSON, or the text for people.
    pub fn result<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) {
        let text = if self.json { serde_json::to_string_pretty(value).unwrap_or_default() } else { text() };
        // Who closed the pipe has read enough.
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// Prints one of several figures as soon as they are known, if it is for people: programs get all of them at once.
    pub fn one_of_several(self, text: impl FnOnce() -> String) {
        if !self.json {
            let _ = writeln!(io::stdout(), "{}\n", text());
        }
    }

    /// Prints what [`Output::one_of_several`] kept back for programs.
    pub fn all<T: Serialize>(self, all: &[T]) {
        if self.json {
            self.result(&all, String::new);
        }
    }
}

/// An empty table of figures: the first column names what the others, which stand to the right, count.
pub fn figures<T: Into<Row>>(header: T) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Names and values, one below the other.
pub fn summary<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_rows(rows.into_iter().map(|(name, value)| [name.to_owned(), value]));
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A number as people read it: `12,345`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A bar for this many steps, drawn as the template says.
pub fn bar(steps: u64, template: &str) -> ProgressBar {
    // The templates are constants; a bar in the default style would do no harm.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style)
}
