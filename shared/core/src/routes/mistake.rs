//! What is wrong with a routes file, told to people: where, which field, and what to write instead.

use super::Error;

/// The parser's error, with the field that it is about and in words that do not speak of the parser.
pub(super) fn told(yaml: &str, error: &serde_saphyr::Error) -> Error {
    let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
    let text = error.without_snippet().to_string();
    // The place is told once, in front.
    let text = text.strip_suffix(&format!(" at line {line}, column {column}")).unwrap_or(&text);
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let what = if yaml.lines().all(says_nothing) { "the file is empty".to_owned() } else { in_words(text) };
    let what = match field_at(yaml, line, column) {
        Some(field) if !what.contains(&format!("`{field}`")) => format!("`{field}`: {what}"),
        Some(_) | None => what,
    };
    Error { line, column, what }
}

/// The field whose value begins at this place.
fn field_at(yaml: &str, line: u64, column: u64) -> Option<String> {
    let line = yaml.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let before: String = line.chars().take(usize::try_from(column.checked_sub(1)?).ok()?).collect();
    let name = before.trim_end().strip_suffix(':')?.trim_end_matches([' ', '"', '\'']);
    let name = name.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (1..=64).contains(&name.len()).then(|| name.to_owned())
}

/// The parser's words, for people.
fn in_words(text: &str) -> String {
    let duplicate = text.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(',').next());
    if let Some(field) = duplicate {
        return format!("`{field}` is there twice");
    }
    match text {
        "expected mapping start" => "expected fields, such as `{ url: … }` of `http`, and not a single value",
        "expected sequence start" => "expected a list, each entry with a `-`",
        "expected string scalar" => "must be text",
        "cannot deserialize null into string; use Option<String>" => "must be text, and nothing is there",
        "invalid u64" => "must be a whole number that is not negative",
        "invalid boolean" => "must be true or false",
        "recursion limit exceeded" => "lists and fields lie too deep within each other",
        "unexpected value for unit enum variant" => "takes no options",
        "expected end of mapping after enum variant value" => "must be of one kind only",
        "externally tagged enum expected scalar or mapping" => "must be one word, or one kind with its options",
        text if text.starts_with("multiple YAML documents") => "the file must be one YAML document",
        other => return other.replace("unknown variant", "unknown value"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use crate::routes::Routes;

    fn what(route: &str) -> String {
        let yaml = format!("version: 1\nroutes:\n  - name: a\n    target: b\n    {route}\n    downstream: pull\n");
        Routes::parse(&yaml).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_names_its_field_and_what_the_field_takes() {
        for (route, told) in [
            ("shards: 0", "line 5, column 13: `shards`: must be from 1 to 64, not 0"),
            ("shards: auto", "line 5, column 13: `shards`: must be a whole number that is not negative"),
            ("batch: { express: maybe }", "line 5, column 23: `express`: must be true or false"),
            ("retry: { \"attempts\" : many }", "column 27: `attempts`: must be a whole number that is not negative"),
            ("limits: { in_flight: many }", "must be a whole number that is not negative"),
            ("limits: { in_flight: 1.5 }", "`in_flight`: must be a whole number that is not negative"),
            ("limits: { in_flight: 99999999999999999999 }", "`in_flight`: must be a whole number that is not negative"),
            ("limits: { in_flight: 0 }", "`in_flight`: must be from 1 to 1000, not 0"),
            ("when: [x]", "`when`: must be text"),
            ("when: 'a['", "`when`: `a[` is no JMESPath expression"),
            ("target: c", "`target` is there twice"),
            ("on_reject: shrug", "`on_reject`: unknown value `shrug`, expected one of fail, bisect"),
            ("batch: { colour: red }", "column 14: unknown field `colour`"),
        ] {
            let said = what(route);
            assert!(said.contains(told), "{said}");
        }
    }
}
