//! A long stream whose first event hangs: what settling costs, what is stored while millions pass, and how long the
//! watermark takes to follow once the first one settles.
//!
//! Events are numbered as feeding does it, without sending their tasks; then batches of them are settled by many at
//! once, in random order within a stretch, as the follow-up of their calls does it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Error, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_core::domain::id::StreamId;
use groupage_core::domain::stream::{EventId, Life, MAX_FED, MAX_NUMBER, Offset, Options, Page, Stream, Trace};
use groupage_core::domain::tracker::{MAX_LEVEL, NodeId, Outcome};
use groupage_core::memory::{MemoryQueues, MemoryStore};
use groupage_core::ports::{Stored, Streams};
use groupage_core::steps::stream::Streaming;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::prelude::*;

/// Long streams: what settling an event costs, and what ten million events leave behind when one of them hangs.
///
/// It settles --events events by --workers at once, in random order of their batches, all but the first; then says how
/// many bytes the stream's items take, settles the first, and measures how long the watermark takes to pass all others.
/// Capacity units are counted as DynamoDB bills them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many events.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    events: u64,
    /// Events that one batch settles.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: u64,
    /// How many settle at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    workers: usize,
    /// Keep the tables in plain memory, without DynamoDB's protocol: faster, and without capacity units.
    #[arg(long)]
    memory: bool,
    /// Chooses the order.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// What a run came to.
#[derive(Debug, Serialize)]
struct Figures {
    /// dynamodb (its protocol, in this process) or memory.
    tables: &'static str,
    events: u64,
    /// Events of one batch.
    batch: u64,
    workers: usize,
    /// Of feeding and settling all but the first.
    seconds: f64,
    settled_per_second: f64,
    /// Nodes of bits that are left while the first event hangs.
    nodes: u64,
    /// Pages of what was fed that are left.
    pages: u64,
    /// Bytes of all the stream's items then.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
    /// From the hanging event's settling to the commit of the watermark at the end.
    advance_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<PerEvent>,
}

/// Capacity units by event.
#[derive(Debug, Serialize)]
struct PerEvent {
    fed_write_units: f64,
    fed_read_units: f64,
    settled_write_units: f64,
    settled_read_units: f64,
    /// Of the advance as a whole.
    advance_write_units: f64,
    advance_read_units: f64,
}

/// A settled task's retention does not matter here.
const RETENTION_MS: u64 = 1;
/// Events that are unsettled at once.
const STRETCH: u64 = 50_000;

/// Runs the benchmark.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let figures = if options.memory {
        let meter = Meter::new();
        Bench::open(options, MemoryStore::new(), meter.into()).await?.run("memory").await?
    } else {
        let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
        let meter = Arc::new(Meter::new());
        let store = stack.connection().store(RETENTION_MS, &meter);
        let mut bench = Bench::open(options, store, meter).await?;
        let mut figures = bench.pass().await?;
        figures.stored_bytes = Some(bench.store.stream_size(&bench.life).await?.1);
        bench.advance(&mut figures).await?;
        stack.shutdown().await;
        figures
    };
    output.result(&figures, &tables(&figures));
    Ok(())
}

struct Bench<'a, S> {
    options: &'a Args,
    store: S,
    outbox: MemoryQueues,
    meter: Arc<Meter>,
    life: Life,
}

impl<'a, S: Streams> Bench<'a, S> {
    async fn open(options: &'a Args, store: S, meter: Arc<Meter>) -> Result<Self> {
        let stream = Stream::open(StreamId::new("bench"), Options::default(), System.now());
        store.open_stream(&stream).await?;
        Ok(Self { options, store, outbox: MemoryQueues::new(), meter, life: stream.life })
    }

    async fn run(mut self, tables: &'static str) -> Result<Figures> {
        let mut figures = self.pass().await?;
        (figures.tables, figures.units) = (tables, None);
        self.advance(&mut figures).await?;
        figures.units = None;
        Ok(figures)
    }

