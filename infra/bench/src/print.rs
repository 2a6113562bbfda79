//! Figures for people (tables) or for programs (JSON) on standard output, and progress on standard error.

use std::fmt;
use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use groupage_aws::dollars::grouped;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// How figures are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

impl Output {
    /// Prints figures: as JSON, or the text for people.
    pub fn result<T: Serialize>(self, value: &T, text: &str) {
        let json = self.json.then(|| serde_json::to_string_pretty(value).unwrap_or_default());
        // Who closed the pipe has read enough.
        let _ = writeln!(io::stdout(), "{}", json.as_deref().unwrap_or(text));
    }

    /// Prints one of several figures as soon as they are known, if it is for people: programs get all of them at once.
    pub fn one_of_several<T: Serialize>(self, figures: &T) {
        if !self.json {
            let _ = writeln!(io::stdout(), "{}\n", tables(figures));
        }
    }

    /// Prints what [`Output::one_of_several`] kept back for programs.
    pub fn all<T: Serialize>(self, all: &[T]) {
        if self.json {
            self.result(&all, "");
        }
    }
}

/// What figures say as JSON.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Figure {
    Nothing(()),
    Whole(u64),
    Real(f64),
    Text(String),
    Several(Vec<Figure>),
    Named(Fields),
}

/// Figures with their names, in their order.
#[derive(Debug)]
struct Fields(Vec<(String, Figure)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("figures with names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                std::iter::from_fn(|| map.next_entry().transpose()).collect::<Result<_, _>>().map(Fields)
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Figures as tables that name them as their fields are named: a row for each of several, a single one from top to
/// bottom. What consists of several in its turn follows in a table of its own.
pub fn tables(figures: &impl Serialize) -> String {
    let json = serde_json::to_string(figures).unwrap_or_default();
    let mut grids = Vec::new();
    match serde_json::from_str(&json).unwrap_or(Figure::Nothing(())) {
        Figure::Several(rows) => rows.into_iter().for_each(|row| add(&mut grids, "", None, row)),
        single => add(&mut grids, "", None, single),
    }
    grids
        .iter()
        .filter(|grid| grid.rows.iter().any(|row| !row.is_empty()))
        .map(Grid::text)
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// A figure with the name of its column.
type Cell = (String, String);

/// Rows of one kind.
struct Grid {
    name: String,
    rows: Vec<Vec<Cell>>,
}

/// Adds a row to the grid of this name, behind the cell that says to which row of another it belongs.
fn add(grids: &mut Vec<Grid>, name: &str, of: Option<Cell>, row: Figure) {
    let (mut cells, mut parts) = (Vec::from_iter(of), Vec::new());
    spread(row, String::new(), &mut cells, &mut parts);
    let first = cells.first().cloned();
    match grids.iter_mut().find(|grid| grid.name == name) {
        Some(grid) => grid.rows.push(cells),
        None => grids.push(Grid { name: name.to_owned(), rows: vec![cells] }),
    }
    for (name, part) in parts {
        add(grids, &name, first.clone(), part);
    }
}

/// Puts a figure into the cells of its row, or aside if it needs rows of its own.
fn spread(figure: Figure, name: String, cells: &mut Vec<Cell>, parts: &mut Vec<(String, Figure)>) {
    match figure {
        Figure::Nothing(()) => {}
        Figure::Whole(number) => cells.push((name, grouped(number))),
        Figure::Real(number) if number >= 1_000.0 => cells.push((name, grouped(number.round() as u64))),
        Figure::Real(number) if number >= 10.0 => cells.push((name, format!("{number:.1}"))),
        Figure::Real(number) => cells.push((name, format!("{number:.4}"))),
        Figure::Text(text) => cells.push((name, text)),
        Figure::Several(several) => parts.extend(several.into_iter().map(|part| (name.clone(), part))),
        Figure::Named(Fields(fields)) => {
            for (field, figure) in fields {
                spread(figure, format!("{name} {field}").trim_start().replace('_', " "), cells, parts);
            }
        }
    }
}

impl Grid {
    fn text(&self) -> String {
        let mut columns: Vec<&str> = Vec::new();
        for (column, _) in self.rows.iter().flatten() {
            if !columns.contains(&column.as_str()) {
                columns.push(column);
            }
        }
        let cell = |row: &[Cell], of: &str| row.iter().find(|(name, _)| name == of).map(|(_, figure)| figure.clone());
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        match self.rows.as_slice() {
            [single] => table.add_rows(single.iter().map(|(name, figure)| [name, figure])),
            rows => table.set_header(&columns).add_rows(
                rows.iter()
                    .map(|row| columns.iter().map(|column| cell(row, column).unwrap_or_default()).collect::<Vec<_>>()),
            ),
        };
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{}\n{}", self.name, table.trim_fmt()).trim_start().to_owned()
    }
}

/// A bar for this many steps, drawn as the template says.
pub fn bar(steps: u64, template: &str) -> ProgressBar {
    // The templates are constants; a bar in the default style would do no harm.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn several_stand_in_rows_and_what_is_several_in_them_has_a_table_of_its_own() {
        let row = |name: &str, hops| json!({ "a_name": name, "way": { "p50_ms": 0.5 }, "hops": hops });
        let text = tables(&[row("x", json!([])), row("y", json!([{ "ms": 7 }, { "ms": 12_345.6 }]))]);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, ["a name way p50 ms", "x 0.5000", "y 0.5000", "", "hops", "a name ms", "y 7", "y 12,346"]);
    }

    #[test]
    fn a_single_one_stands_from_top_to_bottom() {
        let text = tables(&json!({ "tasks": 10_000, "memory": null, "share": 45.25 }));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["share", "45.2", "tasks", "10,000"]);
    }
}
