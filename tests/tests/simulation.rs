//! Deterministic simulation: whatever may happen, happens, by a seed.
//!
//! `GROUPAGE_TESTS=long` tries more seeds, and `GROUPAGE_SEEDS` says how many; `GROUPAGE_SEED=<seed>` runs one again
//! and prints every call with its answer. A rule that is broken on purpose is caught in a quick run, too: there the
//! search ends with the seed that shows it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use groupage_lab::prelude::*;
use std::collections::BTreeMap;

use groupage_lab::chaos::Chaos;
use groupage_lab::moods::Moods;
use groupage_lab::{effort, fan, limits};

/// This many seeds are tried in a quick run, and in a long one.
const SEEDS: u64 = 300;
const SEEDS_IF_LONG: u64 = 1_000;
/// One of this many seeds has to show a broken rule.
const SEEDS_PER_MUTATION: u64 = 4_000;
/// Seeds that showed rules which few seeds show. They are tried first: without them the search takes six minutes of
/// processor. One that shows nothing any more costs one run.
const TRIED_FIRST: [u64; 11] = [25, 113, 119, 170, 188, 255, 529, 754, 827, 2_343, 3_324];
/// This many are tried before anybody looks whether one has shown it: a few for each core.
const AT_ONCE: usize = 11;

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = effort::number("GROUPAGE_SEED") {
        let chaos = Chaos::of(seed);
        println!("{chaos:#?}");
        let told = chaos.run(true);
        println!("{}", told.trace.join("\n"));
        assert_eq!(told.broken, Vec::<String>::new());
        return;
    }
    let seeds: Vec<u64> =
        (0..effort::number("GROUPAGE_SEEDS").unwrap_or_else(|| effort::either(SEEDS, SEEDS_IF_LONG))).collect();
    let runs = fan::each(&seeds, |seed| {
        let told = Chaos::of(*seed).run(false);
        // register-task writes batches on the express path only: full ones, or a void in the place of one.
        let express = told.points.iter().any(|point| (point.step, point.call) == ("register-task", "store"));
        ((*seed, told.broken), [told.points.len(), told.faults.len(), told.shard_batches, usize::from(express)])
    });
    let (runs, counts): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let [calls, faults, shard_batches, express] =
        [0, 1, 2, 3].map(|what| counts.iter().map(|run| run[what]).sum::<usize>());
    println!(
        "{} seeds: {calls} calls to ports, {faults} faults, {shard_batches} batches of shards; {express} took the express path",
        runs.len()
    );
    let broken: Vec<String> = runs
        .iter()
        .filter(|(_, broken)| !broken.is_empty())
        .map(|(seed, broken)| {
            let again = "cargo test -p groupage-tests --test simulation no_seed -- --nocapture";
            format!("GROUPAGE_SEED={seed} {again}\n  {}", broken.join("\n  "))
        })
        .collect();
    let shown = broken.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(broken.is_empty(), "{} of {} seeds break a promise:\n{shown}", broken.len(), runs.len());
    assert!(faults > runs.len(), "only {faults} faults: the simulation does not bite");
    assert!(express > runs.len() / 6, "only {express} seeds took the express path");
    assert!(shard_batches > runs.len() / 10, "only {shard_batches} batches of shards: no Target is hot");
}

/// This many upgrades are tried in a quick run, and in a long one.
const UPGRADES: u64 = 100;
const UPGRADES_IF_LONG: u64 = 1_000;

#[test]
fn no_upgrade_breaks_a_promise() {
    let seeds: Vec<u64> = match effort::number("GROUPAGE_SEED") {
        Some(seed) => vec![seed],
        None => (0..effort::number("GROUPAGE_SEEDS").unwrap_or_else(|| effort::either(UPGRADES, UPGRADES_IF_LONG)))
            .collect(),
    };
    let runs = fan::each(&seeds, |seed| (*seed, Chaos::of(*seed).upgrading().run(false).broken));
    let broken: Vec<_> = runs.iter().filter(|(_, broken)| !broken.is_empty()).collect();
    println!("{} upgrades, of which {} break a promise", runs.len(), broken.len());
    let shown: Vec<_> =
        broken.iter().take(5).map(|(seed, broken)| format!("GROUPAGE_SEED={seed}: {broken:?}")).collect();
    assert!(broken.is_empty(), "{} of {} upgrades:\n{}", broken.len(), runs.len(), shown.join("\n"));
}

/// This many seeds of a downstream with moods are tried in a quick run, and in a long one.
const MOODS: u64 = 200;
const MOODS_IF_LONG: u64 = 10_000;

