//! The comments of a source, line by line. Rust has `//`; Python, YAML, TOML and the shell have `#`; Python has
//! docstrings, too.

use crate::prose::LONGEST_LINE;

/// How the names of sources end. A script's name has no dot, and its first line says what runs it.
const ENDINGS: [&str; 5] = [".rs", ".py", ".yaml", ".yml", ".toml"];
const QUOTES: &str = "\"\"\"";

/// Whether a file is a source whose comments are known.
pub fn is_source(file: &str, text: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || !name.contains('.') && text.starts_with("#!")
}

/// The lines of a source that are comments, each with its number. A text in three quotation marks is a docstring if it
/// begins its line.
pub fn lines<'a>(file: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let (mark, is_python) = (if file.ends_with(".rs") { "//" } else { "#" }, file.ends_with(".py"));
    let (mut is_quoted, mut is_docstring) = (false, false);
    let is_comment = |(_, line): &(usize, &str)| {
        let line = line.trim_start();
        is_docstring = if is_quoted { is_docstring } else { is_python && line.starts_with(QUOTES) };
        let is_comment = is_docstring || !is_quoted && line.starts_with(mark);
        is_quoted ^= is_python && line.matches(QUOTES).count() % 2 == 1;
        is_comment
    };
    (1..).zip(text.lines()).filter(is_comment).collect()
}

/// What the comments of a source say, without their marks.
pub fn text(file: &str, text: &str) -> String {
    let lines = lines(file, text).into_iter();
    let bare = lines.map(|(_, line)| line.trim_start().trim_start_matches(['/', '!', '#']).replace(QUOTES, ""));
    bare.collect::<Vec<_>>().join("\n")
}

/// The numbers of the comment lines that are too long. A table's row cannot be broken, and neither can a long link.
pub fn long_lines(file: &str, text: &str) -> Vec<usize> {
    let is_prose = |line: &str| {
        let words = line.trim_start().trim_start_matches(['/', '!', '#']).trim_start();
        words.contains(' ') && !words.starts_with('|')
    };
    let long = lines(file, text).into_iter();
    let long = long.filter(|(_, line)| line.chars().count() > LONGEST_LINE && is_prose(line));
    long.map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_in_each_language() {
        assert_eq!(text("a.rs", "//! A\nlet b = 1; // c\n    /// D\n"), " A\n D");
        assert_eq!(text("run", "#!/bin/sh\n# A\necho # b\n"), "bin/sh\n A");
        let python =
            "\"\"\"A\n\nB.\"\"\"\nc = 1\n# D\ndef e():\n    \"\"\"F.\"\"\"\n    g(\"\"\"h\n# i\n\"\"\")\n# J\n";
        assert_eq!(text("a.py", python), "A\n\nB.\n D\nF.\n J");
    }

    #[test]
    fn a_long_comment_is_found_by_its_line_and_tables_and_code_are_no_comments() {
        let long = "a ".repeat(61);
        let link = "a".repeat(130);
        let rust = format!("/// {long}\n//! | {long} |\n{long}\n/// {link}\n// {long}\n");
        assert_eq!(long_lines("a.rs", &rust), [1, 5]);
        assert_eq!(long_lines("a.py", &format!("\"\"\"A\n{long}\n\"\"\"\nb = \"{long}\"\n")), [2]);
    }

    #[test]
    fn sources_are_told_by_their_names_and_scripts_by_their_first_line() {
        assert!(is_source("a/b.yaml", "") && is_source(".ci/run", "#!/bin/sh\n"));
        assert!(!is_source("LICENSE-MIT", "MIT") && !is_source("a.md", "#!x"));
    }
}
