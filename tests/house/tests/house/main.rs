//! The house is in order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod pages;
mod reference;

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

fn uses(root: &Path) -> Vec<Use> {
    Modules::read(root).unwrap().uses()
}

/// A file of the repository.
fn read(file: &str) -> String {
    std::fs::read_to_string(cargo::workspace().join(file)).unwrap()
}

/// All files of the repository.
fn tree() -> docs::Tree {
    docs::Tree::read(&cargo::workspace()).unwrap()
}

/// What people read: docs, README and the other pages of the top level. The changelog is looked up.
fn pages() -> Vec<(String, String)> {
    let tree = tree();
    let names =
        tree.files(".md").filter(|file| file.starts_with("docs/") || !file.contains('/') && *file != "CHANGELOG.md");
    let pages: Vec<_> = names.map(|file| (file.to_owned(), read(file))).collect();
    assert!(pages.len() > 30, "only {} pages were read", pages.len());
    pages
}
