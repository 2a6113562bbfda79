//! The house is in order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use groupage_house::modules::{Modules, Use};
use groupage_house::{cargo, circles, docs};

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
