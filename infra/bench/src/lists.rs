//! Long lists: what taking costs at each length, and many who release at once, some of whom are killed.
//!
//! Everything goes through the AWS SDK to the embedded DynamoDB, which says what each request consumed; released tasks
//! go into a ledger instead of a queue, which says whether one was lost or released twice. Units do not depend on the
//! machine; times do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_aws::Place;
use groupage_core::domain::list::{MAX_PUT, Move, Purpose};
use groupage_core::domain::{ListId, Timestamp};
use groupage_core::ports::{self, Lists, Moved};
use groupage_core::steps::list::{Listing, Refused};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::prelude::*;

/// Long lists: what taking a task costs at each length, and many who release at once, some of whom are killed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many tasks are on the list; one run for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 10_000, 1_000_000], value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    lengths: Vec<u64>,
    /// How many release at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    releasers: usize,
    /// Tasks of one release; one crowd for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    counts: Vec<u64>,
    /// Releases whose caller is killed, in a hundred.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    killed_percent: u8,
    /// Chooses who is killed, and when.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// What one length came to.
#[derive(Debug, Serialize)]
struct Figures {
    length: u64,
    puts_per_second: f64,
    write_units_per_put_task: f64,
    /// One conditional write that takes a task, at this length.
    taking_ms_median: f64,
    taking_ms_p99: f64,
    write_units_per_taking: f64,
    read_units_per_taking: f64,
    /// Many at once.
    crowds: Vec<Crowd>,
}

/// Many who release at once.
#[derive(Debug, Serialize)]
struct Crowd {
    releasers: usize,
    /// Tasks of one release.
    count: u64,
    releases: u64,
    killed: u64,
    released_per_second: f64,
    write_units_per_release: f64,
    read_units_per_release: f64,
    /// Takings that met another's.
    collisions: u64,
    /// Tasks that sweep had to feed on.
    fed_on_by_sweep: u64,
    /// Tasks that were sent more than once, under one id.
    sent_again: u64,
    lost: u64,
    doubled: u64,
}

/// Takings that are measured at each length.
const TAKINGS: usize = 200;
/// What is put or recorded is kept for so long: longer than the benchmark.
const RETENTION_MS: u64 = 86_400_000;
/// Tasks that a crowd releases at most.
const MAX_CROWD: u64 = 20_000;

/// Runs the benchmark once for each length.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let mut all = Vec::new();
    for length in &options.lengths {
        let figures = Bench::start(options, *length).await?.run().await?;
        output.one_of_several(&figures);
        all.push(figures);
    }
    output.all(&all);
    Ok(())
}

/// Every task that was sent, and how often.
#[derive(Debug, Default)]
struct Ledger(Mutex<HashMap<String, u64>>);

impl Outbox for Ledger {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<ports::Result<()>> {
        // Somebody may be killed while a request is under way.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        messages.into_iter().map(|message| *sent.entry(message.body).or_default() += 1).map(Ok).collect()
    }
}

impl Ledger {
    /// Different tasks, and all that were sent.
    fn counts(&self) -> (u64, u64) {
        let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (sent.len() as u64, sent.values().sum())
    }
}

/// This machine, some minutes later: for whom the dead have had their time.
struct Later;

impl Env for Later {
    fn now(&self) -> Timestamp {
        System.now().plus_ms(300_000)
    }

    fn random(&self) -> f64 {
        System.random()
    }

    fn fresh_id(&self) -> String {
        System.fresh_id()
    }

    async fn sleep(&self, ms: u64) {
        System.sleep(ms).await;
    }
}

struct Bench<'a> {
    options: &'a Args,
    length: u64,
    stack: embedded::Stack,
    meter: Arc<Meter>,
    store: Dynamo,
    ledger: Ledger,
    id: ListId,
}

impl<'a> Bench<'a> {
    async fn start(options: &'a Args, length: u64) -> Result<Self> {
        let stack = embedded::Stack::start(Storage::Memory, Ports::default()).await?;
        let meter = Arc::new(Meter::new());
        let store = stack.connection().store(RETENTION_MS, &meter);
        Ok(Self { options, length, stack, meter, store, ledger: Ledger::default(), id: ListId::new("bench") })
    }

    async fn run(self) -> Result<Figures> {
        let (before, started) = (self.meter.snapshot(), Instant::now());
        self.put().await?;
        let (seconds, put) = (started.elapsed().as_secs_f64(), self.meter.snapshot() - before);
        let before = self.meter.snapshot();
        let mut times = self.take().await?;
        let takings = times.len() as f64;
        let taken = (self.meter.snapshot() - before).at(Place::Lists);
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((takings * part) as usize).copied().unwrap_or_default();
        let (taking_ms_median, taking_ms_p99) = (at(0.5), at(0.99));
        let mut crowds = Vec::new();
        for count in &self.options.counts {
            crowds.push(self.crowd(*count).await?);
        }
        let figures = Figures {
            length: self.length,
            puts_per_second: self.length as f64 / seconds,
            write_units_per_put_task: put.capacity().write.count() / self.length as f64,
            taking_ms_median,
            taking_ms_p99,
            write_units_per_taking: taken.write.count() / takings,
            read_units_per_taking: taken.read.count() / takings,
            crowds,
        };
        self.stack.shutdown().await;
        Ok(figures)
    }

