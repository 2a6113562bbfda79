//! What people read on a terminal: names with values, tables and lines, in colours where they are wanted.
//!
//! Every text passes here cell by cell, so no id or answer brings along what a terminal would obey.

use comfy_table::{Attribute, Cell as Drawn, CellAlignment, Color, ContentArrangement, Table, presets};
use groupage_console::words::{grouped, moment, visible};
use groupage_core::domain::Timestamp;
use serde::{Serialize, Serializer};

use crate::output::time;

/// How a text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As any other.
    Plain,
    /// Less than others: a heading.
    Soft,
    /// All is well.
    Good,
    /// It waits, or is about to be well again.
    Wary,
    /// A person should look.
    Bad,
}

/// One text in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
    is_number: bool,
}

impl Cell {
    /// A text of this tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone, is_number: false }
    }

    /// A number, with its thousands apart.
    pub fn number(number: u64) -> Self {
        Self { text: grouped(number), tone: Tone::Plain, is_number: true }
    }

    /// A number that is bad unless it is zero.
    pub fn bad_number(number: u64) -> Self {
        let tone = if number > 0 { Tone::Bad } else { Tone::Plain };
        Self { tone, ..Self::number(number) }
    }

    fn drawn(&self) -> Drawn {
        let drawn = Drawn::new(visible(&self.text));
        let drawn = if self.is_number { drawn.set_alignment(CellAlignment::Right) } else { drawn };
        match self.tone {
            Tone::Plain => drawn,
            Tone::Soft => drawn.add_attribute(Attribute::Dim),
            Tone::Good => drawn.fg(Color::Green),
            Tone::Wary => drawn.fg(Color::Yellow),
            Tone::Bad => drawn.fg(Color::Red),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A moment: to programs its time on the clock, to people how long ago it was, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl Moment {
    /// For people.
    pub fn told(self, now: Timestamp) -> String {
        moment(self.0, now)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time(self.0))
    }
}

/// Parts of a text, one below the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sheet(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Facts(Vec<Vec<Cell>>),
    Table { title: &'static str, columns: &'static [&'static str], rows: Vec<Vec<Cell>> },
    Line(Cell),
}

impl Sheet {
    /// One line.
    pub fn line(text: impl Into<Cell>) -> Self {
        Self::default().with_line(text)
    }

    /// Names with values.
    pub fn facts<'a>(rows: impl IntoIterator<Item = (&'a str, Cell)>) -> Self {
        Self::default().with_facts(rows)
    }

    /// A table; its title may be empty.
    pub fn table(title: &'static str, columns: &'static [&'static str], rows: Vec<Vec<Cell>>) -> Self {
        Self::default().with_table(title, columns, rows)
    }

    /// The same with one line more.
    pub fn with_line(mut self, text: impl Into<Cell>) -> Self {
        self.0.push(Part::Line(text.into()));
        self
    }

    /// The same with names and values.
    pub fn with_facts<'a>(mut self, rows: impl IntoIterator<Item = (&'a str, Cell)>) -> Self {
        let rows = rows.into_iter().map(|(name, value)| vec![Cell::new(name, Tone::Soft), value]);
        self.0.push(Part::Facts(rows.collect()));
        self
    }

    /// The same with a table, if it has rows.
    pub fn with_table(mut self, title: &'static str, columns: &'static [&'static str], rows: Vec<Vec<Cell>>) -> Self {
        if !rows.is_empty() {
            self.0.push(Part::Table { title, columns, rows });
        }
        self
    }

    /// As text.
    pub fn text(&self, has_color: bool) -> String {
        self.0.iter().map(|part| part.text(has_color)).collect::<Vec<_>>().join("\n")
    }
}

impl Part {
    fn text(&self, has_color: bool) -> String {
        match self {
            Self::Facts(rows) => drawn(&[], rows, has_color),
            Self::Line(cell) => drawn(&[], &[vec![cell.clone()]], has_color),
            Self::Table { title, columns, rows } => {
                let above = if title.is_empty() { String::new() } else { format!("\n{title}:\n") };
                above + &drawn(columns, rows, has_color)
            }
        }
    }
}

fn drawn(columns: &[&str], rows: &[Vec<Cell>], has_color: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if has_color {
        table.enforce_styling();
    }
    if !columns.is_empty() {
        let is_number = |place: usize| rows.iter().all(|row| row.get(place).is_some_and(|cell| cell.is_number));
        let heading =
            |(place, name): (usize, &&str)| Cell { is_number: is_number(place), ..Cell::new(*name, Tone::Soft) };
        table.set_header(columns.iter().enumerate().map(heading).map(|cell| cell.drawn()));
    }
    for row in rows {
        table.add_row(row.iter().map(Cell::drawn));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use groupage_console::words::obeys;

    use super::*;

    fn sheet() -> Sheet {
        let rows = vec![
            vec![Cell::new("labels", Tone::Bad), Cell::number(12_345), Cell::from("a person")],
            vec![Cell::from("parcels"), Cell::number(7), Cell::from("its leader")],
        ];
        Sheet::facts([("status", Cell::from("frozen"))]).with_table("", &["route", "tasks", "waits for"], rows)
    }

    #[test]
    fn columns_stand_below_their_headings_and_numbers_at_their_right() {
        let text = sheet().text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["status", "frozen"]);
        let ends: Vec<usize> = [(1, "tasks"), (2, "12,345"), (3, "7")]
            .map(|(line, word)| lines[line].find(word).unwrap() + word.len())
            .into();
        assert_eq!(ends, [ends[0]; 3], "{text}");
        let begins: Vec<usize> = [(1, "waits for"), (2, "a person"), (3, "its leader")]
            .map(|(line, word)| lines[line].find(word).unwrap())
            .into();
        assert_eq!(begins, [begins[0]; 3], "{text}");
    }

    #[test]
    fn only_who_wants_colours_gets_any() {
        assert!(!sheet().text(false).contains('\u{1b}'));
        assert!(sheet().text(true).contains('\u{1b}'));
    }

    #[test]
    fn a_table_holds_nothing_that_a_terminal_would_obey() {
        let evil = "truck\u{1b}c";
        let text =
            Sheet::facts([("target", evil.into())]).with_line(evil).with_table("", &["id"], vec![vec![evil.into()]]);
        assert!(text.text(false).chars().all(|c| c == '\n' || !obeys(c)));
    }

    #[test]
    fn a_moment_is_a_clocks_time_to_programs_and_how_long_ago_to_people() {
        let at = Moment(Timestamp(0));
        assert_eq!(serde_json::to_value(at).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(at.told(Timestamp(3_000)), "3 s ago (1970-01-01T00:00:00.000Z)");
    }
}
