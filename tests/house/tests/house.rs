//! The house is in order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use groupage_house::modules::{Modules, Use};
use groupage_house::{cargo, circles, docs, prose, reference};

/// Crates that the core must not know, by how their names begin: AWS, and what speaks to a network.
const OUTSIDE: [&str; 4] = ["aws", "lambda", "hyper", "reqwest"];

/// The layers of the core, from below: a module uses none of a later row, and no other of its own row.
const LAYERS: [&[&str]; 4] = [&["domain"], &["routes"], &["ports"], &["steps", "memory"]];

#[test]
fn the_core_depends_on_nothing_of_aws_and_on_no_network() {
    let crates = cargo::dependencies("groupage-core").unwrap();
    assert!(crates.iter().any(|name| name == "serde"), "not a tree of dependencies: {crates:?}");
    let outside: Vec<_> = crates.iter().filter(|name| OUTSIDE.iter().any(|start| name.starts_with(start))).collect();
    assert!(outside.is_empty(), "in the core's tree of dependencies: {outside:?}");
}

#[test]
fn modules_use_each_other_in_one_direction_only() {
    let mut found = String::new();
    for target in cargo::targets().unwrap() {
        for circle in circles::find(&target.name, &uses(&target.root)) {
            found += &format!("among {:?} of {}:\n  {}\n", circle.parts, circle.of, circle.arrows.join("\n  "));
        }
    }
    assert!(found.is_empty(), "circles\n{found}");
}

#[test]
fn the_layers_of_the_core_use_those_below_them_only() {
    let layer =
        |path: &[String]| LAYERS.iter().position(|row| path.first().is_some_and(|at| row.contains(&at.as_str())));
    let uses = uses(&cargo::workspace().join("shared/core/src/lib.rs"));
    assert!(uses.len() > 100, "only {} uses were read", uses.len());
    for Use { from, to, name } in uses {
        let (Some(user), Some(used)) = (layer(&from), layer(&to)) else {
            panic!("{from:?} or {to:?} is in no layer");
        };
        assert!(user > used || from[0] == to[0], "{from:?} uses {name} of {to:?}, which lies beside or above it");
    }
}

#[test]
fn every_path_in_the_docs_leads_somewhere() {
    let top = cargo::workspace();
    let tree = docs::Tree::read(&top).unwrap();
    let mut stale = String::new();
    for file in tree.files(".md").chain(tree.files(".rs")) {
        let text = std::fs::read_to_string(top.join(file)).unwrap();
        let text = match file {
            "CHANGELOG.md" => docs::newest_entry(&text).to_owned(),
            file if file.ends_with(".rs") => docs::comments(&text),
            _ => text,
        };
        tree.stale(file, &text).iter().for_each(|path| stale += &format!("{file}: {path}\n"));
    }
    assert!(stale.is_empty(), "these lead nowhere:\n{stale}");
}

/// The schema is generated from the types, so a new kind of downstream appears here by itself.
#[test]
fn the_guide_says_of_each_kind_of_downstream_what_the_template_must_allow() {
    let read = |file: &str| std::fs::read_to_string(cargo::workspace().join(file)).unwrap();
    let (guide, template) = (read("docs/guides/downstreams.md"), read("template.yaml"));
    let kinds = docs::downstream_kinds(&read("infra/schemas/routes.json"));
    assert!(kinds.contains(&"pull".to_owned()), "not the kinds of downstream: {kinds:?}");
    for kind in kinds {
        let start = format!("| `{kind}");
        let row = guide.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/guides/downstreams.md has no row for `downstream: {kind}`"));
        let allowed = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        for word in allowed.split('`').skip(1).step_by(2) {
            assert!(template.contains(word), "template.yaml has no `{word}`, which `downstream: {kind}` needs");
        }
    }
}

fn uses(root: &Path) -> Vec<Use> {
    Modules::read(root).unwrap().uses()
}

#[test]
fn every_alarm_has_an_entry_in_the_runbook_and_every_entry_an_alarm() {
    let read = |path: &str| std::fs::read_to_string(cargo::workspace().join(path)).unwrap();
    let (template, runbook) = (read("infra/alarms.yaml"), read("docs/operations.md"));
    let lines: Vec<&str> = template.lines().collect();
    let is_alarm = |pair: &[&str]| pair[1].trim() == "Type: AWS::CloudWatch::Alarm";
    let alarms: BTreeSet<&str> =
        lines.windows(2).filter(|pair| is_alarm(pair)).map(|pair| pair[0].trim().trim_end_matches(':')).collect();
    let entries: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(alarms.len() > 5, "these are not the alarms: {alarms:?}");
    assert_eq!(alarms, entries);
}

