//! All rules kept, no promise is broken; any rule removed, one is, and the run that breaks it is found.

use groupage_model::gates::model::Gated;
use groupage_model::gates::promises::Promise as OfGates;
use groupage_model::harness::check::{each_rule_keeps_its_promise, keeps_its_promises, unshown};
use groupage_model::harness::play::Play;
use groupage_model::pipeline::model::Groupage;
use groupage_model::pipeline::promises::Promise;
use groupage_model::{lanes, lists, streams, trackers};

#[test]
fn no_promise_of_the_pipeline_is_broken() {
    keeps_its_promises::<Groupage>();
}

#[test]
fn each_rule_of_the_pipeline_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Groupage>();
}

/// A promise that is not checked cannot be kept.
#[test]
fn every_promise_of_the_pipeline_is_shown_by_a_rule_or_watched_at_every_call() {
    assert_eq!(unshown::<Groupage>(), [Promise::CallsAsFrozen, Promise::SettledAsRecorded]);
}

#[test]
fn a_list_loses_no_task_and_releases_none_twice() {
    keeps_its_promises::<Play<lists::setting::Setting>>();
}

#[test]
fn each_rule_of_lists_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Play<lists::setting::Setting>>();
}

#[test]
fn a_lane_keeps_order_and_loses_nobody() {
    keeps_its_promises::<Play<lanes::setting::Setting>>();
}

#[test]
fn each_rule_of_lanes_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Play<lanes::setting::Setting>>();
}

#[test]
fn a_watermark_passes_what_is_settled_and_nothing_else() {
    keeps_its_promises::<Play<streams::setting::Setting>>();
}

#[test]
fn each_rule_of_streams_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Play<streams::setting::Setting>>();
}

#[test]
fn a_tracker_is_completed_once_and_never_too_early() {
    keeps_its_promises::<Play<trackers::setting::Setting>>();
}

#[test]
fn each_rule_of_trackers_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Play<trackers::setting::Setting>>();
}

#[test]
fn a_limit_holds_and_everybody_gets_a_turn() {
    keeps_its_promises::<Gated>();
}

#[test]
fn each_rule_of_gates_keeps_the_promise_that_is_written_beside_it() {
    each_rule_keeps_its_promise::<Gated>();
}

/// No rule of the tables keeps this one: it is watched at every end.
#[test]
fn every_promise_of_gates_is_shown_by_a_rule_but_one() {
    assert_eq!(unshown::<Gated>(), [OfGates::BlameIsRight]);
}
