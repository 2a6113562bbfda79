//! Bytes from outside, made of good ones and of the hostile corpus by what goes wrong on the way: flipped, cut,
//! repeated, spliced.
//!
//! Without `GROUPAGE_FUZZ` each parser gets some hundred inputs. `GROUPAGE_FUZZ=60` has each work for sixty minutes on
//! a processor. Then the input in hand is also in `target/fuzz`, since a stack that overflows leaves no other trace.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::effort;

/// Inputs of one round.
const CASES: u32 = 256;
/// Longer inputs say nothing new, and take long.
const MAX_BYTES: usize = 20_000;

/// What goes wrong on the way.
#[derive(Clone, Debug)]
enum Change {
    Put(Index, Vec<u8>),
    Cut(Index, usize),
    Repeat(Index, usize, usize),
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    // What parsers look for is met more often than by chance.
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", "\\", ":", ",", "-", "\n", " ", "\\u0000", "\\ud800", "1e400", "null", "true", "{{",
        "}}", "{%", "%}", "|", "'", "`", "&a ", "*a", "<<: ", "#", "!", "(", ")", "\u{feff}", "\u{202e}", "ü", "\0",
    ]);
    let put = prop_oneof![
        4 => token.prop_map(|token| token.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 1..8),
    ];
    prop_oneof![
        6 => (any::<Index>(), put).prop_map(|(at, bytes)| Change::Put(at, bytes)),
        3 => (any::<Index>(), 1_usize..40).prop_map(|(at, length)| Change::Cut(at, length)),
        1 => (any::<Index>(), 1_usize..20, 2_usize..300).prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        2 => any::<(Index, Index, Index)>().prop_map(|(at, seed, from)| Change::Splice(at, seed, from)),
    ]
}

fn changed(mut bytes: Vec<u8>, change: &Change, seeds: &[Vec<u8>]) -> Vec<u8> {
    let place = |at: &Index, length: usize| at.index(length + 1);
    match change {
        Change::Put(at, put) => {
            let at = place(at, bytes.len());
            bytes.splice(at..at, put.iter().copied());
        }
        Change::Cut(at, length) => {
            let at = place(at, bytes.len());
            bytes.drain(at..bytes.len().min(at + length));
        }
        Change::Repeat(at, length, times) => {
            let at = place(at, bytes.len());
            let part = bytes[at..bytes.len().min(at + length)].repeat(*times);
            bytes.splice(at..at, part);
        }
        Change::Splice(at, seed, from) => {
            let other = seed.get(seeds);
            let from = place(from, other.len());
            bytes.truncate(place(at, bytes.len()));
            bytes.extend_from_slice(&other[from..]);
        }
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

/// Bytes made from these seeds, and some that are made from nothing.
fn input(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let from_seeds = (any::<Index>(), prop::collection::vec(change(), 0..12)).prop_map(move |(seed, changes)| {
        changes.iter().fold(seed.get(&seeds).clone(), |bytes, change| changed(bytes, change, &seeds))
    });
    prop_oneof![15 => from_seeds, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

/// Gives a parser inputs made from `seeds`. It panics on none of them, and what it claims of each holds.
///
/// # Panics
/// With the smallest input that was found.
pub fn fuzz(parser: &str, seeds: &[&[u8]], claim: impl Fn(&[u8])) {
    let minutes: Option<u64> = effort::number("GROUPAGE_FUZZ");
    let trace = minutes.map(|_| trace_of(parser));
    let mut seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed[..seed.len().min(MAX_BYTES)].to_vec()).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let clock = Clock::start();
    let mut tried = 0;
    loop {
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(&input(seeds.clone()), |bytes| {
            if let Some(trace) = &trace {
                std::fs::write(trace, &bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            claim(&bytes);
            Ok(())
        });
        if let Err(TestError::Fail(why, bytes)) = result {
            panic!("{parser}: {why}\n{}\n{bytes:?}", String::from_utf8_lossy(&bytes));
        }
        tried += CASES;
        let worked = clock.elapsed();
        if minutes.is_none_or(|minutes| worked >= Duration::from_secs(60 * minutes)) {
            println!("{parser}: {tried} inputs in {} s", worked.as_secs());
            return;
        }
    }
}

/// How long a thread has worked. On a busy machine an hour by the clock may be minutes of work.
struct Clock {
    began: Instant,
    on_a_processor: Option<Duration>,
}

impl Clock {
    fn start() -> Self {
        Self { began: Instant::now(), on_a_processor: on_a_processor() }
    }

    /// The clock's time where the system does not say.
    fn elapsed(&self) -> Duration {
        match (self.on_a_processor, on_a_processor()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => self.began.elapsed(),
        }
    }
}

/// For how long this thread was on a processor, as Linux counts it.
fn on_a_processor() -> Option<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(counted.split(' ').next()?.parse().ok()?))
}

/// Where the input in hand is.
fn trace_of(parser: &str) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/fuzz"));
    // If it cannot be made, the first write says so.
    let _ = std::fs::create_dir_all(&folder);
    folder.join(parser.replace(' ', "-"))
}
