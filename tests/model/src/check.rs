//! A whole run: every state that can be reached, or the shortest way to one that breaks a promise.

use std::fmt::Debug;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use groupage_core::routes::Error;
use stateright::{Checker, HasDiscoveries, Model};

use crate::model::Groupage;
use crate::rules::Removed;
use crate::setting::Setting;

/// What a run found.
#[derive(Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Ways into them.
    pub ways: usize,
    /// What it took.
    pub took: Duration,
    /// The promise that was broken, and how: one line for each thing that happened.
    pub broken: Option<(&'static str, Vec<String>)>,
}

impl Found {
    /// What was broken and how, for a person.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.broken {
            Some((promise, steps)) => format!("{promise}:\n  {}", steps.join("\n  ")),
            None => "no promise is broken".to_owned(),
        }
    }
}

/// A model that can say what happens in it.
pub(crate) trait Told:
    Model<State: Clone + Hash + PartialEq + Send + Sync, Action: Copy + PartialEq + Send + Sync> + Send + Sync + 'static
{
    /// What an action does, in words.
    fn tell(&self, state: &Self::State, action: Self::Action) -> String;
}

/// Visits every state of a setting under all rules. If one breaks a promise, the shortest way to such a one is what was
/// found.
///
/// # Errors
/// The routes of the model are wrong.
pub fn visit_all(setting: Setting) -> Result<Found, Error> {
    let found = visit(Groupage::new(setting, Removed::nothing())?);
    if found.broken.is_some() { find(setting, Removed::nothing()) } else { Ok(found) }
}

/// Finds the shortest way to a state that breaks a promise; the same at each run.
///
/// # Errors
/// The routes of the model are wrong.
pub fn find(setting: Setting, removed: Removed) -> Result<Found, Error> {
    // What was refused once would be again.
    let first = search_once(Groupage::new(setting, removed)?, None);
    Ok(shortest(first, |most| Some(search_once(Groupage::new(setting, removed).ok()?, Some(most)))))
}

/// Runs without each rule in turn: `run` says which promise is then broken, as [`Found::broken`] names it, and what was
/// found.
///
/// # Panics
/// Some rules break another promise, or none.
pub fn each_rule<R: Copy + Debug>(rules: impl IntoIterator<Item = R>, run: impl Fn(R) -> (&'static str, Found)) {
    let mut wrong = Vec::new();
    for rule in rules {
        let (promise, found) = run(rule);
        let broken = found.broken.as_ref().map(|(name, _)| *name);
        let steps = found.broken.as_ref().map_or(0, |(_, steps)| steps.len());
        println!("without {rule:?}: {}, after {steps} steps", broken.unwrap_or("nothing is broken"));
        if broken != Some(promise) {
            wrong.push(format!("{rule:?} removed should show that {promise}, but {}", found.told()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Visits every state of a model. Goes deep first, with all the machine's cores: then a state costs no more memory than its
/// hash.
pub(crate) fn visit(model: impl Told) -> Found {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    found(&model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join(), started)
}

/// Finds the shortest way to a state that breaks a promise; the same at each run.
pub(crate) fn search<M: Told>(model: impl Fn() -> M) -> Found {
    shortest(search_once(model(), None), |steps| Some(search_once(model(), Some(steps))))
}

/// Of the ways that stateright finds in one go it keeps the last for each promise, so it is asked for shorter ones until there
/// is none.
fn shortest(first: Found, shorter_than: impl Fn(usize) -> Option<Found>) -> Found {
    let mut best = first;
    while let Some((_, steps)) = &best.broken {
        match shorter_than(steps.len()).filter(|next| next.broken.is_some()) {
            Some(next) => best = next,
            None => break,
        }
    }
    best
}

/// Of ways with fewer than so many steps, if that is said.
fn search_once<M: Told>(model: M, steps: Option<usize>) -> Found {
    let started = Instant::now();
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let checker = match steps {
        // A state's depth is one more than the steps to it, and those at the limit are not looked at.
        Some(steps) => checker.target_max_depth(steps + 1),
        None => checker,
    };
    found(&checker.spawn_bfs().join(), started)
}

fn found<M: Told>(checker: &impl Checker<M>, started: Instant) -> Found {
    let discoveries = checker.discoveries().into_iter().map(|(name, path)| (name, path.into_vec()));
    let shortest = discoveries.min_by_key(|(name, steps)| (steps.len(), *name));
    let broken = shortest.map(|(name, steps)| {
        let told = steps.iter().filter_map(|(state, action)| Some(checker.model().tell(state, (*action)?)));
        (name, told.collect())
    });
    Found { states: checker.unique_state_count(), ways: checker.state_count(), took: started.elapsed(), broken }
}
