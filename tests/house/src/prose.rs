//! What the docs read like: line and page length, long sentences, anchors that exist, phrases that do not help.

use std::collections::BTreeSet;

/// What a line of prose has at most, in characters.
pub const LONGEST_LINE: usize = 120;
/// A sentence of more words than these is too long.
pub const LONGEST_SENTENCE: usize = 35;
/// Phrases for which there is a plainer one: a subject with a name, "except", a number.
pub const UNPLAIN: [&str; 5] = ["whoever", "but for", "so many", "lest", "whomever"];

/// The lines outside code blocks, each with its number.
fn lines(markdown: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    markdown.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number, line))
    })
}

/// The numbers of prose lines that are too long. A table's row cannot be broken, and neither can a long link.
pub fn long_lines(markdown: &str) -> Vec<usize> {
    let is_prose = |line: &str| !line.starts_with(['|', '#', '!']) && line.trim().contains(' ');
    let long = lines(markdown).filter(|(_, line)| line.chars().count() > LONGEST_LINE && is_prose(line));
    long.map(|(number, _)| number).collect()
}

/// The sentences, with each word in backticks as one word.
pub fn sentences(markdown: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for (_, line) in lines(markdown) {
        let line = line.trim();
        if line.starts_with('|') {
            blocks.extend(line.replace("\\|", "/").split('|').map(|cell| cell.trim().to_owned()));
            blocks.push(String::new());
        } else if line.is_empty() || line.starts_with('#') {
            blocks.push(String::new());
        } else {
            if is_item(line) {
                blocks.push(String::new());
            }
            if let Some(block) = blocks.last_mut() {
                block.push_str(line.trim_start_matches("- "));
                block.push(' ');
            }
        }
    }
    blocks.iter().flat_map(|block| split(&without_code(block))).collect()
}

fn is_item(line: &str) -> bool {
    let number = line.split_once(". ").is_some_and(|(start, _)| start.bytes().all(|byte| byte.is_ascii_digit()));
    line.starts_with("- ") || number
}

/// The block with each piece of code, and each link's address, as one word without a full stop.
fn without_code(block: &str) -> String {
    let code = |(index, part): (usize, &str)| if index % 2 == 1 { "CODE".to_owned() } else { part.to_owned() };
    let text: String = block.split('`').enumerate().map(code).collect();
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

fn split(block: &str) -> Vec<String> {
    let mut sentences = vec![Vec::new()];
    let words: Vec<_> = block.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        if let Some(sentence) = sentences.last_mut() {
            sentence.push(*word);
        }
        let ends = word.trim_end_matches(['"', ')', '*', '_', '”']).ends_with(['.', '!', '?', ':']);
        let next = words
            .get(index + 1)
            .and_then(|next| next.trim_start_matches(['"', '(', '*', '_', '[', '“']).chars().next());
        if ends && next.is_some_and(|first| !first.is_lowercase()) {
            sentences.push(Vec::new());
        }
    }
    sentences.into_iter().filter(|words| !words.is_empty()).map(|words| words.join(" ")).collect()
}

/// The number of words of a sentence. A dash alone is none.
pub fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// The phrases of [`UNPLAIN`] that the text has.
pub fn unplain(markdown: &str) -> Vec<&'static str> {
    let text: String = sentences(markdown).join(" ").to_lowercase();
    let padded = format!(" {} ", text.replace(|letter: char| !letter.is_alphanumeric(), " "));
    UNPLAIN.into_iter().filter(|phrase| padded.contains(&format!(" {phrase} "))).collect()
}

/// The spellings that the glossary rejects, as the second column of its last table has them.
pub fn rejected_spellings(glossary: &str) -> Vec<&str> {
    let table = glossary.rsplit("| write | not |").next().unwrap_or_default();
    let rejected = lines(table).filter_map(|(_, line)| line.trim_end_matches('|').rsplit('|').next());
    rejected.flat_map(|cell| cell.split(',')).map(str::trim).filter(|word| word.contains(char::is_alphabetic)).collect()
}

/// Those of these spellings that the text has as whole words, outside code.
pub fn misspelt<'a>(markdown: &str, rejected: &[&'a str]) -> Vec<&'a str> {
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric() && letter != '-');
    let text = sentences(markdown).join(" ");
    let whole = |(start, word): (usize, &str)| {
        is_end(text[..start].chars().next_back()) && is_end(text[start + word.len()..].chars().next())
    };
    rejected.iter().copied().filter(|word| text.match_indices(word).any(whole)).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
pub fn anchors(markdown: &str) -> BTreeSet<String> {
    let headings = lines(markdown)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The files that a page links to, as the links have them, without anchors.
pub fn links(markdown: &str) -> Vec<&str> {
    targets(markdown).map(|link| link.split('#').next().unwrap_or(link)).filter(|file| !file.is_empty()).collect()
}

/// The links of a page that name an anchor: file as the link has it, empty for the page itself, and anchor.
pub fn anchored_links(markdown: &str) -> Vec<(&str, &str)> {
    targets(markdown).filter_map(|link| link.split_once('#')).collect()
}

fn targets(markdown: &str) -> impl Iterator<Item = &str> {
    let links = lines(markdown).flat_map(|(_, line)| line.split("](").skip(1));
    links.filter_map(|rest| rest.split([')', ' ']).next()).filter(|link| !link.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_full_stops_items_and_cells_but_not_in_code_or_links() {
        let found = sentences("One `a. B` two. Three\nfour.\n- Five [x](y. Z)\n\n| six | seven |\n```\nno\n```\n");
        assert_eq!(found, ["One CODE two.", "Three four.", "Five [x", "six", "seven"]);
        assert_eq!(words("One – `two`, three."), 3);
    }

    #[test]
    fn long_prose_is_found_by_its_line_and_tables_and_code_are_not_prose() {
        let long = "a ".repeat(61);
        assert_eq!(long_lines(&format!("{long}\n| {long} |\n```\n{long}\n```\n{long}\n")), [1, 6]);
    }

    #[test]
    fn phrases_are_found_as_whole_words() {
        assert_eq!(unplain("So\nmany. Whoever comes."), ["whoever", "so many"]);
        assert!(unplain("But forget it, unless `so many`.").is_empty());
    }

    #[test]
    fn a_rejected_spelling_is_found_as_a_whole_word_outside_code() {
        let rejected = rejected_spellings("| a | b |\n\n| write | not |\n|---|---|\n| x-y | x y, X |\n| z | zz |\n");
        assert_eq!(rejected, ["x y", "X", "zz"]);
        assert_eq!(misspelt("An x\ny, `zz`, xX and zz-top.", &rejected), ["x y"]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let page = "# A\n## How `x` works, in 2 steps\n```\n# no\n```\n[l](#a) [m](b.md#c)\n";
        assert_eq!(anchors(page), ["a".to_owned(), "how-x-works-in-2-steps".to_owned()].into());
        assert_eq!(anchored_links(page), [("", "a"), ("b.md", "c")]);
        assert_eq!(links(page), ["b.md"]);
    }
}
