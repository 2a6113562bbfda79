//! The crash matrix: every call to a port in every story, before and after its work, in every way in which a process
//! can be lost there. The calls are counted, not listed, so a new one is in by itself.
//!
//! `GROUPAGE_TESTS=long` tries every case. A quick run goes to every point of every story as well, but with one of the
//! four faults on one side: the next pair each time that the same step makes the same call. The first and the last call
//! of such a kind in all the stories are tried with all eight pairs, so that every kind of call meets every fault on
//! both sides. A quick run leaves out seven pairs of eight at each of the other points.
//!
//! `GROUPAGE_STORY=<text>` tells only the stories whose names hold it; `GROUPAGE_CASE=<number>` tells one case again,
//! with every call and its answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use derive_more::Display;
use groupage_lab::prelude::*;
use groupage_lab::process::Point;
use groupage_lab::scenario::{Scenario, Told};
use groupage_lab::{effort, fan, scenarios};

/// Longer than visibility timeouts, leases and sessions.
const PAUSE_MS: u64 = 61_000;

const SIDES: [Side; 2] = [Side::Before, Side::After];
const FAULTS: [Fault; 4] = [Fault::Death, Fault::DeathBesideTwin, Fault::PauseBesideTwin(PAUSE_MS), Fault::Error];

/// One cell.
#[derive(Display)]
#[display("GROUPAGE_CASE={number} ({}): {fault:?} {side:?} call {at}: {} of {}", scenario.name, point.call, point.step)]
struct Case<'a> {
    number: usize,
    scenario: &'a Scenario,
    at: usize,
    point: &'a Point,
    side: Side,
    fault: Fault,
    /// Whether a quick run tries it, too.
    is_quick: bool,
}

/// How often each step makes each call.
fn kinds(told: &[(Scenario, Told)]) -> BTreeMap<(&str, &str), usize> {
    let mut kinds = BTreeMap::new();
    for point in told.iter().flat_map(|(_, told)| &told.points) {
        *kinds.entry((point.step, point.call)).or_default() += 1;
    }
    kinds
}

fn cases<'a>(told: &'a [(Scenario, Told)]) -> Vec<Case<'a>> {
    let (mut cases, mut left) = (Vec::new(), kinds(told));
    let mut is_new = HashSet::new();
    for (scenario, told) in told {
        for (at, point) in told.points.iter().enumerate() {
            let left = left.entry((point.step, point.call)).or_default();
            let all = is_new.insert((point.step, point.call)) || *left == 1;
            let next = *left % (SIDES.len() * FAULTS.len());
            let pairs = SIDES.into_iter().flat_map(|side| FAULTS.map(|fault| (side, fault)));
            for (which, (side, fault)) in pairs.enumerate() {
                let is_quick = all || which == next;
                cases.push(Case { number: cases.len(), scenario, at, point, side, fault, is_quick });
            }
            *left -= 1;
        }
    }
    cases
}

fn broken_by(case: &Case) -> Option<String> {
    let told = case.scenario.tell(Plan::At(case.at, case.side, case.fault), false);
    let mut broken = told.broken;
    if told.faults.len() != 1 {
        broken.push(format!("never reached: {:?}", told.faults));
    }
    (!broken.is_empty()).then(|| format!("{case}\n  {}", broken.join("\n  ")))
}

#[test]
fn no_promise_breaks_wherever_a_process_is_lost() {
    let mut stories = scenarios::all();
    if let Ok(text) = std::env::var("GROUPAGE_STORY") {
        stories.retain(|story| story.name.contains(&text));
    }
    let told = fan::each(&stories, |scenario| (scenario.clone(), scenario.tell(Plan::Nothing, false)));
    for (scenario, told) in &told {
        assert_eq!(told.broken, Vec::<String>::new(), "{}, with nothing befalling anybody", scenario.name);
    }
    let mut cases = cases(&told);
    if let Some(number) = effort::number::<usize>("GROUPAGE_CASE") {
        let case = &cases[number];
        let told = case.scenario.tell(Plan::At(case.at, case.side, case.fault), true);
        println!("{case}\n{}\n{:#?}", told.trace.join("\n"), told.broken);
        return;
    }
    cases.retain(|case| case.is_quick || effort::is_long());
    let mut broken: Vec<String> = Vec::new();
    for of_one in cases.chunk_by(|one, other| one.scenario.name == other.scenario.name) {
        let began = Instant::now();
        let found = fan::each(of_one, broken_by);
        let found: Vec<String> = found.into_iter().flatten().collect();
        let (name, cases, seconds) = (of_one[0].scenario.name, of_one.len(), began.elapsed().as_secs_f64());
        println!("{cases:>6} cases {:>4} broken {seconds:>5.1} s  {name}", found.len());
        broken.extend(found);
    }

    let (kinds, points) = (kinds(&told), told.iter().map(|(_, told)| told.points.len()).sum::<usize>());
    println!("{points:>6} points {:>6} cases  in all; {} kinds of calls", cases.len(), kinds.len());
    for ((step, call), count) in &kinds {
        println!("{count:>6} {call} of {step}");
    }
    let met: HashSet<_> = cases
        .iter()
        .map(|case| (case.point.step, case.point.call, format!("{:?}{:?}", case.side, case.fault)))
        .collect();
    assert_eq!(met.len(), kinds.len() * SIDES.len() * FAULTS.len(), "a kind of call does not meet every fault");
    let shown = broken.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(broken.is_empty(), "{} of {} cases break a promise:\n{shown}", broken.len(), cases.len());
}