    const fn steps(&self) -> Streaming<'_, S, MemoryQueues, System> {
        Streaming { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// Feeds and settles all events but the first.
    async fn pass(&mut self) -> Result<Figures> {
        let Args { events, batch, workers, seed, .. } = *self.options;
        let (started, mut dice) = (Instant::now(), StdRng::seed_from_u64(seed));
        let bar = bar(events, "{bar:40} {pos} of {len} events  {per_sec}  {eta}");
        let (mut fed, mut feeding) = (0, Default::default());
        let mut settling = feeding;
        while fed < events {
            let end = (fed + STRETCH).min(events);
            let before = self.meter.snapshot();
            self.feed(fed, end).await?;
            let between = self.meter.snapshot();
            let mut batches: Vec<u64> = (fed..end).step_by(usize::try_from(batch).unwrap_or(1)).collect();
            batches.shuffle(&mut dice);
            let settle = async |first: u64| {
                let last = (first + batch).min(end);
                self.settle(first.max(1)..last).await?;
                bar.inc(last - first);
                Ok::<(), Error>(())
            };
            stream::iter(batches).map(settle).buffer_unordered(workers).try_collect::<()>().await?;
            let after = self.meter.snapshot();
            feeding = add(feeding, before, between);
            settling = add(settling, between, after);
            fed = end;
        }
        bar.finish_and_clear();
        let seconds = started.elapsed().as_secs_f64();
        let (nodes, pages) = self.parts().await?;
        let per = |units: f64| units / events as f64;
        Ok(Figures {
            tables: "dynamodb",
            events,
            batch,
            workers,
            seconds,
            settled_per_second: events as f64 / seconds,
            nodes,
            pages,
            stored_bytes: None,
            advance_ms: 0.0,
            units: Some(PerEvent {
                fed_write_units: per(feeding.1),
                fed_read_units: per(feeding.0),
                settled_write_units: per(settling.1),
                settled_read_units: per(settling.0),
                advance_write_units: 0.0,
                advance_read_units: 0.0,
            }),
        })
    }

    /// Numbers events up to this one, page by page.
    async fn feed(&self, from: u64, end: u64) -> Result<()> {
        let mut stream = self.steps().stream(&self.life.id).await??;
        for start in (from..end).step_by(MAX_FED) {
            let numbers = start..(start + MAX_FED as u64).min(end);
            // An offset like that of a file: where the line ends.
            let trace = |number: u64| Some(Trace::of(Offset::parse(&(number * 200).to_string()).ok()?, ""));
            let page = Page { start, traces: numbers.filter_map(trace).collect() };
            stream = stream.fed(&page, System.now());
            let stored = self.store.feed(&stream, &page).await?;
            ensure!(stored == Stored::Yes, "the watermark is at {}", stream.watermark.number);
        }
        Ok(())
    }

    async fn settle(&self, numbers: std::ops::Range<u64>) -> Result<()> {
        let event = |number| (EventId { life: self.life.clone(), number }, Outcome::Succeeded);
        let settled = self.steps().settle(numbers.map(event).collect()).await;
        settled.unanswered.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
    }

    /// Nodes and pages that are there.
    async fn parts(&self) -> Result<(u64, u64)> {
        let (mut nodes, mut pages, mut from) = (0, 0, 0);
        for level in 0..=MAX_LEVEL {
            nodes += self.store.stream_nodes(&self.life, NodeId { level, index: 0 }, usize::MAX).await?.len() as u64;
        }
        loop {
            let found = self.store.pages(&self.life, from, MAX_NUMBER, 100).await?;
            let Some(last) = found.last() else { return Ok((nodes, pages)) };
            from = last.end();
            pages += found.len() as u64;
        }
    }

    /// Settles the first event, and commits.
    async fn advance(&mut self, figures: &mut Figures) -> Result<()> {
        let (before, started) = (self.meter.snapshot(), Instant::now());
        self.settle(0..1).await?;
        let stream = self.steps().commit_now(&self.life.id).await??;
        figures.advance_ms = started.elapsed().as_secs_f64() * 1_000.0;
        let at = stream.watermark.number;
        ensure!(at == self.options.events, "the watermark is at {at}");
        let (read, write) = add((0.0, 0.0), before, self.meter.snapshot());
        if let Some(units) = &mut figures.units {
            (units.advance_read_units, units.advance_write_units) = (read, write);
        }
        Ok(())
    }
}

/// Read and write units, with those of one more stretch.
fn add((read, write): (f64, f64), from: groupage_aws::Usage, to: groupage_aws::Usage) -> (f64, f64) {
    let used = (to - from).capacity();
    (read + used.read.count(), write + used.write.count())
}
