//! A large fan-out, added at once and acked by many workers in random order: what an ack costs, how often two meet, and
//! how much is stored.
//!
//! Everything goes through the AWS SDK to the embedded DynamoDB, which says what each request consumed. Units and
//! collisions depend on the machine only by how many workers it really runs at once; times depend on it fully.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_aws::Usage;
use groupage_core::domain::tracker::{GROUP_SIZE, ItemRange, MAX_ADDED, Options, Outcome, State};
use groupage_core::domain::{NotificationQueue, TrackerId};
use groupage_core::steps::track::Tracking;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::prelude::*;
use crate::process::resident;

/// What a large fan-out costs: items acked in random order by many at once. Capacity units, time, storage, memory.
///
/// For each of --chunks it makes empty tables in this process, opens a tracker, adds the items, and has them all acked
/// through the AWS SDK. Capacity units are counted as DynamoDB bills them.
///
/// A refused write found that another ack had changed the same 256 bits since they were read; it is made again, and
/// both count. Their share is of all write units of the acks: 5 % means that 5 of 100 units were spent on refused
/// writes.
///
/// Memory is what the whole process holds before and after the acks: the tables, the SDK and the workers, and both
/// times eight bytes for each ack.
///
/// Units and bytes hardly depend on the machine; refused writes depend on how many workers really run at once; time
/// and memory are this machine's. Begin with --items 100000: a million acks of one item each take a while.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many items.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    items: u64,
    /// How many ack at once, each one call after the other.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    workers: usize,
    /// How many consecutive items one ack is for; several numbers make one run each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 10, 100], value_parser = clap::value_parser!(u16).range(1..=7168))]
    chunks: Vec<u16>,
    /// How many acks come a second time, for every hundred.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    repeated_percent: u8,
    /// Chooses the random order; the same number, the same order.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// What one run came to.
#[derive(Debug, Serialize)]
struct Figures {
    items: u64,
    /// Consecutive items of one ack.
    chunk: u16,
    workers: usize,
    /// Calls, repeats included.
    acks: u64,
    repeated_acks: u64,
    seconds: f64,
    acks_per_second: f64,
    items_per_second: f64,
    write_units_per_ack: f64,
    read_units_per_ack: f64,
    write_units_per_item: f64,
    read_units_per_item: f64,
    /// Writes that were refused because another ack had changed the same bits' word since they were read; each was made
    /// again. They are in the write units above.
    collisions: u64,
    /// A hundred times these, divided by all write units of the acks. A write of a group is one unit.
    collisions_percent_of_write_units: f64,
    /// To open, add and seal.
    other_write_units: f64,
    /// Of one look at the whole.
    progress_read_units: f64,
    /// By what that look was billed for.
    stored_bytes_per_item: f64,
    /// Resident memory of this process in MiB, between adding the items and acking them. It holds the tables, the SDK,
    /// the workers, and eight bytes for each ack.
    resident_mib_before: Option<u64>,
    /// The same after the last ack.
    resident_mib_after: Option<u64>,
}

/// Runs the benchmark once for each size of chunk.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Vec::new();
    for chunk in &options.chunks {
        let figures = Bench::start(options, *chunk).await?.run().await?;
        output.one_of_several(&figures);
        all.push(figures);
    }
    output.all(&all);
    Ok(())
}

/// Consecutive items of a group: its number, the first item's position in it, and the last item's.
type Range = (u32, u16, u16);

struct Bench<'a> {
    options: &'a Args,
    chunk: u16,
    stack: embedded::Stack,
    meter: Arc<Meter>,
    store: Dynamo,
    outbox: Sqs,
    id: TrackerId,
}

/// A settled task's retention does not matter here.
const RETENTION_MS: u64 = 1;
/// A read unit buys this many bytes of an eventually consistent query.
const EVENTUAL_READ_BYTES: f64 = 8_192.0;

impl<'a> Bench<'a> {
    async fn start(options: &'a Args, chunk: u16) -> Result<Self> {
        let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
        let meter = Arc::new(Meter::new());
        let store = stack.connection().store(RETENTION_MS, &meter);
        let outbox = stack.connection().sqs(&meter);
        Ok(Self { options, chunk, stack, meter, store, outbox, id: TrackerId::new("bench") })
    }