/// What people read: docs, README and the other pages of the top level. The changelog is looked up.
fn pages() -> Vec<(String, String)> {
    let top = cargo::workspace();
    let tree = docs::Tree::read(&top).unwrap();
    let names =
        tree.files(".md").filter(|file| file.starts_with("docs/") || !file.contains('/') && *file != "CHANGELOG.md");
    let pages: Vec<_> = names.map(|file| (file.to_owned(), std::fs::read_to_string(top.join(file)).unwrap())).collect();
    assert!(pages.len() > 30, "only {} pages were read", pages.len());
    pages
}

#[test]
fn pages_are_short_and_their_lines_too() {
    let mut found = String::new();
    for (file, text) in pages() {
        let (most, lines) = (if file == "README.md" { 200 } else { 300 }, text.lines().count());
        if lines > most {
            found += &format!("{file} has {lines} lines, more than {most}\n");
        }
        prose::long_lines(&text).iter().for_each(|line| found += &format!("{file}:{line} is longer than 120\n"));
    }
    let changelog = std::fs::read_to_string(cargo::workspace().join("CHANGELOG.md")).unwrap();
    prose::long_lines(&changelog).iter().for_each(|line| found += &format!("CHANGELOG.md:{line} is longer than 120\n"));
    assert!(found.is_empty(), "{found}");
}

#[test]
fn the_readme_is_read_in_one_sitting() {
    let readme = std::fs::read_to_string(cargo::workspace().join("README.md")).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 1_800, "README.md has {words} words");
}

/// Nobody has to be told who is meant, and no sentence has to be read twice.
#[test]
fn sentences_are_short_and_plain() {
    let mut found = String::new();
    for (file, text) in pages() {
        for sentence in prose::sentences(&text) {
            let words = prose::words(&sentence);
            if words > prose::LONGEST_SENTENCE {
                found += &format!("{file}, {words} words: {sentence}\n");
            }
        }
        prose::unplain(&text).iter().for_each(|phrase| found += &format!("{file} has \"{phrase}\"\n"));
    }
    assert!(found.is_empty(), "{found}");
}

