//! A whole run; see [`crate::check`].

use std::num::NonZeroUsize;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::model::OneList;
use super::rules::Rule;
use super::setting::Setting;
use super::state::{Action, State};
use crate::check::Found;

/// Visits every state of a setting under all rules.
#[must_use]
pub fn visit_all(setting: Setting) -> Found {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let model = OneList::new(setting, None);
    let checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    found(&checker, started)
}

/// Finds the shortest way to a state that breaks a promise without this rule.
#[must_use]
pub fn find(setting: Setting, removed: Rule) -> Found {
    let started = Instant::now();
    let model = OneList::new(setting, Some(removed));
    found(&model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join(), started)
}

fn found(checker: &impl Checker<OneList>, started: Instant) -> Found {
    let discoveries = checker.discoveries().into_iter().map(|(name, path)| (name, path.into_vec()));
    let shortest = discoveries.min_by_key(|(name, steps)| (steps.len(), *name));
    let tell = |(state, action): &(State, Option<Action>)| match (*action)? {
        Action::Copy(n) => Some(format!("a copy of taking {n} comes")),
        Action::Io { place, lags, after } => {
            let process = checker.model().actor(state, place)?;
            let op: String = format!("{:?}", process.next_io().map(|(_, op)| op)).chars().take(200).collect();
            Some(format!("{:?} | {op} lags: {lags} {after:?}", process.role))
        }
    };
    let broken = shortest.map(|(name, steps)| (name, steps.iter().filter_map(tell).collect()));
    Found { states: checker.unique_state_count(), ways: checker.state_count(), took: started.elapsed(), broken }
}