    async fn run(self) -> Result<Figures> {
        let opened = self.meter.snapshot();
        let options = Options { deadline: None, notify: NotificationQueue::Default };
        self.tracking().open(self.id.clone(), options).await??;
        self.add().await?;
        let (acks, repeated) = self.acks();
        let (before, memory, started) = (self.meter.snapshot(), resident(), Instant::now());
        self.ack_all(&acks).await?;
        let seconds = started.elapsed().as_secs_f64();
        let (after, memory) = (self.meter.snapshot(), (memory, resident()));
        let progress = self.tracking().progress(&self.id).await??;
        let looked = self.meter.snapshot();
        let sealed = self.tracking().seal(&self.id).await??;
        if progress.missing > 0 || !matches!(sealed.state, State::Ended(_)) {
            bail!("everything is acked, and the tracker is {}", sealed.state.word());
        }
        let other = [before - opened, self.meter.snapshot() - looked].map(|usage| usage.capacity().write.count());
        let figures =
            self.figures((acks.len() as u64, repeated as u64), seconds, other, after - before, looked - after, memory);
        self.stack.shutdown().await;
        Ok(figures)
    }

    /// Adds all items, in as many calls as it takes.
    async fn add(&self) -> Result<()> {
        let mut added = 0;
        while added < self.options.items {
            let count = (self.options.items - added).min(MAX_ADDED);
            self.tracking().add(&self.id, &added.to_string(), count).await??;
            added += count;
        }
        Ok(())
    }

    /// Acks for all items in random order, of which some come twice, and how many do.
    fn acks(&self) -> (Vec<Range>, usize) {
        let Args { items, repeated_percent, seed, .. } = *self.options;
        let size = u64::from(GROUP_SIZE);
        let mut acks = Vec::new();
        for group in 0..items.div_ceil(size) {
            let end = (items - group * size).min(size) as u16;
            let chunks = (0..end).step_by(usize::from(self.chunk));
            acks.extend(chunks.map(|first| (group as u32, first, (first + self.chunk).min(end) - 1)));
        }
        let mut dice = StdRng::seed_from_u64(seed);
        acks.shuffle(&mut dice);
        let repeated = acks.len() * usize::from(repeated_percent) / 100;
        acks.extend_from_within(..repeated);
        acks.shuffle(&mut dice);
        (acks, repeated)
    }

    async fn ack_all(&self, acks: &[Range]) -> Result<()> {
        let bar = bar(acks.len() as u64, "{bar:40} {pos} of {len} acks  {per_sec}  {eta}");
        let ack = async |(group, first, last)| {
            let range = ItemRange { tracker: self.id.clone(), group, first, last };
            self.tracking().ack(&self.id, &[(range, Outcome::Succeeded)]).await??;
            bar.inc(1);
            Ok(())
        };
        let done = stream::iter(acks.iter().copied())
            .map(ack)
            .buffer_unordered(self.options.workers)
            .try_collect::<()>()
            .await;
        bar.finish_and_clear();
        done
    }

    fn figures(
        &self,
        (acks, repeated_acks): (u64, u64),
        seconds: f64,
        other: [f64; 2],
        acking: Usage,
        looking: Usage,
        memory: (Option<u64>, Option<u64>),
    ) -> Figures {
        let items = self.options.items;
        let items_f = items as f64;
        let (write, read) = (acking.capacity().write.count(), acking.capacity().read.count());
        let progress_read_units = looking.capacity().read.count();
        let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes / (1024 * 1024));
        Figures {
            items,
            chunk: self.chunk,
            workers: self.options.workers,
            acks,
            repeated_acks,
            seconds,
            acks_per_second: acks as f64 / seconds,
            items_per_second: items_f / seconds,
            write_units_per_ack: write / acks as f64,
            read_units_per_ack: read / acks as f64,
            write_units_per_item: write / items_f,
            read_units_per_item: read / items_f,
            collisions: acking.refused_writes,
            collisions_percent_of_write_units: 100.0 * acking.refused_writes as f64 / write.max(1.0),
            other_write_units: other.iter().sum(),
            progress_read_units,
            stored_bytes_per_item: progress_read_units * EVENTUAL_READ_BYTES / items_f,
            resident_mib_before: mib(memory.0),
            resident_mib_after: mib(memory.1),
        }
    }

    const fn tracking(&self) -> Tracking<'_, Dynamo, Sqs, System> {
        Tracking { store: &self.store, outbox: &self.outbox, env: &System }
    }
}
