//! A whole run: every state that can be reached, or the shortest way to one that breaks a promise.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries};

use super::claims::{Checked, Promises, Rules};

/// What a run found.
#[derive(Debug)]
struct Found {
    /// Different states.
    states: usize,
    /// Ways into them.
    ways: usize,
    took: Duration,
    /// The promise that was broken, and how: one line for each thing that happened.
    broken: Option<(&'static str, Vec<String>)>,
}

impl Found {
    /// What was broken and how, for a person.
    fn told(&self) -> String {
        match &self.broken {
            Some((promise, steps)) => format!("{promise}:\n  {}", steps.join("\n  ")),
            None => "no promise is broken".to_owned(),
        }
    }
}

/// Visits every state of a model under all rules, in each of its settings that `GROUPAGE_TESTS` asks for. If
/// `GROUPAGE_SETTING` is set, only in those of all settings that have this title.
///
/// # Panics
/// One of them breaks a promise: this tells the shortest way to such a one.
pub fn keeps_its_promises<M: Checked>() {
    let asked_for = |name| std::env::var(name).unwrap_or_default();
    let (effort, title) = (asked_for("GROUPAGE_TESTS"), asked_for("GROUPAGE_SETTING"));
    let (long, largest) = match effort.as_str() {
        _ if !title.is_empty() => (M::LONG, M::LARGEST),
        "largest" => (M::LONG, M::LARGEST),
        "long" => (M::LONG, &[][..]),
        _ => (&[][..], &[][..]),
    };
    let all = [M::QUICK, long, largest].concat().into_iter();
    all.filter(|run| title.is_empty() || M::title(run) == title).for_each(visit_all::<M>);
}

/// Visits every state of a run under all rules.
///
/// # Panics
/// One of them breaks a promise: this tells the shortest way to such a one.
fn visit_all<M: Checked>(run: M::Run) {
    let title = M::title(&run);
    let Found { states, ways, took, broken } = visit(M::of(run, None));
    println!("{title}: {states} states, {ways} ways into them, in {took:.1?}");
    assert!(broken.is_none(), "{title}: {}", search::<M>(run, None).told());
}

/// Runs without each rule in turn: each removal breaks the promise that is written beside it.
///
/// # Panics
/// Some rules break another promise, or none.
pub fn each_rule_keeps_its_promise<M: Checked>() {
    let mut wrong = Vec::new();
    for rule in M::Rule::ALL {
        let (run, promise) = rule.shows();
        let found = search_once(M::of(run, Some(*rule)), None);
        let broken = found.broken.as_ref().map(|(name, _)| *name);
        println!("without {rule:?}: {}", broken.unwrap_or("nothing is broken"));
        if broken != Some(promise.broken()) {
            // A shorter way may break the promise of the rule. Proving that a way is the shortest takes as long again.
            let shortest = search::<M>(run, Some(*rule));
            if shortest.broken.as_ref().map(|(name, _)| *name) != Some(promise.broken()) {
                wrong.push(format!("{rule:?} removed should show that {}, but {}", promise.broken(), shortest.told()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The promises that no rule's removal shows.
pub fn unshown<M: Checked>() -> Vec<M::Promise> {
    let is_shown = |promise: &M::Promise| M::Rule::ALL.iter().any(|rule| rule.shows().1 == *promise);
    M::Promise::ALL.iter().copied().filter(|promise| !is_shown(promise)).collect()
}

/// Visits every state of a model. Goes deep first, with all the machine's cores: then a state costs no more memory than
/// its hash.
fn visit(model: impl Checked) -> Found {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    found(&model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join(), started)
}

/// Finds the shortest way to a state that breaks a promise; the same at each run. Of the ways that stateright finds in
/// one go it keeps the last for each promise, so it is asked for shorter ones until there is none.
fn search<M: Checked>(run: M::Run, removed: Option<M::Rule>) -> Found {
    let mut best = search_once(M::of(run, removed), None);
    while let Some((_, steps)) = &best.broken {
        let next = search_once(M::of(run, removed), Some(steps.len()));
        if next.broken.is_none() {
            break;
        }
        best = next;
    }
    best
}

/// Of ways with fewer than this many steps, if that is said.
fn search_once<M: Checked>(model: M, steps: Option<usize>) -> Found {
    let started = Instant::now();
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let checker = match steps {
        // A state's depth is one more than the steps to it, and those at the limit are not looked at.
        Some(steps) => checker.target_max_depth(steps + 1),
        None => checker,
    };
    found(&checker.spawn_bfs().join(), started)
}

fn found<M: Checked>(checker: &impl Checker<M>, started: Instant) -> Found {
    let discoveries = checker.discoveries().into_iter().map(|(name, path)| (name, path.into_vec()));
    let shortest = discoveries.min_by_key(|(name, steps)| (steps.len(), *name));
    let broken = shortest.map(|(name, steps)| {
        let told = steps.iter().filter_map(|(state, action)| Some(checker.model().tell(state, (*action)?)));
        (name, told.collect())
    });
    Found { states: checker.unique_state_count(), ways: checker.state_count(), took: started.elapsed(), broken }
}
