//! The generated parts of the reference: tables of what the code itself says of its fields, parameters and metrics.
//!
//! A page holds a part between `<!-- generated: NAME -->` and `<!-- end -->`. The test compares it with what is made
//! here, and writes it if `GROUPAGE_REWRITE` is set. So a field cannot be missing in the reference.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::prose::LONGEST_LINE;

const END: &str = "<!-- end -->";

/// A page with each of its parts as `make` makes it. A part whose name `make` does not know is an error.
pub fn regenerate(page: &str, make: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut written = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (name, part) = after.split_once(" -->").ok_or("a part without a name")?;
        let (_, behind) = part.split_once(END).ok_or_else(|| format!("part {name} has no end"))?;
        let made = make(name).ok_or_else(|| format!("nothing makes {name}"))?;
        let _ = write!(written, "{before}<!-- generated: {name} -->\n\n{}\n\n{END}", made.trim());
        rest = behind;
    }
    Ok(written + rest)
}

/// A row of a table. What would end a cell is escaped.
fn row(cells: &[&str]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('\n', " ").replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// A section for each type of a JSON Schema, the root first.
pub fn schema(schema: &Value) -> String {
    sections(schema, section(schema), |_| true)
}

/// The same on two pages: the second, which is `page`, has the type `under` and what only that needs.
pub fn schema_on_two_pages(schema: &Value, under: &str, page: &str, first: &str) -> (String, String) {
    let rest = needed(schema, schema, under);
    let (of_first, of_second) = (|name: &str| rest.contains(name), |name: &str| !rest.contains(name));
    let link = |mut text: String, there: &dyn Fn(&str) -> bool, page: &str| {
        for name in schema["$defs"].as_object().into_iter().flatten().map(|(name, _)| name).filter(|name| there(name)) {
            let anchor = format!("](#{})", name.to_lowercase());
            text = text.replace(&anchor, &format!("]({page}{}", &anchor[2..]));
        }
        text
    };
    let one = link(sections(schema, section(schema), of_first), &of_second, page);
    (one, link(sections(schema, String::new(), of_second), &of_first, first))
}

fn sections(schema: &Value, mut written: String, has: impl Fn(&str) -> bool) -> String {
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten().filter(|(name, _)| has(name)) {
        let _ = write!(written, "\n## {name}\n\n{}\n\n{}", wrapped(&text(definition)), section(definition));
    }
    written
}

/// The types that a part of a schema needs, except those that only the type `without` needs.
fn needed(schema: &Value, part: &Value, without: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut parts = vec![part];
    while let Some(part) = parts.pop() {
        match part {
            Value::Object(fields) => {
                parts.extend(fields.iter().filter(|(name, _)| *name != "$defs").map(|(_, one)| one))
            }
            Value::Array(all) => parts.extend(all),
            Value::String(text) => {
                let name = text.strip_prefix("#/$defs/").filter(|name| *name != without);
                if let Some(name) = name.filter(|name| found.insert((*name).to_owned())) {
                    parts.push(&schema["$defs"][name]);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

fn section(definition: &Value) -> String {
    if let Some(fields) = definition["properties"].as_object() {
        return table(fields, &definition["required"]);
    }
    let variants = definition["oneOf"].as_array().or_else(|| definition["anyOf"].as_array());
    if let Some(variants) = variants {
        return variants.iter().map(variant).collect();
    }
    match definition["enum"].as_array() {
        Some(values) => format!("One of {}.\n", list(values.iter())),
        None => definition["pattern"].as_str().map_or_else(String::new, |of| format!("Text that matches `{of}`.\n")),
    }
}

fn table(fields: &serde_json::Map<String, Value>, required: &Value) -> String {
    let mut written = row(&["field", "value", "default", "meaning"]) + "|---|---|---|---|\n";
    for (name, field) in fields {
        let is_required = required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let default = match &field["default"] {
            Value::Null if is_required => "required".to_owned(),
            Value::Null => String::new(),
            value => format!("`{}`", plain(value)),
        };
        written += &row(&[&format!("`{name}`"), &value(field), &default, &text(field)]);
    }
    written
}

/// One form of a value: a word, or an object with a field of its own.
fn variant(variant: &Value) -> String {
    let form = match (variant["const"].as_str(), variant["properties"].as_object()) {
        (Some(word), _) => format!("`{word}`"),
        (None, Some(fields)) => {
            let fields = fields.iter().map(|(name, field)| format!("`{name}:` {}", value(field)));
            fields.collect::<Vec<_>>().join(", ")
        }
        (None, None) => value(variant),
    };
    format!("- {}\n", wrapped(&format!("{form}: {}", text(variant))).replace('\n', "\n  "))
}

/// What a field may hold.
fn value(field: &Value) -> String {
    if let Some(target) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{target}](#{})", target.to_lowercase());
    }
    if let Some(forms) = field["anyOf"].as_array() {
        return forms.iter().filter(|form| form["type"] != "null").map(value).collect::<Vec<_>>().join(" or ");
    }
    let kind = match &field["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match (field["minimum"].as_u64(), field["maximum"].as_u64()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{} to {}", grouped(low), grouped(high)),
        _ => match kind {
            "array" => format!("a list of {}", value(&field["items"])),
            "boolean" => "`true` or `false`".to_owned(),
            "string" => field["pattern"].as_str().map_or("text".to_owned(), |pattern| format!("text, `{pattern}`")),
            "object" if field["additionalProperties"]["$ref"].is_string() => {
                format!("names and {}", value(&field["additionalProperties"]))
            }
            "object" => "an object".to_owned(),
            other => other.to_owned(),
        },
    }
}

fn text(definition: &Value) -> String {
    definition["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(|value| format!("`{}`", plain(value))).collect::<Vec<_>>().join(", ")
}

pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A paragraph in lines that a page may have, also as an item of a list.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let length = lines.last().map_or(0, |line| line.chars().count());
        if length > 0 && length + 1 + word.chars().count() > LONGEST_LINE - 2 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// The variants of an enum in a Rust source, each with the first paragraph of its doc comment.
pub fn variants(source: &str, name: &str) -> Vec<(String, String)> {
    let Ok(file) = syn::parse_file(source) else { return Vec::new() };
    let found = file.items.into_iter().find_map(|item| match item {
        syn::Item::Enum(item) if item.ident == name => Some(item),
        _ => None,
    });
    let variants = found.into_iter().flat_map(|item| item.variants);
    variants.map(|variant| (variant.ident.to_string(), comment(&variant.attrs))).collect()
}

fn comment(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// A table of an enum's variants.
pub fn metrics(source: &str) -> String {
    let head = row(&["metric", "counts"]) + "|---|---|\n";
    let rows = variants(source, "Metric").into_iter();
    head + &rows.map(|(name, meaning)| row(&[&format!("`{name}`"), &meaning])).collect::<String>()
}

/// An entry of a section of a template: its name and its fields of one line.
struct Entry<'a> {
    name: &'a str,
    fields: Vec<(&'a str, String)>,
}

impl Entry<'_> {
    fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}

/// The entries of a template's section. Only the template's own way to write is understood: two spaces a level, and
/// texts on one line or folded (`>-`).
fn entries<'a>(template: &'a str, section: &str) -> Vec<Entry<'a>> {
    let start = format!("{section}:");
    let lines = template.lines().skip_while(|line| *line != start).skip(1);
    let mut entries: Vec<Entry<'a>> = Vec::new();
    for line in lines.take_while(|line| line.is_empty() || line.starts_with([' ', '#'])) {
        let text = line.trim();
        let depth = line.len() - line.trim_start().len();
        let Some(entry) = entries.last_mut().filter(|_| depth > 2) else {
            let name = text.strip_suffix(':').filter(|_| depth == 2 && !text.starts_with('#'));
            entries.extend(name.map(|name| Entry { name, fields: Vec::new() }));
            continue;
        };
        match (depth, text.split_once(": ")) {
            (4, _) if text.starts_with('#') => {}
            (4, Some((field, ">-"))) => entry.fields.push((field, String::new())),
            (4, Some((field, value))) => entry.fields.push((field, value.trim_matches('"').to_owned())),
            _ => {
                if let Some((_, value)) = entry.fields.last_mut() {
                    *value = format!("{value} {text}").trim().to_owned();
                }
            }
        }
    }
    entries
}

/// A table of a template's parameters.
pub fn parameters(template: &str) -> String {
    let mut written = row(&["parameter", "default", "value", "meaning"]) + "|---|---|---|---|\n";
    for entry in entries(template, "Parameters") {
        let default = match entry.field("Default") {
            "" => "none".to_owned(),
            value => format!("`{value}`"),
        };
        let value =
            match (entry.field("MinValue").parse(), entry.field("MaxValue").parse(), entry.field("AllowedValues")) {
                (Ok(low), Ok(high), _) => format!("{} to {}", grouped(low), grouped(high)),
                (_, _, "") => entry.field("Type").to_owned(),
                (_, _, allowed) => allowed.trim_matches(['[', ']']).to_owned(),
            };
        written += &row(&[&format!("`{}`", entry.name), &default, &value, entry.field("Description")]);
    }
    written
}

/// A table of a template's outputs.
pub fn outputs(template: &str) -> String {
    let head = row(&["output", "is"]) + "|---|---|\n";
    let rows = entries(template, "Outputs").into_iter();
    let meaning = |entry: &Entry<'_>| match entry.field("Description") {
        "" => entry.field("Value").trim_start_matches("!Ref ").to_owned(),
        text => text.to_owned(),
    };
    head + &rows.map(|entry| row(&[&format!("`{}`", entry.name), &meaning(&entry)])).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_what_stands_around_it_stays() {
        let page = "# A\n<!-- generated: x -->\nold\n<!-- end -->\nB\n";
        let made = regenerate(page, |name| (name == "x").then(|| "new".to_owned()));
        assert_eq!(made.as_deref(), Ok("# A\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nB\n"));
        assert!(regenerate(page, |_| None).is_err());
    }

    #[test]
    fn parameters_are_read_with_folded_texts_limits_and_comments() {
        let template = "Parameters:\n  A:\n    Type: Number\n    Default: 2\n    # why\n    MinValue: 1\n    MaxValue: 6000\n    \
                        Description: >-\n      One\n      two.\n  B:\n    Type: String\n    Default: \"\"\nOutputs:\n";
        let made = parameters(template);
        assert!(made.contains("| `A` | `2` | 1 to 6,000 | One two. |"), "{made}");
        assert!(made.contains("| `B` | none | String |  |"), "{made}");
    }

    #[test]
    fn fields_have_their_ranges_defaults_and_links() {
        let schema = serde_json::json!({
            "properties": { "n": { "type": "integer", "minimum": 1, "maximum": 9000, "default": 5, "description": "A|b" },
                            "o": { "$ref": "#/$defs/Other" } },
            "required": ["o"],
            "$defs": { "Other": { "description": "It.", "oneOf": [{ "const": "a", "description": "First." }] } },
        });
        let made = self::schema(&schema);
        assert!(made.contains("| `n` | 1 to 9,000 | `5` | A\\|b |"), "{made}");
        assert!(made.contains("| `o` | [Other](#other) | required |  |"), "{made}");
        assert!(made.contains("## Other\n\nIt.\n\n- `a`: First.\n"), "{made}");
    }
}
