//! Paths in docs: every word that looks like a path of this repository leads somewhere.
//!
//! Looked at are words in backticks, in Markdown and in the comments of Rust files, and the targets of Markdown's
//! links. A word with a slash is a path if its first part is an entry of the top level, or a folder anywhere:
//! `steps/sweep` is short for `shared/core/src/steps/sweep`. A word without one is a path if it ends like a source
//! file. `*` stands for any name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a file without a slash must end with to be looked for.
const ENDINGS: [&str; 3] = [".rs", ".md", ".py"];

/// Every file and folder of the repository, as paths from its top.
pub struct Tree {
    entries: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Tree {
    /// Reads what lies below `top`, without what is built or downloaded.
    pub fn read(top: &Path) -> std::io::Result<Self> {
        let mut tree = Self { entries: BTreeSet::new(), folders: BTreeSet::new() };
        tree.add(top, "")?;
        Ok(tree)
    }

    fn add(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["target", ".git", "__pycache__", "groupage-data"].contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                self.add(&entry.path(), &format!("{path}/"))?;
                self.folders.insert(name);
            }
            self.entries.insert(path);
        }
        Ok(())
    }

    /// All files whose names end so.
    pub fn files<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(String::as_str).filter(move |path| path.ends_with(ending))
    }

    /// The words of `text`, as `file` has it, that look like paths and lead nowhere.
    pub fn stale<'a>(&self, file: &str, text: &'a str) -> Vec<&'a str> {
        let quoted = text.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).map(bare);
        let quoted = quoted.filter(|word| self.looks_like_a_path(word) && !self.leads_somewhere(word));
        let linked = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        let linked = linked.filter(|link| file.ends_with(".md") && !link.is_empty() && !link.contains([':', '`']));
        quoted.chain(linked.filter(|link| !self.entries.contains(&beside(file, link)))).collect()
    }

    fn looks_like_a_path(&self, word: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-*".contains(&byte);
        if !word.bytes().all(plain) || word.starts_with(['/', '*']) {
            return false;
        }
        match word.split_once('/') {
            Some((first, rest)) => !rest.is_empty() && self.folders.contains(first),
            None => ENDINGS.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending)),
        }
    }

    fn leads_somewhere(&self, word: &str) -> bool {
        let word: Vec<&str> = word.trim_end_matches('/').split('/').collect();
        self.entries.iter().any(|entry| {
            let entry: Vec<&str> = entry.split('/').collect();
            let end = &entry[entry.len().saturating_sub(word.len())..];
            end.len() == word.len() && end.iter().zip(&word).all(|(name, pattern)| fits(name, pattern))
        })
    }
}

/// A word without the line that it may point at, and without the end of its sentence.
fn bare(word: &str) -> &str {
    word.split([':', '#']).next().unwrap_or(word).trim_end_matches([',', ';', '.'])
}

fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => name == pattern,
    }
}

/// Where a link leads from a file.
pub fn beside(file: &str, link: &str) -> String {
    let mut path = PathBuf::from(file);
    path.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                path.pop();
            }
            name => path.push(name),
        }
    }
    path.to_string_lossy().into_owned()
}

/// A changelog up to the end of its newest entry: what older ones name may be gone.
pub fn newest_entry(changelog: &str) -> &str {
    changelog.match_indices("\n## ").nth(1).map_or(changelog, |(end, _)| &changelog[..end])
}

/// The kinds of downstream that the routes' JSON Schema knows, as a routes file names them.
pub fn downstream_kinds(schema: &str) -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap_or_default();
    let variants = schema["$defs"]["Downstream"]["oneOf"].as_array().cloned().unwrap_or_default();
    let name =
        |variant: &serde_json::Value| variant["const"].as_str().or(variant["required"][0].as_str()).map(str::to_owned);
    variants.iter().filter_map(name).collect()
}

/// The states that a page's diagram has, in the words that are stored: a hyphen is an underscore there.
pub fn states_drawn(markdown: &str) -> BTreeSet<String> {
    let diagram =
        markdown.split("stateDiagram-v2").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let arrows = diagram.lines().filter_map(|line| line.split(':').next()?.split_once("-->"));
    let ends = arrows.flat_map(|(from, to)| [from, to]).map(|state| state.trim().replace('_', "-"));
    ends.filter(|state| state != "[*]").collect()
}

/// The words in which a source's enums of states are stored or shown: what its functions `word` give, as text or by a
/// constant.
pub fn states_stored(source: &str) -> BTreeSet<String> {
    let bodies = source.split("fn word(").skip(1).filter_map(|rest| rest.split("\n    }\n").next());
    let given = bodies.flat_map(|body| body.split("=> ").skip(1)).filter_map(|arm| arm.split(',').next());
    let text = |given: &str| match given.strip_prefix('"') {
        Some(text) => vec![text.trim_end_matches('"').to_owned()],
        None => quoted_after(source, &format!("const {given}: &str = \"")),
    };
    given.flat_map(text).collect()
}

/// The words in a source that stand between `start` and the next quotation mark.
pub fn quoted_after(source: &str, start: &str) -> Vec<String> {
    source.split(start).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// A name as `rename_all = "snake_case"` writes it.
pub fn in_snake_case(name: &str) -> String {
    let letters = name.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_lowercase()));
    letters.collect::<String>().trim_start_matches('_').to_owned()
}
