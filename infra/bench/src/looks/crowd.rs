//! A stack on which much waits, written straight into its tables.

use std::sync::Arc;

use anyhow::{Error, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use groupage_core::domain::Traits;
use groupage_core::domain::batch::Assumes;
use groupage_core::domain::failed::Failure;
use groupage_core::domain::stream::Offset;
use groupage_core::domain::{
    Batch, BatchId, Candidate, Exception, ListId, Member, NotificationQueue, Reason, Round, StreamId, Target, Task,
    TaskId, Timestamp, TrackerId, tracker,
};
use groupage_core::ports::{Batches, Settlement, Tasks};
use groupage_core::steps::list::Listing;
use groupage_core::steps::stream::{Event, Streaming};
use groupage_core::steps::track::Tracking;

use super::Args;
use crate::prelude::*;

/// Requests under way.
const AT_ONCE: usize = 64;
/// Batches of each route that are not done.
const BATCHES: u64 = 30;
/// Members of each batch.
const MEMBERS: u64 = 100;
/// What the batch with the largest item is numbered, and how many members a route allows it.
const LARGEST: u64 = 2_000;
const MOST_MEMBERS: u64 = 1_000;
/// The task queue takes 256,000 bytes, a task's fields and a tracker's among them.
const MOST_BYTES: usize = 255_000;
/// Failed tasks of each of the routes that have some.
const FAILED: u64 = 150;
/// Trackers, lists and streams, and what each holds.
const OF_EACH: u64 = 30;
const HELD: u64 = 50;
/// Longer than the benchmark.
const KEPT_MS: u64 = 30 * 86_400_000;

/// The stack, and the page of each kind that shows most.
pub struct Crowd<'a> {
    options: &'a Args,
    store: Dynamo,
    outbox: Sqs,
}

impl<'a> Crowd<'a> {
    /// Fills a stack that is empty.
    pub async fn fill(options: &'a Args, stack: &Stack) -> Result<Self> {
        let connection = stack.connection();
        let (store, outbox) = (connection.store(KEPT_MS, &Arc::default()), connection.sqs(&Arc::default()));
        let crowd = Self { options, store, outbox };
        connection.routes(&Arc::default()).push(&crowd.routes(), "bench", System.now()).await?;
        crowd.wait().await?;
        crowd.batch().await?;
        crowd.fail().await?;
        crowd.largest().await?;
        crowd.hold().await?;
        Ok(crowd)
    }

    /// Each page that a stack has, and of each kind of thing the one with most to show.
    pub fn pages(&self) -> Vec<String> {
        let of = ["overview", "routes", "targets", "failed", "dead-letters", "trackers", "held"].map(str::to_owned);
        let one = [
            "targets?route=r0".to_owned(),
            "target?id=r0:hot".to_owned(),
            "target?id=r1:t1".to_owned(),
            format!("batch?id={}", batch_id(0, 0)),
            "task?id=w-0".to_owned(),
            "task?id=f-0-0".to_owned(),
            format!("batch?id={}", batch_id(0, LARGEST)),
            format!("task?id={}", long_id(0)),
            "failed?route=r0".to_owned(),
            "dead-letters?queue=rejected".to_owned(),
            "tracker?id=held-0".to_owned(),
            "list?id=held-0".to_owned(),
            "stream?id=held-0".to_owned(),
            "search?id=nothing-has-this".to_owned(),
        ];
        of.into_iter().chain(one).collect()
    }

    fn routes(&self) -> String {
        let route = |n: u64| {
            let order = if n % 4 == 3 { ", ordered_by: key" } else { "" };
            let how = match n % 2 {
                0 => "downstream: pull".to_owned(),
                _ => format!("downstream: {{ http: {{ url: 'http://127.0.0.1:9/{n}' }} }}, limits: {{ in_flight: 4 }}"),
            };
            format!("  - {{ name: r{n}, when: \"kind == 'r{n}'\", target: t{order}, {how} }}\n")
        };
        format!("version: 1\nroutes:\n{}", (0..self.options.routes).map(route).collect::<String>())
    }

