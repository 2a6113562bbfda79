//! Many who settle at once, in random order and some of it twice, of whom some die at any call and some sleep: no event
//! is lost or counted twice, and nothing is left behind.

use std::cell::RefCell;
use std::sync::Arc;

use futures::future::join_all;
use groupage_core::domain::stream::{Life, Page, State, Trace};
use groupage_core::steps::stream::Streaming;
use groupage_tests::prelude::*;

use super::calls::{RETENTION_MS, id, offset, options};

const SETTLERS: usize = 16;
/// Two groups, and some of a third.
const EVENTS: u64 = 15_000;
const CHUNK: u64 = 100;
const SEEDS: u64 = 30;

const fn outcome(number: u64) -> Outcome {
    if number % 17 == 3 { Outcome::Failed } else { Outcome::Succeeded }
}

async fn fed(store: &MemoryStore, env: &TestEnv) -> Life {
    let mut stream = Stream::open(id(), options(1_000_000), env.now());
    store.open_stream(&stream).await.unwrap();
    for start in (0..EVENTS).step_by(500) {
        let traces = (start..start + 500).map(|number| Trace::of(offset(number), "")).collect();
        let page = Page { start, traces };
        stream = stream.fed(&page, env.now());
        assert_eq!(store.feed(&stream, &page).await.unwrap(), Stored::Yes);
    }
    stream.life
}

/// Runs a crowd; says how many died, slept or were told nothing.
async fn run(seed: u64) -> usize {
    let env = TestEnv::new(seed);
    let (store, queues) = (MemoryStore::new(), MemoryQueues::new());
    let life = fed(&store, &env).await;
    let plan = if seed.is_multiple_of(2) { Plan::Random(0.02) } else { Plan::Deaths(0.03) };
    let fate = Arc::new(Fate::new(plan, env.with_seed(seed + 1), false));
    let mut chunks: Vec<u64> = (0..EVENTS / CHUNK).collect();
    // One in ten comes a second time, in between.
    chunks.extend((0..EVENTS / CHUNK / 10).map(|n| n * 10));
    for at in (1..chunks.len()).rev() {
        chunks.swap(at, usize::try_from(env.pick(0..=at as u64)).unwrap());
    }
    let chunks = RefCell::new(chunks);
    let settle = async || {
        loop {
            let Some(chunk) = chunks.borrow_mut().pop() else { return };
            let process = Process::new("settle", env.clone(), Arc::clone(&fate), 10);
            let (faulty, outbox) = (Faulty::new(&store, &process), Faulty::new(&queues, &process));
            let steps = Streaming { store: &faulty, outbox: &outbox, env: process.env() };
            let event = |number| (EventId { life: life.clone(), number }, outcome(number));
            let events = (chunk * CHUNK..(chunk + 1) * CHUNK).map(event).collect();
            let settled = process.run(steps.settle(events), || {}).await;
            // Its message comes again.
            if settled.is_none_or(|settled| !settled.unanswered.is_empty()) {
                chunks.borrow_mut().insert(0, chunk);
            }
        }
    };
    join_all((0..SETTLERS).map(|_| settle())).await;

    let steps = Streaming { store: &store, outbox: &queues, env: &env };
    env.sleep(600_000).await;
    steps.look_after(&id(), RETENTION_MS).await.unwrap();
    let stream = store.stream(&id()).await.unwrap().unwrap();
    let failed = (0..EVENTS).filter(|number| outcome(*number) == Outcome::Failed).count() as u64;
    let watermark = &stream.watermark;
    assert_eq!((watermark.number, watermark.settled, watermark.failed), (EVENTS, EVENTS, failed), "seed {seed}");
    assert_eq!((&watermark.offset, stream.state), (&Some(offset(EVENTS - 1)), State::Open));
    // The last group's node, and the one above it.
    assert_eq!(store.stream_parts(), (2, 0), "seed {seed}: something is left");
    fate.faults().len()
}

#[test]
fn a_crowd_settles_every_event_once_whoever_dies() {
    let faults: usize = (0..SEEDS).map(|seed| in_virtual_time(run(seed))).sum();
    println!("{SEEDS} crowds of {SETTLERS}: {faults} faults");
    assert!(faults > 10 * usize::try_from(SEEDS).unwrap(), "nothing much befell them");
}
