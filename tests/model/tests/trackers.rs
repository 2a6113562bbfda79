//! Trackers: all rules kept, no promise is broken; any rule removed, one is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_model::check::{Found, each_rule};
use groupage_model::trackers::check::{find, visit_all};
use groupage_model::trackers::rules::{self, Promise, Rule};
use groupage_model::trackers::setting::{self, Setting};

#[test]
fn a_tracker_is_completed_once_and_never_too_early() {
    for setting in setting::chosen() {
        let found = visit_all(setting);
        let Found { states, ways, took, .. } = &found;
        let Setting { name, crashes, sweeps, .. } = setting;
        println!("{name}, {crashes} deaths, swept {sweeps}: {states} states, {ways} ways into them, in {took:.1?}");
        assert!(found.broken.is_none(), "{}: {}", setting.name, found.told());
    }
}

/// Where the removal of a rule shows, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    match rule {
        Rule::LatestTracker => (setting::ONE_GROUP.with(0, false), Promise::CompleteAtOnce),
        Rule::LatestParent => (setting::TWO_WHOLE_GROUPS.with(0, false), Promise::CompleteAtOnce),
        Rule::SealerLooks => (setting::ONE_GROUP.with(0, false), Promise::CompleteAtOnce),
        Rule::LooksForTheSeal => (setting::ONE_GROUP.with(0, false), Promise::CompleteIsComplete),
        Rule::WordsAsRead => (setting::REPEATED.with(0, false), Promise::BitsStay),
        Rule::TrackerAsRead => (setting::TWO_GROUPS.with(0, false), Promise::OneEnd),
        Rule::KeyOnce => (setting::ONE_GROUP.with(1, false), Promise::NothingLost),
    }
}

#[test]
fn each_rule_of_trackers_keeps_the_promise_that_is_written_beside_it() {
    each_rule(rules::ALL, |rule| {
        let (setting, promise) = shows(rule);
        (promise.broken(), find(setting, rule))
    });
}
