//! A whole run; see [`crate::check`].

use super::model::OneList;
use super::rules::Rule;
use super::setting::Setting;
use super::state::{Action, State};
use crate::check::{Found, Told, search, visit};

/// Visits every state of a setting under all rules.
#[must_use]
pub fn visit_all(setting: Setting) -> Found {
    visit(OneList::new(setting, None))
}

/// Finds the shortest way to a state that breaks a promise without this rule.
#[must_use]
pub fn find(setting: Setting, removed: Rule) -> Found {
    search(|| OneList::new(setting, Some(removed)))
}

impl Told for OneList {
    fn tell(&self, state: &State, action: Action) -> String {
        match action {
            Action::Copy(n) => format!("a copy of taking {n} comes"),
            Action::Io { place, lags, after } => {
                let process = self.actor(state, place);
                format!("{} lags: {lags} {after:?}", process.map_or_else(String::new, |process| process.told()))
            }
        }
    }
}