    /// Tasks that wait: a tenth of them for one Target.
    async fn wait(&self) -> Result<()> {
        let Args { tasks, targets, routes, .. } = *self.options;
        let now = System.now();
        let bar = bar(tasks, "{bar:40} {pos} of {len} tasks wait  {per_sec}  {eta}");
        let target = |n: u64| match n % 10 {
            0 => Target::new("r0:hot"),
            _ => Target::new(format!("r{}:t{}", n % targets % routes, n % targets)),
        };
        let payload = format!("{{\"t\":\"x\",\"text\":\"{}\"}}", "x".repeat(200));
        let put = async |n: u64| {
            let at = Timestamp(now.0 - n % 600_000);
            let task = Task::new(TaskId::new(format!("w-{n}")), target(n), payload.clone(), "d".repeat(32), at);
            self.store.register(&task).await?;
            bar.inc(1);
            Ok::<_, groupage_core::ports::Error>(())
        };
        stream::iter((0..tasks).map(put)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Batches that wait for their call.
    async fn batch(&self) -> Result<()> {
        for route in 0..self.options.routes {
            for n in 0..BATCHES {
                let member = |m: u64| TaskId::new(format!("b-{route}-{n}-{m}"));
                let members: Vec<Candidate> = (0..MEMBERS)
                    .map(|m| Candidate { id: member(m), round: Round(0), bytes: 200, traits: Traits::default() })
                    .collect();
                let target = Target::new(format!("r{route}:t{n}"));
                let mut batch = Batch::express(BatchId::new(batch_id(route, n)), target, &members, System.now());
                batch.pulled = route % 2 == 0;
                self.store.store(&batch, Assumes::Absent).await?;
            }
        }
        Ok(())
    }

    /// Failed tasks of the first routes.
    async fn fail(&self) -> Result<()> {
        let now = System.now();
        for (route, n) in (0..4).flat_map(|route| (0..FAILED).map(move |n| (route, n))) {
            let (id, target) = (TaskId::new(format!("f-{route}-{n}")), Target::new(format!("r{route}:t1")));
            let task = Task::new(id.clone(), target.clone(), "{}".to_owned(), String::new(), now);
            let batch = BatchId::new(batch_id(route, 1_000));
            self.store.register(&task).await?;
            self.store.join(&id, task.round, &batch).await?;
            let reason = Reason::new(format!("http_42{}", n % 3));
            let failure = Failure { target, reason, attempts: 1, answer: None, keep_ms: KEPT_MS };
            let member = Member { id, round: task.round };
            self.store.settle(&member, &batch, &Settlement::Failed(failure), now).await?;
        }
        Ok(())
    }

    /// The largest items that may be: a batch of as many members as a route allows, all of which failed, with ids and
    /// reasons as long as they may be. The first of them has the largest payload that the task queue takes.
    async fn largest(&self) -> Result<()> {
        let now = System.now();
        let (target, id) = (Target::new("r0:largest"), BatchId::new(batch_id(0, LARGEST)));
        let members: Vec<Candidate> = (0..MOST_MEMBERS)
            .map(|n| Candidate { id: TaskId::new(long_id(n)), round: Round(0), bytes: 200, traits: Traits::default() })
            .collect();
        let reason = Reason::new("x".repeat(64));
        let failed = Exception::Failed { reason: reason.clone(), attempts: 50 };
        let results = members.iter().map(|member| (member.id.clone(), failed.clone())).collect();
        let batch = Batch::express(id.clone(), target.clone(), &members, now).settled(results, now).followed_up();
        self.store.store(&batch, Assumes::Absent).await?;
        let payload = format!("{{\"t\":\"{}\"}}", "x".repeat(MOST_BYTES));
        let task = Task::new(members[0].id.clone(), target.clone(), payload, "d".repeat(32), now);
        self.store.register(&task).await?;
        self.store.join(&task.id, task.round, &id).await?;
        let failure = Failure { target, reason, attempts: 50, answer: None, keep_ms: KEPT_MS };
        let member = Member { id: task.id, round: task.round };
        self.store.settle(&member, &id, &Settlement::Failed(failure), now).await?;
        Ok(())
    }

    /// Trackers, lists and streams, each with something in it.
    async fn hold(&self) -> Result<()> {
        let (store, outbox, env) = (&self.store, &self.outbox, &System);
        let tracking = Tracking { store, outbox, env };
        let listing = Listing { store, outbox, env };
        let streaming = Streaming { store, outbox, env };
        for n in 0..OF_EACH {
            let name = format!("held-{n}");
            let options = tracker::Options { deadline: None, notify: NotificationQueue::None };
            tracking.open(TrackerId::new(&name), options).await??;
            tracking.add(&TrackerId::new(&name), "first", 20_000).await??;
            let messages: Vec<String> =
                (0..HELD).map(|m| format!("{{\"id\":\"l-{n}-{m}\",\"payload\":{{}}}}")).collect();
            listing.put(&ListId::new(&name), "first", &messages).await??;
            let stream = StreamId::new(&name);
            streaming.open(stream.clone(), Default::default()).await??;
            let event = |m: u64| {
                let offset = Offset::parse(&m.to_string()).map_err(Error::msg)?;
                Ok(Event { offset, body: format!("{{\"id\":\"s-{n}-{m}\",\"payload\":{{}}}}") })
            };
            let events: Vec<Event> = (0..HELD).map(event).collect::<Result<_>>()?;
            streaming.feed(None, &stream, 0, &events).await??;
        }
        Ok(())
    }
}

/// An id as long as it may be.
fn long_id(n: u64) -> String {
    format!("{n:0>128}")
}

/// A batch's id, as long as they are.
fn batch_id(route: u64, n: u64) -> String {
    groupage_core::domain::id::digest(&["bench", &route.to_string(), &n.to_string()])
}
