//! A person's pauses: of all calls behind a limiter, and, in that of a route, of single Targets.
//!
//! A pause lasts until a person ends it. The pauses of Targets lie in the limiter of their route: every call reads that
//! one anyway.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::id::Target;
use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// A person's pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Pauses {
    /// That of all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Pause>,
    /// Those of single Targets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<Target, Pause>,
    /// The time when a person let all calls go on last: no outage is older to those that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Timestamp>,
}

/// A pause that a person ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Pause {
    /// The time when it began.
    pub since: Timestamp,
    /// The reason that the person gave, or the change that is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// This many Targets of a route can be paused one by one: a reason has 256 bytes, a limiter's item at most 400 KB.
pub const MOST_PAUSED: usize = 100;

impl Pauses {
    /// Returns whether nothing is paused.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.targets.is_empty()
    }

    /// Pauses all calls. A repeat gives another reason.
    pub(super) fn pause(&mut self, reason: Option<String>, now: Timestamp) {
        let since = self.all.as_ref().map_or(now, |pause| pause.since);
        self.all = Some(Pause { since, reason });
    }

    /// Pauses the calls of one Target, unless [the most](MOST_PAUSED) others are paused.
    pub(super) fn pause_target(&mut self, target: &Target, reason: Option<String>, now: Timestamp) {
        let since = self.targets.get(target).map_or(now, |pause| pause.since);
        if self.targets.len() < MOST_PAUSED || self.targets.contains_key(target) {
            self.targets.insert(target.clone(), Pause { since, reason });
        }
    }
}

impl Pause {
    /// Returns a pause until a person has changed the settings of the route, which read none of its answers.
    pub(super) fn by_settings(reason: &Reason, now: Timestamp) -> Self {
        let remedy = reason.remedy().unwrap_or("see why calls fail");
        Self { since: now, reason: Some(format!("settings: {reason}: {remedy}; then push and resume")) }
    }
}
