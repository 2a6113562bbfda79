//! Trackers: all rules kept, no promise is broken; any rule removed, one is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use groupage_model::check::Found;
use groupage_model::trackers::check::{find, visit_all};
use groupage_model::trackers::rules::{self, Promise, Rule};
use groupage_model::trackers::setting::{self, Setting};

fn told(found: &Found) -> String {
    match &found.broken {
        Some((promise, steps)) => format!("{promise}:\n  {}", steps.join("\n  ")),
        None => "no promise is broken".to_owned(),
    }
}

#[test]
fn a_tracker_is_completed_once_and_never_too_early() {
    for setting in setting::ALL {
        let found = visit_all(setting);
        let Found { states, ways, took, .. } = &found;
        println!("{}: {states} states, {ways} ways into them, in {took:.1?}", setting.name);
        assert!(found.broken.is_none(), "{}: {}", setting.name, told(&found));
    }
}

/// Where the removal of a rule shows, and what it breaks.
const fn shows(rule: Rule) -> (Setting, Promise) {
    const fn calm(setting: Setting) -> Setting {
        Setting { crashes: 0, sweeps: false, ..setting }
    }
    match rule {
        Rule::LatestTracker => (calm(setting::ONE_GROUP), Promise::CompleteAtOnce),
        Rule::LatestParent => (calm(setting::TWO_WHOLE_GROUPS), Promise::CompleteAtOnce),
        Rule::SealerLooks => (calm(setting::ONE_GROUP), Promise::CompleteAtOnce),
        Rule::LooksForTheSeal => (calm(setting::ONE_GROUP), Promise::CompleteIsComplete),
        Rule::WordsAsRead => (calm(setting::REPEATED), Promise::BitsStay),
        Rule::TrackerAsRead => (calm(setting::TWO_GROUPS), Promise::OneEnd),
        Rule::KeyOnce => (Setting { sweeps: false, ..setting::ONE_GROUP }, Promise::NothingLost),
    }
}

#[test]
fn each_rule_of_trackers_keeps_the_promise_that_is_written_beside_it() {
    let mut wrong = Vec::new();
    for rule in rules::ALL {
        let (setting, promise) = shows(rule);
        let found = find(setting, rule);
        let broken = found.broken.as_ref().map(|(name, _)| *name);
        let steps = found.broken.as_ref().map_or(0, |(_, steps)| steps.len());
        println!("without {rule:?}: {}, after {steps} steps", broken.unwrap_or("nothing is broken"));
        if broken != Some(promise.broken()) {
            wrong.push(format!("{rule:?} removed should show that {}, but {}", promise.broken(), told(&found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
