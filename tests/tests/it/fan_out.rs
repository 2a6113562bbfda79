//! Fan-outs of many items, acked in random order by processes that die at any call to a port, completed once.
//!
//! A long run (`GROUPAGE_TESTS=long`) has a million items, a quick one takes some seconds. `GROUPAGE_TRACKER_ITEMS`
//! says how many they are, and `GROUPAGE_TRACKER_SEEDS` how many small fan-outs are tried.

use groupage_tests::crowd::{Crowd, Told};
use groupage_tests::{effort, fan};

const ITEMS: u64 = 100_000;
const SEEDS: u64 = 300;

#[test]
fn a_large_fan_out_completes_exactly_once_whoever_dies() {
    let items = effort::number("GROUPAGE_TRACKER_ITEMS").unwrap_or_else(|| effort::either(ITEMS, 10 * ITEMS));
    let told = Crowd { seed: 7, items, ackers: 32, chunk: 1_000, deaths: 0.004 }.run();
    println!("{items} items: {told:#?}");
    assert_eq!(told.broken, Vec::<String>::new());
    assert!(told.deaths > 10 && told.repeated > items / 50, "nothing much befell it");
}

/// Few enough items that the deaths fall on the last bits, the seal, the completion and the notice.
#[test]
fn no_small_fan_out_is_left_incomplete_or_completed_twice() {
    let seeds: Vec<u64> = (0..effort::number("GROUPAGE_TRACKER_SEEDS").unwrap_or(SEEDS)).collect();
    let told = fan::each(&seeds, |seed| {
        // Within a group, at its border, and of three groups.
        let items = [1, 40, 7_168, 7_170, 15_000][usize::try_from(seed % 5).unwrap()] + seed / 5 % 3;
        let deaths = if seed % 2 == 0 { 0.03 } else { 0.1 };
        Crowd { seed: *seed, items, ackers: 8, chunk: items.div_ceil(10), deaths }.run()
    });
    let count = |is: fn(&Told) -> bool| told.iter().filter(|told| is(told)).count();
    let (healed, sealed_last) = (count(|told| told.healed), count(|told| told.sealed_last));
    let deaths: usize = told.iter().map(|told| told.deaths).sum();
    println!("{} fan-outs: {deaths} deaths, {healed} healed by sweep, {sealed_last} sealed last", told.len());
    let broken: Vec<String> = seeds
        .iter()
        .zip(&told)
        .filter(|(_, told)| !told.broken.is_empty())
        .map(|(seed, told)| format!("seed {seed}: {}", told.broken.join("; ")))
        .collect();
    assert!(broken.is_empty(), "{} are broken:\n{}", broken.len(), broken[..broken.len().min(10)].join("\n"));
    assert!(healed > 0 && sealed_last > 0 && count(|told| !told.healed && !told.sealed_last) > 0);
}

#[test]
fn the_same_seed_gives_the_same_fan_out() {
    let run = || Crowd { seed: 3, items: 8_000, ackers: 8, chunk: 500, deaths: 0.01 }.run();
    assert_eq!(run(), run());
}