    async fn put(&self) -> Result<()> {
        let bar = bar(self.length, "{bar:40} {pos} of {len} tasks put  {per_sec}  {eta}");
        let mut next = 0;
        while next < self.length {
            let end = self.length.min(next + MAX_PUT as u64);
            let message = |n| format!("{{\"id\":\"task-{n}\",\"payload\":{{\"n\":{n}}}}}");
            let messages: Vec<String> = (next..end).map(message).collect();
            self.listing().put(&self.id, &next.to_string(), &messages).await??;
            next = end;
            bar.set_position(next);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Takes single tasks, one after the other, and says how long each taking took, in milliseconds. They are forgotten
    /// unsent, and not counted by the crowds.
    async fn take(&self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        let takings = TAKINGS.min(usize::try_from(self.length / 4).unwrap_or(usize::MAX));
        let Some(mut list) = self.store.list(&self.id).await? else { return Ok(times) };
        for n in 0..takings {
            let key = format!("take-{n}");
            let Some(reserve) = list.taking(&key, Purpose::Release { asked: 1 }, System.now()) else { break };
            let started = Instant::now();
            if let Moved::Yes(head) = self.store.move_head(&list.tail.life, &Move::Reserve(reserve)).await? {
                times.push(started.elapsed().as_secs_f64() * 1_000.0);
                list.head = head;
            }
            // So that the head is as small as it mostly is.
            if let Some(forget) = list.head.forgetting(&key)
                && let Moved::Yes(head) = self.store.move_head(&list.tail.life, &forget).await?
            {
                list.head = head;
            }
        }
        Ok(times)
    }

    /// Releases until enough is released, many at once; some are killed at any moment.
    async fn crowd(&self, count: u64) -> Result<Crowd> {
        let start = self.listing().progress(&self.id).await??;
        let wanted = (start.waiting / 2).min(MAX_CROWD);
        let (sent_before, all_before) = self.ledger.counts();
        let (before, started) = (self.meter.snapshot(), Instant::now());
        let killed = AtomicU64::new(0);
        let releases = (wanted / count).max(1);
        let release = async |n: u64| {
            let mut dice = StdRng::seed_from_u64(self.options.seed ^ n);
            let key = format!("crowd-{count}-{n}");
            let release = self.release(&key, count);
            if dice.random_range(0..100) >= u32::from(self.options.killed_percent) {
                return release.await;
            }
            killed.fetch_add(1, Ordering::Relaxed);
            let _ = tokio::time::timeout(Duration::from_millis(dice.random_range(0..30)), release).await;
            Ok(())
        };
        stream::iter(0..releases).map(release).buffer_unordered(self.options.releasers).try_collect::<()>().await?;
        let (seconds, used) = (started.elapsed().as_secs_f64(), self.meter.snapshot() - before);
        let sweep = Listing { store: &self.store, outbox: &self.ledger, env: &Later };
        let fed_on_by_sweep = sweep.look_after(&self.id, RETENTION_MS).await?.tasks;
        let end = self.listing().progress(&self.id).await??;
        let taken = end.released + end.releasing - start.released - start.releasing;
        let (sent, all) = self.ledger.counts();
        let (sent, all) = (sent - sent_before, all - all_before);
        let made = releases as f64;
        Ok(Crowd {
            releasers: self.options.releasers,
            count,
            releases,
            killed: killed.into_inner(),
            released_per_second: taken as f64 / seconds,
            write_units_per_release: used.at(Place::Lists).write.count() / made,
            read_units_per_release: used.at(Place::Lists).read.count() / made,
            collisions: used.refused_writes,
            fed_on_by_sweep,
            sent_again: all - sent,
            lost: taken.saturating_sub(sent),
            // A token in two releases would leave fewer different tasks than tokens taken, or more than were put.
            doubled: sent.saturating_sub(taken),
        })
    }

    async fn release(&self, key: &str, count: u64) -> Result<()> {
        loop {
            match self.listing().release(&self.id, key, count).await? {
                Err(Refused::Busy) => {
                    // What sweep does each minute.
                    let sweep = Listing { store: &self.store, outbox: &self.ledger, env: &Later };
                    sweep.look_after(&self.id, RETENTION_MS).await?;
                }
                answer => return Ok(answer.map(drop)?),
            }
        }
    }

    const fn listing(&self) -> Listing<'_, Dynamo, Ledger, System> {
        Listing { store: &self.store, outbox: &self.ledger, env: &System }
    }
}
