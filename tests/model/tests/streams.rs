//! Streams: all rules kept, no promise is broken; any rule removed, one is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_model::check::{Found, each_rule};
use groupage_model::streaming::check::{find, visit_all};
use groupage_model::streaming::rules::{self, Promise, Rule};
use groupage_model::streaming::setting::{self, Setting};

#[test]
fn a_watermark_passes_what_is_settled_and_nothing_else() {
    for setting in setting::chosen() {
        let found = visit_all(setting);
        let Found { states, ways, took, .. } = &found;
        let Setting { name, crashes, sweeps, told: tells, .. } = setting;
        println!(
            "{name}, {crashes} deaths, swept {sweeps}, told {tells}: {states} states, {ways} ways into them, in \
             {took:.1?}"
        );
        assert!(found.broken.is_none(), "{}: {}", setting.name, found.told());
    }
}

/// Where the removal of a rule shows, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    match rule {
        Rule::CommitAsRead => (setting::TWO.with(0, false), Promise::NeverBack),
        Rule::FedAsRead => (setting::RIVALS.with(0, false), Promise::OneEvent),
        Rule::OpenIsFed => (setting::LATE.with(0, false), Promise::CompleteIsComplete),
        Rule::NothingFedSince => (setting::IDLE.with(0, true), Promise::NobodyLost),
        Rule::TracesWithNumbers => (setting::ALONE.with(1, false), Promise::NobodyLost),
        Rule::TracesCompared => (setting::RIVALS.with(0, false), Promise::OneEvent),
        Rule::WordsAsRead => (setting::TWO.with(0, false), Promise::BitsStay),
        Rule::BitAboveFirst => (setting::BORDER_TWICE.with(0, false), Promise::BitsStay),
        Rule::AsksAbove => (setting::ANEW.with(0, false), Promise::NobodyLost),
        Rule::PageStays => (setting::STANDS.with(0, false), Promise::OffsetKnown),
    }
}

#[test]
fn each_rule_of_streams_keeps_the_promise_that_is_written_beside_it() {
    each_rule(rules::ALL, |rule| {
        let (setting, promise) = shows(rule);
        (promise.broken(), find(setting, rule))
    });
}
