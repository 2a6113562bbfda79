//! All rules kept, no promise is broken; any rule removed, one is, and the run that breaks it is found.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_model::check::{Found, each_rule, find, visit_all};
use groupage_model::promises::{self, Promise};
use groupage_model::rules::{self, Removed, Rule};
use groupage_model::setting::{self, Setting};
use groupage_model::state::Mishaps;

/// A promise that is not checked cannot be kept.
#[test]
fn every_promise_is_shown_by_a_rule_or_watched_at_every_call() {
    let shown: Vec<Promise> = rules::ALL.into_iter().map(|rule| shows(rule).1).collect();
    let unshown: Vec<Promise> = promises::ALL.into_iter().filter(|promise| !shown.contains(promise)).collect();
    assert_eq!(unshown, [Promise::CallsAsFrozen, Promise::SettledAsRecorded]);
}

#[test]
fn no_promise_is_broken() {
    for setting in setting::chosen() {
        let found = visit_all(setting).unwrap();
        let Found { states, ways, took, .. } = &found;
        println!("{}: {states} states, {ways} ways into them, in {took:.1?}", setting.name);
        assert!(found.broken.is_none(), "{}: {}", setting.name, found.told());
    }
}

/// Where the removal of a rule shows soonest, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    const NONE: Mishaps = Setting::CALM.mishaps;
    const CRASH: Mishaps = Mishaps { crashes: 1, ..NONE };
    const SLEEP: Mishaps = Mishaps { sleeps: 1, ..NONE };
    const fn of(workflows: u8, tasks: u8, mishaps: Mishaps) -> Setting {
        Setting { workflows, tasks, mishaps, ..Setting::CALM }
    }
    const fn express(mishaps: Mishaps) -> Setting {
        Setting { express: 2, ..of(0, 0, mishaps) }
    }
    match rule {
        Rule::FenceAtAdvance => {
            (Setting { max_items: 1, one_batch_each: false, ..of(2, 2, SLEEP) }, Promise::NoCandidateAfterTakeover)
        }
        Rule::FenceAtRelease => (of(2, 2, SLEEP), Promise::SignalsAnswered),
        Rule::ReleaseAtSeq => (of(2, 2, Mishaps { lags: 1, ..CRASH }), Promise::NoCandidateAfterTakeover),
        Rule::OpenBatchNamed | Rule::Void => (of(2, 2, SLEEP), Promise::NoCandidateAfterTakeover),
        Rule::ExpressVoid => (express(Mishaps { copies: 1, ..NONE }), Promise::MembersName),
        Rule::VoidedReturn => (express(CRASH), Promise::NamedIsMember),
        Rule::AcquireUnchanged => (of(2, 2, Mishaps { sleeps: 1, ..CRASH }), Promise::SignalsAnswered),
        Rule::Revision => (of(2, 2, SLEEP), Promise::MembersFixed),
        Rule::IntentFirst | Rule::FinishNeverTrim => (of(2, 2, CRASH), Promise::NamedIsMember),
        Rule::Round => (of(2, 2, Mishaps { failures: 1, ..SLEEP }), Promise::NamedIsMember),
        Rule::SignalAtRelease | Rule::SignalConditional => (of(2, 2, NONE), Promise::SignalsAnswered),
        Rule::AcknowledgeLast => (of(1, 1, CRASH), Promise::NothingLost),
        Rule::LoserComesBack => (of(2, 2, Mishaps { lags: 1, ..NONE }), Promise::NothingLost),
        Rule::EveryShard => (Setting { shards: 2, ..of(2, 2, NONE) }, Promise::SignalsAnswered),
        Rule::PutIfAbsent => (Setting { repeats: 1, ..of(2, 2, NONE) }, Promise::OneBatchARound),
        Rule::ReturnConditional => (of(1, 1, Mishaps { copies: 1, failures: 1, ..NONE }), Promise::OneBatchARound),
        Rule::ClaimAtSettling => (of(1, 1, Mishaps { copies: 1, ..SLEEP }), Promise::OneOutcome),
        Rule::BeatUnchanged => (of(1, 1, Mishaps { copies: 1, beats: 1, ..SLEEP }), Promise::RenewedLives),
    }
}

#[test]
fn each_rule_keeps_the_promise_that_is_written_beside_it() {
    each_rule(rules::ALL, |rule| {
        let (setting, promise) = shows(rule);
        (promise.broken(), find(setting, Removed::only(rule)).unwrap())
    });
}
