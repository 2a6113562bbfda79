//! Lists: all rules kept, no promise is broken; any rule removed, one is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_model::check::{Found, each_rule};
use groupage_model::listing::check::{find, visit_all};
use groupage_model::listing::rules::{self, Promise, Rule};
use groupage_model::listing::setting::{self, Setting};

#[test]
fn a_list_loses_no_task_and_releases_none_twice() {
    for setting in setting::chosen() {
        let found = visit_all(setting);
        let Found { states, ways, took, .. } = &found;
        let Setting { name, crashes, copies, lags, sweeps, .. } = setting;
        println!(
            "{name}, {crashes} deaths, {copies} copies, {lags} lagging reads, swept {sweeps}: {states} states, {ways} \
             ways into them, in {took:.1?}"
        );
        assert!(found.broken.is_none(), "{}: {}", setting.name, found.told());
    }
}

/// Where the removal of a rule shows, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    match rule {
        Rule::TailAsRead => (setting::PUTTERS.with(0, 0, 0), Promise::OneTaskAToken),
        Rule::PutOnce => (setting::PUTTERS.with(1, 0, 0), Promise::PutOnce),
        Rule::NotPastTheTail => (setting::RELEASERS.with(0, 0, 0), Promise::TakenOfGiven),
        Rule::RememberedKey => (setting::ALONE.with(1, 0, 0), Promise::TakenOnce),
        Rule::LateCopyRefused => (setting::ALONE.with(0, 1, 0), Promise::TakenOnce),
        Rule::RecordsWhoOwes => (setting::ALONE.with(1, 0, 0), Promise::NothingLost),
        Rule::SentBeforeRemoved => (setting::ALONE.with(1, 0, 0), Promise::NothingLost),
        Rule::MissingIsNotDone => (setting::BOTH.with(0, 0, 2), Promise::NothingLost),
        Rule::ClosedToReleases => (setting::CLOSING.with(0, 0, 0), Promise::ClosedIsClosed),
    }
}

#[test]
fn each_rule_of_lists_keeps_the_promise_that_is_written_beside_it() {
    each_rule(rules::ALL, |rule| {
        let (setting, promise) = shows(rule);
        (promise.broken(), find(setting, rule))
    });
}