/// A comment is read as often as a page, and by people in a hurry.
#[test]
fn comments_are_plain() {
    let top = cargo::workspace();
    let mut found = String::new();
    for file in docs::Tree::read(&top).unwrap().files(".rs") {
        let comments = docs::comments(&std::fs::read_to_string(top.join(file)).unwrap());
        prose::unplain(&comments).iter().for_each(|phrase| found += &format!("{file} has \"{phrase}\"\n"));
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn words_are_spelt_as_the_glossary_says() {
    let top = cargo::workspace();
    let read = |file: &str| std::fs::read_to_string(top.join(file)).unwrap();
    const GLOSSARY: &str = "docs/reference/glossary.md";
    let glossary = read(GLOSSARY);
    let rejected = prose::rejected_spellings(&glossary);
    assert!(rejected.len() > 20, "not the table of spellings: {rejected:?}");
    let tree = docs::Tree::read(&top).unwrap();
    let comments = tree.files(".rs").map(|file| (file.to_owned(), docs::comments(&read(file))));
    let mut found = String::new();
    for (file, text) in pages().into_iter().chain(comments).filter(|(file, _)| file != GLOSSARY) {
        prose::misspelt(&text, &rejected).iter().for_each(|word| found += &format!("{file} has \"{word}\"\n"));
    }
    assert!(found.is_empty(), "{found}");
}

/// Each state diagram has the states of its enum, so a new state is drawn or this fails.
#[test]
fn state_diagrams_have_the_states_of_the_code() {
    let read = |file: &str| std::fs::read_to_string(cargo::workspace().join(file)).unwrap();
    for (page, source) in [
        ("docs/design/batches.md", "shared/core/src/domain/batch/status.rs"),
        ("docs/reference/task-message.md", "shared/core/src/domain/task.rs"),
    ] {
        let (drawn, stored) = (docs::states_drawn(&read(page)), docs::states_stored(&read(source)));
        assert!(stored.len() > 3, "not the states of {source}: {stored:?}");
        assert_eq!(drawn, stored, "{page} and {source}");
    }
}

/// A row without a test says "only live"; a test that is renamed is found here.
#[test]
fn every_behaviour_of_aws_has_a_test_or_says_that_it_has_none() {
    let top = cargo::workspace();
    let read = |file: &str| std::fs::read_to_string(top.join(file)).unwrap();
    let tree = docs::Tree::read(&top).unwrap();
    let sources: String = tree.files(".rs").chain(tree.files(".py")).map(read).collect();
    let page = read("docs/design/aws.md");
    let (mut rows, mut named) = (0, 0);
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| shown by |")) {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let tests: Vec<_> = shown_by.split('`').skip(1).step_by(2).collect();
        for test in &tests {
            let defined = [format!("fn {test}("), format!("def {test}(")];
            assert!(defined.iter().any(|start| sources.contains(start)), "there is no test `{test}`");
        }
        assert!(!tests.is_empty() || shown_by.contains("nly live") || shown_by.contains("](evidence.md)"), "{row}");
        (rows, named) = (rows + 1, named + tests.len());
    }
    assert!(rows > 20 && named > 20, "not the tables: {rows} rows, {named} tests");
}

#[test]
fn every_anchor_in_the_docs_exists() {
    let pages: BTreeMap<_, _> = pages().into_iter().collect();
    let mut dead = String::new();
    for (file, text) in &pages {
        for (link, anchor) in prose::anchored_links(text) {
            let page = if link.is_empty() { file.clone() } else { docs::beside(file, link) };
            if !pages.get(&page).is_some_and(|page| prose::anchors(page).contains(anchor)) {
                dead += &format!("{file}: {link}#{anchor}\n");
            }
        }
    }
    assert!(dead.is_empty(), "these anchors are not there:\n{dead}");
}

#[test]
fn every_page_is_two_clicks_from_the_index() {
    let pages: BTreeMap<_, _> = pages().into_iter().collect();
    let named = |file: &str| {
        let links = prose::links(&pages[file]).into_iter().map(|link| docs::beside(file, link));
        links.filter(|page| pages.contains_key(page)).collect::<BTreeSet<_>>()
    };
    let first = named("docs/README.md");
    let second: BTreeSet<_> = first.iter().flat_map(|page| named(page)).collect();
    let missed: Vec<_> = pages.keys().filter(|page| !first.contains(*page) && !second.contains(*page)).collect();
    assert!(missed.is_empty(), "not named by docs/README.md, nor by a page that it names: {missed:?}");
}

/// `GROUPAGE_REWRITE=1 cargo test -p groupage-house` writes what has changed.
#[test]
fn the_generated_reference_is_what_the_code_says() {
    let top = cargo::workspace();
    let read = |file: &str| std::fs::read_to_string(top.join(file)).unwrap();
    let json = |file: &str| serde_json::from_str(&read(file)).unwrap();
    let make = |name: &str| match name {
        "routes" => Some(reference::schema(&json("infra/schemas/routes.json"))),
        "task-message" => Some(reference::schema(&json("infra/schemas/task-message.json"))),
        "metrics" => Some(reference::metrics(&read("shared/aws/src/entry/metrics.rs"))),
        "parameters" => Some(reference::parameters(&read("template.yaml"))),
        "outputs" => Some(reference::outputs(&read("template.yaml"))),
        _ => None,
    };
    let (mut parts, mut stale) = (0, Vec::new());
    for (file, text) in pages() {
        parts += text.matches("<!-- generated: ").count();
        let made = reference::regenerate(&text, make).unwrap();
        if made != text && std::env::var_os("GROUPAGE_REWRITE").is_some() {
            std::fs::write(top.join(&file), made).unwrap();
        } else if made != text {
            stale.push(file);
        }
    }
    assert_eq!(parts, 5, "not the parts that can be made");
    assert!(stale.is_empty(), "stale, GROUPAGE_REWRITE=1 writes them: {stale:?}");
}

/// Codes that senders, callers and logs meet, wherever the code writes them.
#[test]
fn every_code_is_in_the_reference() {
    let top = cargo::workspace();
    let read = |file: &str| std::fs::read_to_string(top.join(file)).unwrap();
    let codes = reference::variants(&read("shared/core/src/domain/task_message.rs"), "Code").into_iter();
    let codes: Vec<String> = codes.map(|(name, _)| docs::in_snake_case(&name)).collect();
    let kinds = docs::quoted_after(&read("api/src/problem.rs"), "\"urn:");
    let mut reasons = Vec::new();
    for file in docs::Tree::read(&top)
        .unwrap()
        .files(".rs")
        .filter(|file| file.starts_with("shared/") && !file.contains("/examples/"))
    {
        let source = read(file);
        let source = source.split("#[cfg(test)]").next().unwrap();
        let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
        let starts = ["Reason::new(\"", "_LOST: &str = \"", "NO_RESULT: &str = \"", "_FAILED: &str = \""];
        starts.iter().filter(|_| !is_test).for_each(|start| reasons.extend(docs::quoted_after(source, start)));
    }
    assert!(codes.len() > 15 && kinds.len() > 8 && reasons.len() > 8, "{codes:?} {kinds:?} {reasons:?}");
    let answers = docs::quoted_after(&read("shared/core/src/routes/answer.rs"), "\"answer_");
    reasons.extend(answers.into_iter().map(|end| format!("answer_{end}")));
    let calls = docs::quoted_after(&read("api/src/lib.rs"), ".route(\"");
    let pages = [("task-message", codes), ("http-api", kinds), ("http-api", calls), ("reasons", reasons)];
    for (page, words) in pages {
        let text = read(&format!("docs/reference/{page}.md"));
        let missing: Vec<_> = words.iter().filter(|word| !text.contains(word.as_str())).collect();
        assert!(missing.is_empty(), "docs/reference/{page}.md does not have {missing:?}");
    }
}
