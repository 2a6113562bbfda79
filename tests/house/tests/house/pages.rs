//! What people read is short, plain and leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use groupage_house::{cargo, comments, docs, prose};

use crate::{pages, read, tree};

/// The files whose comments people read.
fn sources() -> Vec<(String, String)> {
    let tree = tree();
    let texts = tree.files("").filter_map(|file| {
        let text = std::fs::read(cargo::workspace().join(file)).ok()?;
        Some((file.to_owned(), String::from_utf8(text).ok()?))
    });
    texts.filter(|(file, text)| comments::is_source(file, text)).collect()
}

#[test]
fn every_path_in_the_docs_leads_somewhere() {
    let tree = tree();
    let mut stale = String::new();
    for file in tree.files(".md").chain(tree.files(".rs")) {
        let text = read(file);
        let text = match file {
            "CHANGELOG.md" => docs::newest_entry(&text).to_owned(),
            file if file.ends_with(".rs") => comments::text(file, &text),
            _ => text,
        };
        tree.stale(file, &text).iter().for_each(|path| stale += &format!("{file}: {path}\n"));
    }
    assert!(stale.is_empty(), "these lead nowhere:\n{stale}");
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
    let changelog = read("CHANGELOG.md");
    prose::long_lines(&changelog).iter().for_each(|line| found += &format!("CHANGELOG.md:{line} is longer than 120\n"));
    assert!(found.is_empty(), "{found}");
}

#[test]
fn the_readme_is_read_in_one_sitting() {
    let words = read("README.md").split_whitespace().count();
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
fn comments_are_plain_and_their_lines_short() {
    let sources = sources();
    assert!(sources.len() > 300, "only {} sources were read", sources.len());
    let mut found = String::new();
    for (file, text) in sources {
        prose::unplain(&comments::text(&file, &text))
            .iter()
            .for_each(|phrase| found += &format!("{file} has \"{phrase}\"\n"));
        comments::long_lines(&file, &text)
            .iter()
            .for_each(|line| found += &format!("{file}:{line} is longer than 120\n"));
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn words_are_spelt_as_the_glossary_says() {
    const GLOSSARY: &str = "docs/reference/glossary.md";
    let glossary = read(GLOSSARY);
    let rejected = prose::rejected_spellings(&glossary);
    assert!(rejected.len() > 20, "not the table of spellings: {rejected:?}");
    let comments = sources().into_iter().map(|(file, text)| (file.clone(), comments::text(&file, &text)));
    let mut found = String::new();
    for (file, text) in pages().into_iter().chain(comments).filter(|(file, _)| file != GLOSSARY) {
        prose::misspelt(&text, &rejected).iter().for_each(|word| found += &format!("{file} has \"{word}\"\n"));
    }
    assert!(found.is_empty(), "{found}");
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
