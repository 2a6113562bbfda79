//! Lanes: all rules kept, no promise is broken; any rule removed, one is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_core::domain::lane::OnFailure::{FailRest, Hold, Skip};
use groupage_model::check::{Found, each_rule};
use groupage_model::order::check::{find, visit_all};
use groupage_model::order::rules::{self, Promise, Rule};
use groupage_model::order::setting::{self, Setting};

#[test]
fn a_lane_keeps_order_and_loses_nobody() {
    for setting in setting::chosen() {
        let found = visit_all(setting);
        let Found { states, ways, took, .. } = &found;
        let Setting { name, on_failure, crashes, copies, .. } = setting;
        println!(
            "{name}, {on_failure:?}, {crashes} deaths, {copies} copies: {states} states, {ways} ways into them, in \
             {took:.1?}"
        );
        assert!(found.broken.is_none(), "{}: {}", setting.name, found.told());
    }
}

/// Where the removal of a rule shows, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    match rule {
        Rule::LaneAsRead => (setting::TWO.when(Skip, 0, 0), Promise::NobodyLost),
        Rule::LinedUpAsRead => (setting::TWO.when(Skip, 0, 0), Promise::OneTaskATurn),
        Rule::FreeTurn => (setting::USED.when(Skip, 0, 0), Promise::OneTaskATurn),
        Rule::NewTask => (setting::TWICE.when(Skip, 0, 0), Promise::NobodyLost),
        Rule::LetInOnce => (setting::ONE.when(Skip, 0, 1), Promise::TurnOnce),
        Rule::OwnTurn => (setting::THREE.when(Skip, 0, 1), Promise::InOrder),
        Rule::PassedOverFirst => (setting::RESUMED.when(FailRest, 0, 0), Promise::InOrder),
        Rule::StoppedForAll => (setting::TWO.when(Hold, 0, 0), Promise::StoppedIsStopped),
        Rule::SentBeforeLeft => (setting::ONE.when(Skip, 1, 0), Promise::NobodyLost),
        Rule::LeavesItsOwn => (setting::USED.when(FailRest, 0, 0), Promise::NobodyLost),
    }
}

#[test]
fn each_rule_of_lanes_keeps_the_promise_that_is_written_beside_it() {
    each_rule(rules::ALL, |rule| {
        let (setting, promise) = shows(rule);
        (promise.broken(), find(setting, rule))
    });
}
