//! A whole run; see [`crate::check`].

use super::model::OneStream;
use super::rules::Rule;
use super::setting::Setting;
use super::state::{Action, State};
use crate::check::{Found, Told, search, visit};

/// Visits every state of a setting under all rules. If one breaks a promise, the shortest way to such a one is what was
/// found.
#[must_use]
pub fn visit_all(setting: Setting) -> Found {
    let found = visit(OneStream::new(setting, None));
    if found.broken.is_some() { search(|| OneStream::new(setting, None)) } else { found }
}

/// Finds the shortest way to a state that breaks a promise without this rule.
#[must_use]
pub fn find(setting: Setting, removed: Rule) -> Found {
    search(|| OneStream::new(setting, Some(removed)))
}

impl Told for OneStream {
    fn tell(&self, state: &State, Action { place, dies }: Action) -> String {
        let process = self.actor(state, place);
        format!("{} dies: {dies}", process.map_or_else(String::new, |process| process.told()))
    }
}
