//! Circles among the modules of one target.
//!
//! A module's *parts* are its child modules, each with all that is below it, and the module's own file. Among the
//! parts of a module, uses form no circle:
//!
//! - Siblings use each other in one direction only, whichever files below them do it.
//! - A child calls no function of its parent's file if that file uses the child in turn, directly or through a
//!   sibling. It may name the parent's types and constants, for one type may be written in several files: the
//!   parent's holds its fields, each child implements one port for it.
//! - In a root module not even that: what the commands share with `main.rs` lies beside them.
//!
//! `mod` and `pub use` of what lies below are no uses: a table of contents calls nothing. What is compiled for tests
//! only (`#[cfg(test)]`) does not count: a module's tests may look at what stands above it. A method call is not seen,
//! for its name has no path; the type that it is called on mostly has one.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::Use;

/// The module's own file, among its parts.
pub const OWN: &str = "(its own file)";

/// Parts of one module that use each other in a circle.
pub struct Circle {
    /// Whose parts they are: `groupage-core/groupage_core::steps`.
    pub of: String,
    /// The parts, in alphabetical order.
    pub parts: Vec<String>,
    /// Which part uses which other, and one name for it.
    pub arrows: Vec<String>,
}

type Arrows<'a> = BTreeMap<(&'a str, &'a str), &'a Use>;

/// The circles among these uses.
pub fn find(target: &str, uses: &[Use]) -> Vec<Circle> {
    let mut rooms: BTreeMap<&[String], Arrows<'_>> = BTreeMap::new();
    for one in uses {
        let shared = one.from.iter().zip(&one.to).take_while(|(from, to)| from == to).count();
        let names_parent = one.to.len() == shared && !is_function(&one.name);
        if names_parent && shared > 0 {
            continue;
        }
        let arrow = (part(&one.from, shared), part(&one.to, shared));
        rooms.entry(&one.from[..shared]).or_default().insert(arrow, one);
    }
    let mut circles = Vec::new();
    for (room, arrows) in rooms {
        let of = [&[target.to_owned()], room].concat().join("::");
        circles.extend(knots(&arrows).iter().map(|parts| circle(of.clone(), parts, &arrows)));
    }
    circles
}

fn is_function(name: &str) -> bool {
    name.starts_with(|first: char| first.is_lowercase())
}

fn part(path: &[String], at: usize) -> &str {
    path.get(at).map_or(OWN, String::as_str)
}

/// The sets of parts in which each reaches each.
fn knots<'a>(arrows: &Arrows<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|(from, _)| (*from, reach(from, arrows))).collect();
    let mutual = |part: &str| reached[part].iter().copied().filter(|other| reaches(&reached, other, part)).collect();
    reached.keys().filter(|part| reaches(&reached, part, part)).map(|part| mutual(part)).collect()
}

fn reaches(reached: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    reached.get(from).is_some_and(|parts| parts.contains(to))
}

fn reach<'a>(from: &str, arrows: &Arrows<'a>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(part) = ahead.pop() {
        let next = arrows.keys().filter(|(from, _)| *from == part).map(|(_, to)| *to);
        ahead.extend(next.filter(|to| reached.insert(*to)).collect::<Vec<_>>());
    }
    reached
}

fn circle(of: String, parts: &BTreeSet<&str>, arrows: &Arrows<'_>) -> Circle {
    let inside = arrows.iter().filter(|((from, to), _)| parts.contains(from) && parts.contains(to));
    let arrows = inside.map(|((from, to), one)| {
        format!("{from} -> {to} ({} takes {}::{})", one.from.join("::"), one.to.join("::"), one.name)
    });
    Circle { of, parts: parts.iter().map(|part| (*part).to_owned()).collect(), arrows: arrows.collect() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// `to` ends with the name that is used.
    fn circles(uses: &[(&str, &str)]) -> Vec<Vec<String>> {
        let path = |text: &str| text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let uses = uses.iter().map(|(from, to)| {
            let mut to = path(to);
            Use { from: path(from), name: to.pop().unwrap(), to }
        });
        find("it", &uses.collect::<Vec<_>>()).into_iter().map(|circle| circle.parts).collect()
    }

    #[test]
    fn uses_in_one_direction_are_no_circle() {
        assert!(circles(&[("a", "b::f"), ("b", "c::f"), ("a", "c::f"), ("a::x", "a::f"), ("", "a::f")]).is_empty());
    }

    #[test]
    fn siblings_that_use_each_other_are_a_circle_wherever_below_them_the_uses_stand() {
        assert_eq!(circles(&[("a::x", "b::y::f"), ("b::z", "c::F"), ("c", "a::w::f")]), [["a", "b", "c"]]);
    }

    #[test]
    fn a_child_and_the_parent_whose_function_it_calls_are_a_circle() {
        assert_eq!(circles(&[("a", "a::x::f"), ("a::y", "a::f"), ("a::x", "a::y::f")]), [[OWN, "x", "y"]]);
    }

    #[test]
    fn a_type_may_be_written_in_the_parents_file_and_in_its_childrens_but_in_the_root() {
        assert!(circles(&[("a", "a::x::f"), ("a::x", "a::Type")]).is_empty());
        assert_eq!(circles(&[("", "x::f"), ("x", "Type")]), [[OWN, "x"]]);
    }
}