#[test]
fn no_mood_of_a_downstream_fails_a_task() {
    let seeds: Vec<u64> = match effort::number("GROUPAGE_SEED") {
        Some(seed) => vec![seed],
        None => (0..effort::number("GROUPAGE_SEEDS").unwrap_or_else(|| effort::either(MOODS, MOODS_IF_LONG))).collect(),
    };
    let runs = fan::each(&seeds, |seed| (*seed, Moods::of(*seed).run()));
    let bad: Vec<_> = runs.iter().filter(|(_, came)| !came.broken.is_empty() || !came.failed.is_empty()).collect();
    let (calls, good) =
        runs.iter().fold((0, 0), |(calls, good), (_, came)| (calls + came.calls.0, good + came.calls.1));
    println!("{} seeds: {calls} calls, {good} of them answered", seeds.len());
    let shown = bad.iter().take(5).map(|(seed, came)| format!("GROUPAGE_SEED={seed}: {came:?}")).collect::<Vec<_>>();
    assert!(bad.is_empty(), "{} of {} seeds:\n{}", bad.len(), seeds.len(), shown.join("\n"));
    assert!(seeds.len() == 1 || calls > good + seeds.len(), "the downstream is never away");
}

/// When each of these batches is called, in milliseconds, whose limits are changed after twenty seconds.
fn line(batches: usize, limits: [&str; 2], is_pulled: bool, push_lag_ms: u64, mutation: Option<Mutation>) -> Vec<u64> {
    in_virtual_time(async {
        let downstream = if is_pulled { "pull" } else { r#"{ http: { url: "http://downstream.invalid/load" } }"# };
        let [before, after] = limits.map(|limits| {
            format!(
                "version: 1\nroutes: [{{ name: parcels, target: truck, batch: {{ max_items: 1, wait_ms: 0 }}, \
                 downstream: {downstream}, limits: {{ {limits} }} }}]"
            )
        });
        let (workers, pushes) = (is_pulled.then_some(("parcels", 2)), vec![(20_000, after)]);
        let changes = Setting { workers, pushes, push_lag_ms, mutation, ..Setting::default() };
        let setting = Setting { latency_ms: 4, sweeps: true, ..changes };
        let world = World::new(setting, &before, Scripted::accepting());
        let begun = world.env.now();
        world.send(&parcels(batches, 1));
        world.run_to_rest().await.unwrap();
        assert_eq!(limits::broken(&world), Vec::<String>::new());
        world.downstream.ledger().iter().map(|seen| world.env.moment(seen.at).since(begun)).collect()
    })
}

/// The time by which all batches are called whose limit was raised after twenty seconds.
const RAISED_MS: u64 = 20_000 + 120_000 + 20_000;

#[test]
fn a_limit_that_is_raised_reaches_those_that_wait_within_two_minutes() {
    for (to, is_pulled, push_lag_ms) in [
        ("", false, 0),
        ("", true, 0),
        ("", false, 60_000),
        ("calls_per_second: 20", false, 0),
        ("calls_per_second: 20", true, 0),
        ("in_flight: 20", false, 60_000),
    ] {
        let calls = line(300, ["calls_per_second: 1", to], is_pulled, push_lag_ms, None);
        let (last, bound) = (calls.iter().max().copied(), RAISED_MS + push_lag_ms);
        println!("{to:?}, pulled: {is_pulled}, known after {push_lag_ms} ms: the last call came after {last:?} ms");
        assert!(calls.len() == 300 && last < Some(bound), "{to:?}, pulled: {is_pulled}: {last:?} of {bound}");
    }
}

#[test]
fn no_slot_of_a_targets_rate_is_lost() {
    let rate = "calls_per_second_per_target: 2";
    let last = line(60, [rate, rate], false, 0, None).into_iter().max().unwrap_or_default();
    println!("60 batches at two calls a second: the last call came after {last} ms");
    assert!(last < 31_000, "{last}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        let (once, twice) = (Chaos::of(seed).run(true), Chaos::of(seed).run(true));
        assert!(!once.trace.is_empty());
        assert_eq!(once.trace, twice.trace, "seed {seed}");
        assert_eq!(once.points, twice.points, "seed {seed}");
    }
}

#[test]
fn every_broken_rule_is_caught() {
    let only = std::env::var("GROUPAGE_MUTATION").ok();
    let mut missed = Vec::new();
    for &mutation in Mutation::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{mutation:?}")) {
            continue;
        }
        if mutation == Mutation::WaitsOutItsTicket {
            let last = line(300, ["calls_per_second: 1", ""], false, 0, Some(mutation)).into_iter().max();
            println!("{mutation:?}: the last call came after {last:?} ms");
            missed.extend((last < Some(RAISED_MS)).then_some(mutation));
            continue;
        }
        let seeds: Vec<u64> = TRIED_FIRST.into_iter().chain(0..SEEDS_PER_MUTATION).collect();
        let caught = seeds.chunks(AT_ONCE).find_map(|seeds| {
            let told = fan::each(seeds, |seed| Chaos::of(*seed).with(mutation).run(false).broken);
            seeds.iter().zip(told).find(|(_, broken)| !broken.is_empty())
        });
        match caught {
            Some((seed, broken)) => println!("{mutation:?}: seed {seed}: {}", promises(&broken)),
            None => missed.push(mutation),
        }
    }
    assert_eq!(missed, Vec::new(), "the promises hold without these rules, or nobody looks");
}

/// The names of the promises that were broken, and how often.
fn promises(broken: &[String]) -> String {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for line in broken {
        *by_name.entry(line.split(':').next().unwrap_or_default()).or_default() += 1;
    }
    by_name.into_iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
}
