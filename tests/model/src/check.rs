//! A whole run: every state that can be reached, and the first promise that one of them breaks.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use shared::routes::Error;
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
    pub generated: usize,
    /// The longest shortest way to one.
    pub depth: usize,
    /// Whether every state was visited, if none broke a promise.
    pub complete: bool,
    /// What it took.
    pub took: Duration,
    /// The promise that was broken, and how: one line for each thing that happened.
    pub broken: Option<(&'static str, Vec<String>)>,
}

/// Visits every state of a setting, until one breaks a promise.
///
/// # Errors
/// The routes of the model are wrong.
pub fn check(setting: Setting, removed: Removed) -> Result<Found, Error> {
    check_within(setting, removed, Duration::from_secs(24 * 60 * 60))
}

/// Visits the states of a setting for so long at most.
///
/// # Errors
/// The routes of the model are wrong.
pub fn check_within(setting: Setting, removed: Removed, limit: Duration) -> Result<Found, Error> {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let checker = Groupage::new(setting, removed)?
        .checker()
        .threads(threads)
        .timeout(limit)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let broken = checker.discoveries().into_iter().min_by_key(|(_, path)| path.clone().into_actions().len());
    let broken = broken.map(|(name, path)| {
        let steps = path.into_vec();
        let told = steps.iter().filter_map(|(state, action)| Some(checker.model().tell(state, (*action)?)));
        (name, told.collect())
    });
    Ok(Found {
        states: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        complete: started.elapsed() < limit,
        took: started.elapsed(),
        broken,
    })
}
