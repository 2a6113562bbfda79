//! A whole run; see [`crate::check`].

use super::model::OneTracker;
use super::rules::Rule;
use super::setting::Setting;
use super::state::{Action, State};
use crate::check::{Found, Told, search, visit};

/// Visits every state of a setting under all rules.
#[must_use]
pub fn visit_all(setting: Setting) -> Found {
    visit(OneTracker::new(setting, None))
}

/// Finds the shortest way to a state that breaks a promise without this rule.
#[must_use]
pub fn find(setting: Setting, removed: Rule) -> Found {
    search(|| OneTracker::new(setting, Some(removed)))
}

impl Told for OneTracker {
    fn tell(&self, state: &State, Action { place, ago, after }: Action) -> String {
        let process = self.actor(state, place);
        format!("{} {ago:?} {after:?}", process.map_or_else(String::new, |process| process.told()))
    }
}
