//! The reference has all that the code has.

use std::collections::BTreeSet;

use groupage_house::reasons::Given;
use groupage_house::{cargo, docs, limits, reasons, reference};

use crate::{pages, read, tree};

/// The schema is generated from the types, so a new kind of downstream appears here by itself.
#[test]
fn the_guide_says_of_each_kind_of_downstream_what_the_template_must_allow() {
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

#[test]
fn every_alarm_has_an_entry_in_the_runbook_and_every_entry_an_alarm() {
    let (template, runbook) = (read("infra/alarms.yaml"), read("docs/operations.md"));
    let lines: Vec<&str> = template.lines().collect();
    let types = ["Type: AWS::CloudWatch::Alarm", "Type: AWS::CloudWatch::CompositeAlarm"];
    let is_alarm = |pair: &[&str]| types.contains(&pair[1].trim());
    let alarms: BTreeSet<&str> =
        lines.windows(2).filter(|pair| is_alarm(pair)).map(|pair| pair[0].trim().trim_end_matches(':')).collect();
    // One entry may be about alarms that belong together.
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    let entries: BTreeSet<&str> = headings.flat_map(|names| names.split(", ")).collect();
    assert!(alarms.len() > 5, "these are not the alarms: {alarms:?}");
    assert_eq!(alarms, entries);
}

/// Each state diagram has the states of its enum, so a new state is drawn or this fails.
#[test]
fn state_diagrams_have_the_states_of_the_code() {
    let task = ["shared/core/src/domain/task.rs", "shared/core/src/domain/traits.rs"];
    for (page, sources) in [
        ("docs/design/batches.md", &["shared/core/src/domain/batch/status.rs"][..]),
        ("docs/reference/task-message.md", &task[..]),
        ("docs/design/gates.md", &["shared/core/src/domain/gate/call_state.rs"][..]),
        ("docs/design/trackers.md", &["shared/core/src/domain/tracker/mod.rs"][..]),
        ("docs/design/streams.md", &["shared/core/src/domain/stream/state.rs"][..]),
    ] {
        let source: String = sources.iter().map(|source| read(source)).collect();
        let (drawn, stored) = (docs::states_drawn(&read(page)), docs::states_stored(&source));
        assert!(stored.len() > 3, "not the states of {sources:?}: {stored:?}");
        assert_eq!(drawn, stored, "{page} and {sources:?}");
    }
}

/// A row without a test says "only live"; a test that is renamed is found here.
#[test]
fn every_behaviour_of_aws_has_a_test_or_says_that_it_has_none() {
    let tree = tree();
    let sources: String = tree.files(".rs").chain(tree.files(".py")).map(read).collect();
    let page = read("docs/design/aws.md");
    let (mut rows, mut named) = (0, 0);
    let tables =
        page.split("\n\n").filter(|part| part.lines().next().is_some_and(|line| line.ends_with("| shown by |")));
    for row in tables.flat_map(|table| table.lines().skip(2)) {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let tests: Vec<_> = shown_by.split('`').skip(1).step_by(2).collect();
        for test in &tests {
            // A claim of the ports' suites is one of any fixture.
            let defined = [format!("fn {test}("), format!("fn {test}<"), format!("def {test}(")];
            assert!(defined.iter().any(|start| sources.contains(start)), "there is no test `{test}`");
        }
        assert!(!tests.is_empty() || shown_by.contains("nly live") || shown_by.contains("](evidence.md)"), "{row}");
        (rows, named) = (rows + 1, named + tests.len());
    }
    assert!(rows > 20 && named > 20, "not the tables: {rows} rows, {named} tests");
}

/// `GROUPAGE_REWRITE=1 cargo test -p groupage-house` writes what has changed.
#[test]
fn the_generated_reference_is_what_the_code_says() {
    let json = |file: &str| serde_json::from_str(&read(file)).unwrap();
    let group = limits::constant(&read("shared/core/src/domain/tracker/mod.rs"), "GROUP_SIZE", 0).unwrap();
    let constant = |file: &str, name: &str| limits::constant(&read(file), name, group);
    let of_routes = json("infra/schemas/routes.json");
    let of_routes = reference::schema_on_two_pages(&of_routes, "Downstream", "downstreams.md", "routes.md");
    let make = |name: &str| match name {
        "routes" => Some(of_routes.0.clone()),
        "downstreams" => Some(of_routes.1.clone()),
        "task-message" => Some(reference::schema(&json("infra/schemas/task-message.json"))),
        "metrics" => Some(reference::metrics(&read("shared/aws/src/entry/metrics.rs"))),
        "parameters" => Some(reference::parameters(&read("template.yaml"))),
        "limits" => limits::table(constant, &json("infra/schemas/routes.json")),
        "outputs" => Some(reference::outputs(&read("template.yaml"))),
        _ => None,
    };
    let (mut parts, mut stale) = (0, Vec::new());
    for (file, text) in pages() {
        parts += text.matches("<!-- generated: ").count();
        let made = reference::regenerate(&text, make).unwrap();
        if made != text && std::env::var_os("GROUPAGE_REWRITE").is_some() {
            std::fs::write(cargo::workspace().join(&file), made).unwrap();
        } else if made != text {
            stale.push(file);
        }
    }
    assert_eq!(parts, 7, "not the parts that can be made");
    assert!(stale.is_empty(), "stale, GROUPAGE_REWRITE=1 writes them: {stale:?}");
}

/// Codes that senders, callers and logs meet, wherever the code writes them.
#[test]
fn every_code_is_in_the_reference() {
    let codes = reference::variants(&read("shared/core/src/domain/task_message.rs"), "Code").into_iter();
    let codes: Vec<String> = codes.map(|(name, _)| docs::in_snake_case(&name)).collect();
    let kinds = docs::quoted_after(&read("api/src/problem.rs"), "\"urn:");
    let calls = docs::quoted_after(&read("api/src/lib.rs"), ".route(\"");
    let undeliverable = docs::quoted_after(&read("shared/core/src/domain/notice.rs"), "UNDELIVERABLE: &str = \"");
    assert!(codes.len() > 15 && kinds.len() > 8 && calls.len() > 20, "{codes:?} {kinds:?} {calls:?}");
    assert_eq!(undeliverable.len(), 1);
    for (page, words) in
        [("task-message", codes), ("task-message", undeliverable), ("http-api", kinds), ("http-api", calls)]
    {
        let text = read(&format!("docs/reference/{page}.md"));
        // A kind of problem is quoted whole, a path with its method.
        let is_there = |word: &&String| text.contains(&format!("{word}`"));
        let missing: Vec<_> = words.iter().filter(|word| !is_there(word)).collect();
        assert!(missing.is_empty(), "docs/reference/{page}.md does not have {missing:?}");
    }
}

/// Reasons whose words are written elsewhere than where they are made: the expression's start, the file of the words,
/// what stands before each word there, and the start of each reason.
const MADE_ELSEWHERE: [(&str, &str, &str, &str); 7] = [
    ("*reason", "shared/aws/src/downstreams/broken.rs", "Some(\"", ""),
    ("forbidden.reason()", "shared/core/src/routes/allowed.rs", "=> \"", ""),
    ("why.as_str()", "shared/core/src/routes/answer/unbelievable.rs", "=> \"", ""),
    ("Unbelievable::", "shared/core/src/routes/answer/unbelievable.rs", "=> \"", ""),
    ("format!(\"{word}_", "shared/core/src/routes/answer/status.rs", "{ \"", ""),
    ("format!(\"{BEGINS}", "shared/core/src/domain/outcome.rs", "BEGINS: &str = \"", ""),
    ("format!(\"{TURNED_AWAY}", "shared/core/src/domain/outcome.rs", "TURNED_AWAY: &str = \"", ""),
];

/// What stands for reasons of others: a token that was stored, the word of a downstream, what a person looks for.
const OF_OTHERS: [&str; 3] = ["token.into()", "said.to_owned()", "reason"];

#[test]
fn every_reason_is_in_the_reference() {
    let page = read("docs/reference/reasons.md");
    let tree = tree();
    let is_ours = |file: &&str| file.starts_with("shared/") || file.starts_with("cli/src/") || file.starts_with("api/");
    let sources: Vec<_> = tree.files(".rs").filter(is_ours).filter(|file| !is_for_tests(file)).map(read).collect();
    let mut missing = BTreeSet::new();
    let mut needs = |word: &str, end: &str| {
        if !page.contains(&format!("`{word}{end}")) {
            missing.insert(word.to_owned());
        }
    };
    let given: Vec<_> = sources.iter().flat_map(|source| reasons::given(source)).collect();
    assert!(given.len() > 25, "only these were found: {given:?}");
    for given in given {
        match given {
            Given::Word(word) => needs(&word, "`"),
            Given::Start(start) => needs(&start, ""),
            Given::Constant(name) => {
                let start = format!("const {name}: &str = \"");
                let words: Vec<_> = sources.iter().flat_map(|source| docs::quoted_after(source, &start)).collect();
                assert!(!words.is_empty(), "nothing says what {name} is");
                words.iter().for_each(|word| needs(word, "`"));
            }
            Given::Other(made) if OF_OTHERS.contains(&made.as_str()) => {}
            Given::Other(made) => {
                let known = MADE_ELSEWHERE.iter().find(|(of, ..)| made.starts_with(of));
                let (_, file, before, start) =
                    known.unwrap_or_else(|| panic!("say in MADE_ELSEWHERE what `Reason::new({made})` comes to"));
                docs::quoted_after(&read(file), before).iter().for_each(|word| needs(&format!("{start}{word}"), ""));
            }
        }
    }
    assert!(missing.is_empty(), "docs/reference/reasons.md does not have {missing:?}");
}

fn is_for_tests(file: &str) -> bool {
    file.ends_with("tests.rs") || file.contains("/tests/") || file.contains("/examples/") || file.contains("/demo/")
}
