//! A downstream that is away for a while: nobody fails, few calls are made meanwhile, and the backlog is worked off.
//!
//! `GROUPAGE_TESTS=long` has a hundred tasks a second during the ten minutes, too. The twenty hours are run with fewer
//! tasks: what matters there is how long it lasts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use groupage_aws::entry::Metric;
use simulator::load::Load;
use simulator::{CallLimits, Setting, run};

/// Runs a load beside an outage that begins after ten seconds, and says what it came to.
fn away_for(seconds: u64, per_second: f64) {
    const BEGINS_S: u64 = 10;
    let load = Load::Stream { per_second, seconds: BEGINS_S + seconds + 20, targets: 1 };
    let calls = CallLimits { pauses_route: true, ..CallLimits::default() };
    let setting = Setting { calls, express: true, away_s: Some((BEGINS_S, seconds)), ..Setting::of(load) };
    let outcome = run(&setting, &|_| {}).unwrap();
    let begun = outcome.tasks_at.values().map(|(arrived, _)| *arrived).min().unwrap();
    let at = |call: &simulator::Seen| call.at.duration_since(begun);
    let (from, until) = (Duration::from_secs(BEGINS_S), Duration::from_secs(BEGINS_S + seconds));
    let while_away = outcome.calls.iter().filter(|call| (from..until).contains(&at(call))).count();
    let counted = |metric| outcome.counts.get(metric);
    println!(
        "away for {seconds} s under {per_second} tasks a second: {} tasks, {} failed, {while_away} calls while away, {} outages, \
         {} times held back; all is done {:.0} s after it is back; {} write units, {} gate reads",
        outcome.tasks,
        counted(Metric::TasksFailed),
        counted(Metric::OutagesBegun),
        counted(Metric::CallsHeldBack),
        (outcome.took.saturating_sub(until)).as_secs_f64(),
        outcome.usage.capacity().write.count(),
        outcome.gates.reads,
    );
    assert_eq!(counted(Metric::TasksFailed), 0);
    assert_eq!(counted(Metric::TasksSucceeded), outcome.tasks as u64);
    // Five begin the outage; those under way by then are calls, too.
    let most = 5 + 3 + 2 * seconds.div_ceil(60);
    assert!(while_away as u64 <= most, "{while_away} calls while it was away, more than {most}");
    let drained = outcome.took.saturating_sub(until);
    assert!(drained <= Duration::from_secs(15 * 60 + 120), "the backlog took {drained:?}");
}

#[test]
fn a_downstream_away_for_19_seconds_fails_nobody() {
    away_for(19, 100.0);
}

#[test]
fn a_downstream_away_for_ten_minutes_fails_nobody() {
    let is_long = std::env::var("GROUPAGE_TESTS").is_ok_and(|tests| tests == "long");
    away_for(10 * 60, if is_long { 100.0 } else { 10.0 });
}

#[test]
fn a_downstream_away_for_twenty_hours_fails_nobody() {
    away_for(20 * 60 * 60, 0.1);
}
